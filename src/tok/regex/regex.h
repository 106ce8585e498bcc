/* tok/regex/regex.h: the patterns of tokenizer.json. They are written for Oniguruma; PCRE2 runs
 * them after a translation that removes the differences that matter (see regex_dialect.c). */
#ifndef PITH_TOK_REGEX_REGEX_H
#define PITH_TOK_REGEX_REGEX_H

#include "base/progress.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pith_regex;

/* Scratch of one text for any number of patterns; start with {0}, or with the beat of a listener.
 */
struct pith_regex_run {
    void *data;            /* match data */
    void *quick, *counted; /* match contexts with the limits */
    uint64_t left;         /* steps that this text's patterns may still take */
    struct pith_beat beat;
};

/* Compiles a pattern of `len` bytes. PITH_FORMAT when it is not a pattern, PITH_UNSUPPORTED when it
 * uses what cannot be translated. Immutable afterwards: any number of threads may use it. */
enum pith_status pith_regex_new(const char *pattern, size_t len, struct pith_regex **out,
                                struct pith_error *err);
/* The same for a literal text. */
enum pith_status pith_regex_literal(const char *text, size_t len, struct pith_regex **out,
                                    struct pith_error *err);
void pith_regex_free(struct pith_regex *re);

/* Called for each part of a text in order: `match`: a match, else the text between two of them. */
typedef enum pith_status pith_regex_part_fn(void *ctx, size_t from, size_t to, bool match,
                                            struct pith_error *err);

/* Cuts well-formed text into matches and the rest, which together cover it (an empty match gives an
 * empty part). PITH_LIMIT, naming the pattern and the place, when the patterns that `run` served
 * took more steps than their texts' bytes allow; PITH_INTERRUPTED when the listener asks. */
enum pith_status pith_regex_parts(const struct pith_regex *re, struct pith_regex_run *run,
                                  const char *text, size_t len, pith_regex_part_fn *fn, void *ctx,
                                  struct pith_error *err);
void pith_regex_run_free(struct pith_regex_run *run);

/* Writes the PCRE2 spelling of an Oniguruma pattern. With `newer`, properties also cover the
 * characters that Unicode 15 and 16 added. *has_property: whether that made a difference. */
enum pith_status pith_regex_translate(const char *pattern, size_t len, bool newer,
                                      bool *has_property, struct pith_str *out,
                                      struct pith_error *err);

#endif
