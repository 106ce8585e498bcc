/* quantize/output/output.h: what a run writes: its shards, and the tensors that go into them.
 *
 *   output.c   config, side files, shards    store.c    pack, write, read back */
#ifndef PITH_QUANTIZE_OUTPUT_OUTPUT_H
#define PITH_QUANTIZE_OUTPUT_OUTPUT_H

#include "quantize/job.h"
#include "quantize/phases.h"

struct pith_run;

typedef char pith_hash_text[PITH_SHA256_HEX];

/* A tensor as it lies in the output. */
struct pith_stored {
    const char *name; /* the layout's */
    uint64_t bytes;
    char sha256[PITH_SHA256_HEX];
};

/* What became of one linear, from rounding to reading back. */
struct pith_linear_result {
    struct pith_round_report report;
    double relative_error, bits_per_weight;
    char sha256[PITH_SHA256_HEX]; /* of the dequantized weights */
    struct pith_stored stored[PITH_MAX_PACKED];
    unsigned stored_count;
    uint64_t memory, mapped; /* bytes, anonymous and of mapped files, at the peak */
};

/* A tensor of the input on its way to the output, unchanged. */
struct pith_copy {
    const struct pith_tensor *tensor;
    const char *reason;
    bool elsewhere; /* another process's to store */
    struct pith_stored stored;
    enum pith_status status;
    struct pith_error err;
};

struct pith_output {
    bool owns_partial;               /* what is in the partial folder is this job's */
    int lock;                        /* on the folder, -1 without it */
    struct pith_out *shards;         /* [layout.shards] */
    struct pith_stamp *reread;       /* [layout.shards], from before they were read back, or NULL */
    struct pith_checkpoint *written; /* the partial folder, open for reading back */
    void *written_state;             /* its container's */
};

/* Bytes of a linear's entry in the account as a tree, before it is done; *text, as text. */
uint64_t pith_linear_json_bytes(const struct pith_job *job, const struct pith_choice *c,
                                uint64_t *text);

/* Makes or reopens the partial folder: shard files with headers, config.json, side files; opens it
 * for reading back. What is open is closed by pith_output_close(), also after a failure. */
enum pith_status pith_output_open(const struct pith_job *job, struct pith_output *out,
                                  struct pith_error *err);
/* Opens what another process has made so, to write and read back there. */
enum pith_status pith_output_follow(const struct pith_job *job, struct pith_output *out,
                                    struct pith_error *err);
/* What was written so far is on the disk. */
enum pith_status pith_output_sync(const struct pith_job *job, const struct pith_output *out,
                                  struct pith_error *err);
void pith_output_close(const struct pith_job *job, struct pith_output *out);

/* store.c: hashes `bytes` bytes, writes them at the place of the tensor `name` and compares what
 * the file then holds. With `checked`, whose bytes these are: PITH_NUMERIC when a value is not
 * finite. For tasks too: tensors do not touch each other. */
enum pith_status pith_store_bytes(const struct pith_run *r, const char *name, const void *data,
                                  size_t bytes, const struct pith_tensor *checked,
                                  struct pith_stored *out, struct pith_error *err);
/* pith_store_linear() of a matrix that all processes have: one of them stores it (writers.h), and
 * elsewhere *out has no hash yet. All processes make the calls in the same order. */
enum pith_status pith_store_shared(struct pith_run *r, const struct pith_choice *c,
                                   const struct pith_qmat *q, struct pith_linear_result *out,
                                   struct pith_error *err);
/* Packs a matrix, writes it, reads it back through the container's own reader and compares. Fills
 * what out says of the stored tensors. For tasks too. */
enum pith_status pith_store_linear(const struct pith_run *r, const char *module,
                                   const struct pith_qmat *q, struct pith_linear_result *out,
                                   struct pith_phases *time, struct pith_error *err);
/* What another process has stored: the tensors' names, no hashes yet. */
enum pith_status pith_store_elsewhere(const struct pith_run *r, const struct pith_choice *c,
                                      struct pith_linear_result *out, struct pith_error *err);
/* A linear's entry in the account; a new reference, NULL when memory is out. */
json_t *pith_linear_json(const struct pith_choice *c, const struct pith_linear_result *l,
                         bool transformed);
/* Copies a tensor of the input unchanged and appends its account {"name", "action", "reason",
 * "stored"}. */
enum pith_status pith_store_copy(struct pith_run *r, const char *name, const char *reason,
                                 json_t *tensors, struct pith_error *err);
/* The same for several tensors (list[i].tensor and reason), over all threads. */
enum pith_status pith_store_copies(struct pith_run *r, struct pith_copy *list, size_t count,
                                   json_t *tensors, struct pith_error *err);
/* Stores float32 values in place of an input tensor, in its dtype; appends its account. */
enum pith_status pith_store_values(struct pith_run *r, const char *name, const float *values,
                                   const char *action, const char *reason, json_t *tensors,
                                   struct pith_error *err);

/* Stores numbers under a name that the input has not, as F32; appends their account. */
enum pith_status pith_store_scales(struct pith_run *r, const char *name, const float *scale,
                                   size_t count, json_t *tensors, struct pith_error *err);

/* Gives rows [first, first + n) of a tensor as float32. */
typedef enum pith_status pith_rows_fn(void *ctx, uint32_t first, uint32_t n, float *out,
                                      struct pith_error *err);
/* A matrix that is made some rows at a time; `like` has its shape and dtype. */
struct pith_made {
    const char *name;
    const struct pith_tensor *like;
    pith_rows_fn *rows;
    void *ctx;
    const char *action, *reason;
};
/* Stores it in the layout's dtype; appends its account. PITH_NUMERIC when a value does not fit. */
enum pith_status pith_store_made(struct pith_run *r, const struct pith_made *m, json_t *tensors,
                                 struct pith_error *err);
/* The rows that pith_store_made() makes at a time, and bytes that it takes. */
uint32_t pith_made_rows(uint32_t cols);
uint64_t pith_made_bytes(uint32_t cols);

/* A tensor that is made in parts of one size, in order. */
typedef enum pith_status pith_part_fn(void *ctx, uint32_t part, uint8_t *out,
                                      struct pith_error *err);
struct pith_parts {
    const char *name;
    uint32_t count;
    pith_part_fn *make;
    void *ctx;
    const char *action, *reason;
};
/* Stores it, holding a part at a time; appends its account. */
enum pith_status pith_store_parts(struct pith_run *r, const struct pith_parts *m, json_t *tensors,
                                  struct pith_error *err);
/* The values of a tensor that is at hand, as `as` says, in a dtype. *made has the bytes, owned by
 * the caller whatever comes back; errors as below. */
enum pith_status pith_store_recode(const struct pith_tensor *t, enum pith_dtype dtype,
                                   enum pith_stored_as as, uint8_t **made, struct pith_error *err);
/* Rounds n values to a dtype's bytes; PITH_NUMERIC, naming the tensor, when one does not fit. */
enum pith_status pith_store_encode(const char *name, enum pith_dtype dtype, const float *values,
                                   size_t n, void *data, struct pith_error *err);

/* joined_tensors.c: what a transform made of a layer's linears. */
struct pith_changes {
    /* The floats that a linear's matrix or bias became, NULL: it is as in the input. */
    const float *(*values)(void *ctx, uint32_t linear, bool bias);
    const char *(*action)(const void *ctx, uint32_t linear, bool bias); /* how they became so */
    void *ctx;
};
/* Stores job->wholes of a layer; appends their account. */
enum pith_status pith_store_wholes(struct pith_run *r, uint32_t layer, const struct pith_changes *c,
                                   json_t *tensors, struct pith_error *err);

/* PITH_NUMERIC when a tensor holds a value that is not finite; tensors of integers hold none. */
enum pith_status pith_tensor_check_finite(const struct pith_tensor *t, struct pith_error *err);
/* The same for `count` of its values. */
enum pith_status pith_tensor_check_part(const struct pith_tensor *t, uint64_t first, uint64_t count,
                                        struct pith_error *err);
/* The SHA-256 of a matrix's dequantized values, row-major float32, by the calling thread.
 * PITH_NUMERIC when one is not finite. */
enum pith_status pith_weights_digest(const struct pith_backend *be, const struct pith_weight *w,
                                     char hex[PITH_SHA256_HEX], struct pith_error *err);

#endif
