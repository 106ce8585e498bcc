/* model/runner.h: many sequences over one model.
 *
 * A step takes spans: of each sequence some more tokens, a whole prompt or a single one. Their rows
 * go through the linears as one matrix; attention takes each sequence's own pages.
 *
 *     open -> step -> step -> ... -> close
 *       |       fork: another sequence with the same beginning, which shares its pages
 *       |       rewind: fewer tokens, others may follow
 *
 * The bits of a sequence depend on its tokens alone: not on who else is in a step, nor on how its
 * prompt was cut, nor on threads. Only where a linear's input has one scale over a whole call
 * (LLM.int8()'s columns, int8:tensor) they depend on the cut: a span is a separate call there.
 * A step allocates nothing. Thread-compatible: one thread at a time. */
#ifndef PITH_MODEL_RUNNER_H
#define PITH_MODEL_RUNNER_H

#include "model/model.h"

/* Tokens of a prompt that are worth computing at once: with more, weights are unpacked less often,
 * but the work space grows. */
enum { PITH_PROMPT_CHUNK = 512 };

struct pith_runner_options {
    uint32_t sequences;           /* open at once, at most */
    size_t context;               /* tokens of one, at most */
    size_t tokens;                /* in pages of all together; 0: as many as fill all sequences */
    size_t rows;                  /* tokens computed at once, at most */
    struct pith_kv_format format; /* of the cache */
    bool keep; /* pages behind windows stay: a rewound sequence need not be read again */
};

struct pith_runner {
    struct pith_model *model; /* borrowed, as is the backend */
    struct pith_backend *backend;
    struct pith_kv kv;
    struct pith_scratch scratch;
    int32_t *ids; /* [sequences][context]: to read again what cannot be cut back, or NULL */
    float *rows;  /* [scratch.rows][hidden]: of several spans; NULL where there is ever one */
    struct pith_kv_span *span; /* [sequences]: those of the rows that are computed at once */
    bool apart;                /* a linear's input is surveyed: spans are computed one by one */
    void *memory;              /* of the lists */
};

/* PITH_ARG without loaded blocks, for a size of 0 or another dtype; on failure *r owns nothing. */
enum pith_status pith_runner_init(struct pith_runner *r, struct pith_model *m,
                                  struct pith_backend *be, const struct pith_runner_options *o,
                                  struct pith_error *err);
/* Frees what r owns and zeroes it. */
void pith_runner_free(struct pith_runner *r);
/* Bytes that pith_runner_init() takes, the cache among them; UINT64_MAX when they overflow. */
uint64_t pith_runner_bytes(const struct pith_model *m, const struct pith_runner_options *o);

/* A sequence of no tokens. PITH_LIMIT when all are open. */
enum pith_status pith_runner_open(struct pith_runner *r, uint32_t *sequence,
                                  struct pith_error *err);
void pith_runner_close(struct pith_runner *r, uint32_t sequence);
/* Opens a sequence that begins with the first `length` tokens of another (at most what it has).
 * Pages are shared until one of them is written to. */
enum pith_status pith_runner_fork(struct pith_runner *r, uint32_t from, size_t length,
                                  uint32_t *sequence, struct pith_error *err);
/* Forgets all tokens beyond `length`. What cannot be cut back (a recurrent state; pages that were
 * freed behind a window) is read again by the next step, to the same bits: from the place that a
 * sequence was last rewound to, or from its beginning. */
void pith_runner_rewind(struct pith_runner *r, uint32_t sequence, size_t length);
size_t pith_runner_length(const struct pith_runner *r, uint32_t sequence);

struct pith_step_span {
    uint32_t sequence; /* open, and in no other span of the step */
    const int32_t *ids;
    size_t n; /* any; longer ones go in parts */
    float *x; /* [n][hidden]: receives the rows' hidden values, before the final norm */
};
/* PITH_LIMIT when tokens do not fit a sequence's context or the pool, PITH_ARG for an id outside
 * the vocabulary or a sequence named twice; on failure every sequence is as it was before. */
enum pith_status pith_runner_step(struct pith_runner *r, const struct pith_step_span *span,
                                  size_t spans, struct pith_error *err);

#endif
