/* eval/task/sandbox.h: a program that a model wrote is run where it can do no harm: in bubblewrap's
 * namespaces (no network, no other process, of the machine's files /usr to read), with 1 GiB of
 * memory, 16 MiB of files that go with it, 32 processes, 5 seconds of processor time and 20 by the
 * clock. */
#ifndef PITH_EVAL_TASK_SANDBOX_H
#define PITH_EVAL_TASK_SANDBOX_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether programs can be run here: PITH_UNSUPPORTED says what is missing (bwrap, prlimit,
 * /usr/bin/python3, namespaces for users). */
enum pith_status pith_sandbox_check(struct pith_error *err);

/* Runs n bytes of Python. *passed: they came to their end, in time; a program that ends early, with
 * whatever status, has not. PITH_IO, PITH_NOMEM: it could not be run. */
enum pith_status pith_sandbox_run(const char *program, size_t n, bool *passed,
                                  struct pith_error *err);

#endif
