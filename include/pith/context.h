/* pith/context.h: the threads and instruction sets that every computing call uses. */
#ifndef PITH_CONTEXT_H
#define PITH_CONTEXT_H

#include <pith/progress.h>
#include <pith/status.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pith_context;

/* Makes a context. threads: 0 for all CPUs that the process may use. cpu: "auto", or the best
 * instruction set to use ("scalar", "avx2", "avx512", "vnni", "bf16", "neon", "dotprod"); NULL
 * means auto. Results in the exact mode do not depend on either. On success the caller owns *out; a
 * context serves one call at a time. PITH_ARG for an unknown name or an instruction set that the
 * CPU lacks. */
PITH_API enum pith_status pith_context_new(unsigned threads, const char *cpu,
                                           struct pith_context **out, struct pith_error *err);

/* How the context's later calls compute: "exact" (as made), what the numbers mean, for judging
 * quality; or "fast", what a CPU does best: with integer weights of at most 8 bits the activations
 * are rounded to bytes, a scale for 64 of them (docs/performance.md has the difference). PITH_ARG
 * for another name; NULL means exact. */
PITH_API enum pith_status pith_context_set_mode(struct pith_context *context, const char *mode,
                                                struct pith_error *err);

/* Who follows the context's calls: `progress` is called by every call whose options name no own
 * listener, loading a model, pith_inspect() and pith_diff() among them, and may stop it. `log`
 * receives what is worth a line and is no failure (a config key that is probably misspelt), from
 * the thread that made the call, without a line end; NULL: nobody. A line that begins with "time: "
 * says how long a call is expected to take. */
typedef void pith_log_fn(void *ctx, const char *line);
PITH_API void pith_context_listen(struct pith_context *context, struct pith_progress progress,
                                  pith_log_fn *log, void *log_ctx);

/* For a program that a launcher of MPI started several times: joins the others ("ranks"), by the
 * shared object at that path (libpith_mpi.so). From here on, calls whose work can be shared
 * (pith_quantize() says what that is) are made by all ranks alike; rank 0 writes what is made and
 * has the report, the others get none. A failure of one is a failure of all. The context's listener
 * is called while a rank waits. PITH_UNSUPPORTED when the object cannot be loaded, PITH_IO when
 * MPI does not start. Call it once, after pith_context_listen(), by the thread that makes the
 * calls. */
PITH_API enum pith_status pith_context_join(struct pith_context *context, const char *object,
                                            struct pith_error *err);
/* This process's rank, and how many there are: 0 of 1 where nobody was joined. */
PITH_API unsigned pith_context_rank(const struct pith_context *context);
PITH_API unsigned pith_context_ranks(const struct pith_context *context);
/* After a call that was interrupted: nonzero when rank 0 answers (it is this one, or nobody was
 * joined, or it ends too), 0 when it does not: it was killed, or cannot be reached. The last call
 * before pith_context_free(). */
PITH_API int pith_context_answers(struct pith_context *context);

/* Frees *context and sets it to NULL; NULL and a NULL *context are allowed. */
PITH_API void pith_context_free(struct pith_context **context);

/* Threads in use, and the instruction set in use ("avx2"). */
PITH_API unsigned pith_context_threads(const struct pith_context *context);
PITH_API const char *pith_context_cpu(const struct pith_context *context);

/* For a program that wants no file to end it: from here on, in the whole process, a mapped file
 * that becomes shorter while it is read (SIGBUS) and a write beyond the limit on the size of files
 * (SIGXFSZ) are errors of the call that was at work, PITH_IO with the file's name. SIGBUS at other
 * addresses goes to the handler from before this call; a SIGXFSZ that is handled already stays so.
 * May be called again, to no effect. The library installs nothing by itself. */
PITH_API enum pith_status pith_guard_files(struct pith_error *err);

/* For a program that wants its own memory to be what is in use: from here on, in the whole process,
 * malloc gives back to the system what was freed (blocks of 32 KiB and more at once, smaller ones
 * but for the end of each heap), at the price of a page fault or two for each such block. By
 * default glibc keeps blocks of up to 32 MiB, in pieces between small ones that live long.
 * Estimates of memory hold where this was called before other threads were started. No effect
 * elsewhere. */
PITH_API void pith_return_memory(void);

/* For a program that wants the kernel to enforce a ceiling on its memory: from here on the whole
 * process may allocate `bytes` (mapped files do not count), and a request beyond
 * fails, as PITH_NOMEM of the call that was at work. What the process has mapped so far and nobody
 * has touched comes on top. PITH_IO when the kernel does not say how much that is or takes no
 * limit, PITH_LIMIT when a lower one is set already. */
PITH_API enum pith_status pith_limit_memory(uint64_t bytes, struct pith_error *err);

/* Frees text that another call of the library handed over; NULL is allowed. */
PITH_API void pith_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
