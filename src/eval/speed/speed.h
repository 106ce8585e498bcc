/* eval/speed/speed.h: how fast a model reads a prompt and makes tokens, and how near that is to
 * what the machine can do (backend/roof.h). */
#ifndef PITH_EVAL_SPEED_SPEED_H
#define PITH_EVAL_SPEED_SPEED_H

#include "backend/roof.h"
#include "base/arena.h"
#include "model/model.h"

#include <pith/progress.h>

/* Median, least and most of several measurements of the same. */
struct pith_spread {
    double median, least, most;
};
/* values[n] is put in order; n = 0 gives zeros. The median of an even number is the mean of the two
 * in the middle. */
struct pith_spread pith_spread_of(double *values, size_t n);
/* Field by field the medians of n samples, 0 without any; scratch[n]. */
struct pith_roof_sample pith_roof_median(const struct pith_roof_sample *samples, size_t n,
                                         double *scratch);

/* Bytes of a matrix in memory: codes, scales, zero points, the order of columns. */
double pith_speed_matrix_bytes(const struct pith_weight *w);
/* Bytes that making so many tokens in one step reads, in the weights' form in memory: every matrix
 * of the blocks and the head once, of experts as many as one token takes, or as are likely taken by
 * several that choose by lot, a row of the embedding each, biases and norms. Needs m->blocks. */
double pith_speed_weight_bytes(const struct pith_model *m, size_t tokens);
/* Bytes of keys and values (or latents, or recurrent states) that a token at position `position`
 * (which sees itself and all before, or the window) reads from a cache of that format. Position may
 * be a mean. */
double pith_speed_kv_bytes(const struct pith_plans *p, double position,
                           const struct pith_kv_format *f);
/* Bytes that a sequence of `length` tokens takes in a pool: whole pages, behind a window none, and
 * recurrent states. */
double pith_speed_cache_bytes(const struct pith_plans *p, size_t length,
                              const struct pith_kv_format *f);
/* Multiply-adds count two: operations of the linears for `tokens` tokens of a prompt, and of the
 * head for the last. Attention is not counted. */
double pith_speed_prefill_operations(const struct pith_model *m, size_t tokens);

enum { PITH_SPEED_SEQUENCES = 1024 }; /* at most */

/* What to time. */
struct pith_speed_job {
    struct pith_backend *backend;
    struct pith_model *model; /* blocks loaded */
    size_t prompt;            /* tokens of the prompt; 0: not timed */
    size_t gen;               /* tokens to make; 0: not timed */
    struct pith_kv_format kv; /* of the cache */
    size_t depth;             /* positions of the cache that are taken before either */
    size_t sequences; /* more than 1: so many at that depth also make tokens together, one a step */
    size_t reps;      /* at least 1 */
    /* Products of bytes that a multiply-add of a prompt is made of, whose peak it is compared with;
     * 0: none. */
    unsigned byte_products;
    uint64_t seed; /* of the token ids, which do not matter */
    const struct pith_progress *progress;
};

struct pith_speed {
    /* Seconds from the start of a prompt to its first token, and of one token after it. */
    struct pith_spread first_token, token;
    /* Of the same: seconds that all threads together had processors for. */
    struct pith_spread first_processor, token_processor;
    /* Bytes a second of a token by roof.read_all; operations a second of a prompt by the peak (of
     * bytes: divided by their products): each repetition by the mean of the measurements just
     * before and after it. */
    struct pith_spread of_bandwidth, of_peak;
    const char *peak; /* "f32", or "int8" for byte_products where the tier has such instructions */
    unsigned byte_products;    /* the job's with that peak, else 0 */
    double cold_first_token;   /* the same the first time, nothing warmed up */
    double weight_bytes;       /* a token, as above */
    double kv_bytes;           /* a token, at the mean depth of those that were made */
    double prefill_operations; /* a prompt */
    /* Of the sequences together: seconds of a step, fraction of the bandwidth, their tokens a
     * second by those of one just before; bytes that a step reads, and that they take. */
    struct {
        struct pith_spread step, processor, of_bandwidth, times_one;
        double weight_bytes, kv_bytes, cache_bytes;
    } many;
    struct pith_roof_sample roof; /* medians of the measurements around all that was timed */
    /* Bytes when all was warm: most memory of the process so far, all of it, and its anonymous
     * memory without mapped files (0 where unknown). The roof's memory is not in them. */
    uint64_t memory_peak, memory_own;
};

/* Warms up, then times `reps` prompts and generations, with the roof measured before and after
 * each. Prompts and generations all start at `depth`; the positions before it hold keys and values
 * that were made up, since computing them costs hours and changes no time. PITH_ARG when nothing is
 * to be timed, or sequences without tokens, PITH_LIMIT for more than 2^31 positions. */
enum pith_status pith_speed_measure(const struct pith_speed_job *job, struct pith_speed *out,
                                    struct pith_error *err);
/* What it takes, by its layouts: what is allocated while anything is timed, and then the roof's.
 * The model need not be loaded. */
size_t pith_speed_rows(const struct pith_speed_job *job); /* computed at once, at most */
void pith_speed_meter(const struct pith_speed_job *job, struct pith_meter *meter);

#endif
