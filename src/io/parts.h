/* io/parts.h: what the containers share: a module's tensors in a checkpoint, sets of tensors to be
 * written, and the reshaping of codes, scales and zero points between a pith_qmat (row by row) and
 * layouts that run the other way. Inside io/ only. All data is little endian, as the host is. */
#ifndef PITH_IO_PARTS_H
#define PITH_IO_PARTS_H

#include "io/container/container.h"

/* --- reading ---------------------------------------------------------------------------------- */

/* A tensor that a module must have. */
struct pith_part {
    const char *suffix; /* ".qweight" */
    uint32_t dtypes;    /* bits 1 << PITH_I32 and the like: what is accepted */
    unsigned dims;
    uint64_t shape[2];
};
#define PITH_PART_FLOATS (1u << PITH_F16 | 1u << PITH_BF16 | 1u << PITH_F32)

/* Tensor module + suffix, NULL when absent. */
const struct pith_tensor *pith_part_find(const struct pith_checkpoint *c, const char *module,
                                         const char *suffix);
/* The same with dtype and shape checked, sides of 1 left aside ([] is [1], [N] is [N, 1]):
 * PITH_FORMAT when it is missing or of another shape, PITH_UNSUPPORTED for another dtype. */
enum pith_status pith_part_get(const struct pith_checkpoint *c, const char *module,
                               const struct pith_part *want, const struct pith_tensor **out,
                               struct pith_error *err);
/* Whether a module has plain weights, in 16 or 32 bits, and none of these: tensors with the
 * suffixes `codes` and `scale`, either of which may be NULL. */
bool pith_part_plain(const struct pith_checkpoint *c, const char *module, const char *codes,
                     const char *scale);
/* Whether a grid's scales are one for all or one a row is seen from their number. */
void pith_part_see_scales(const struct pith_checkpoint *c, const char *module, const char *suffix,
                          uint64_t rows, struct pith_grid *grid);
/* Fails when the tensor exists: `why` is what makes it wrong. */
enum pith_status pith_part_absent(const struct pith_checkpoint *c, const char *module,
                                  const char *suffix, const char *why, struct pith_error *err);
/* Reads I32 columns' groups [q->cols] into q->g_idx, checking their range; identity is dropped. */
enum pith_status pith_part_g_idx(const struct pith_tensor *t, struct pith_qmat *q,
                                 struct pith_error *err);
/* Reads scales of q->scale_dtype into q->scales; by_group: the tensor is [groups][rows]. */
void pith_part_scales(const struct pith_tensor *t, bool by_group, struct pith_qmat *q);
/* Reads codes of one byte, of q->scale_dtype (F8_E8M0, F8_E4M3), as their values into q->scales. */
void pith_part_scale_codes(const struct pith_tensor *t, struct pith_qmat *q);
/* Reads codes that lie as q's do, `bytes` a row: borrows them where they are q's to the byte. */
void pith_part_rows(const struct pith_tensor *t, size_t bytes, struct pith_qmat *q);
/* Reads I8 [rows][cols], codes less the format's middle. PITH_FORMAT when one does not fit the
 * format. */
enum pith_status pith_part_signed_codes(const struct pith_tensor *t, struct pith_qmat *q,
                                        struct pith_error *err);
/* n signed bytes to codes of integers f; false when one does not fit. */
bool pith_signed_to_codes(const struct pith_format *f, const uint8_t *in, size_t n, uint8_t *codes);
/* Reads one number: a tensor of one element. *found false when there is none; PITH_FORMAT for
 * another shape, or unless it is finite and above 0. */
enum pith_status pith_part_factor(const struct pith_checkpoint *c, const char *module,
                                  const char *suffix, float *out, bool *found,
                                  struct pith_error *err);
/* Drops q->zeros when all of them are the symmetric grid's. */
void pith_qmat_drop_zeros(struct pith_qmat *q);
/* pith_qmat_check() with the module's name before the message. Frees q on failure. */
enum pith_status pith_part_check(const char *module, struct pith_qmat *q, struct pith_error *err);
/* The end of a container's load(), where `filled` is what reading into q's storage came to: frees q
 * and names the module when that failed, else pith_part_check(); *found when all is well. */
enum pith_status pith_part_end(const char *module, enum pith_status filled, struct pith_qmat *q,
                               bool *found, struct pith_error *err);

/* --- writing ---------------------------------------------------------------------------------- */

/* Adds a tensor without data to the set. */
void pith_packed_add(struct pith_packed_set *set, const char *suffix, enum pith_dtype dtype,
                     unsigned dims, const uint64_t *shape);
/* Allocates the data of all (zeroed); on failure the set is freed. */
enum pith_status pith_packed_alloc(struct pith_packed_set *set, struct pith_error *err);

/* Stores q's scales as dtype; by_group: as [groups][rows] instead of [rows][groups]; a scale of the
 * whole tensor or of a block is repeated when `rows` are q's (pith_qmat_scale_rows() to store each
 * once). PITH_NUMERIC when one is not exactly representable. */
enum pith_status pith_scales_store(const struct pith_qmat *q, enum pith_dtype dtype, bool by_group,
                                   uint32_t rows, void *out, struct pith_error *err);
/* Stores x as number `at` of a row of that dtype; false when the dtype does not hold it exactly. */
bool pith_number_store(enum pith_dtype dtype, float x, size_t at, void *out);
/* Stores q's scales as codes of one byte, of q->scale_dtype: F8_E8M0, or F8_E4M3 without q->global.
 * PITH_NUMERIC when one is none of them. */
enum pith_status pith_scale_codes_store(const struct pith_qmat *q, uint8_t *out,
                                        struct pith_error *err);
/* Stores q's codes less the format's middle, a signed byte each. */
enum pith_status pith_signed_codes_store(const struct pith_qmat *q, int8_t *out,
                                         struct pith_error *err);
/* Stores the group of each column as I32. PITH_ARG when a group is out of range. */
void pith_g_idx_store(const struct pith_qmat *q, int32_t *out);

/* --- streams of codes ------------------------------------------------------------------------- */

/* Words needed for n codes of `bits` in a dense stream. */
static inline uint64_t pith_stream_words(uint64_t n, unsigned bits)
{
    return (n * bits + 31) / 32;
}

/* out[w][r] = word w of row r; a row is `stride` bytes, of which 4 * words are used. */
void pith_words_from_rows(const uint8_t *rows, size_t stride, size_t n, size_t words, uint8_t *out);
/* The reverse. */
void pith_words_to_rows(const uint8_t *in, size_t n, size_t words, uint8_t *rows, size_t stride);

/* Zero points of q as dense streams over the rows, one a group: out is [groups][words] of I32 with
 * words = pith_stream_words(rows); `minus` is subtracted from each (the caller has checked that
 * none is smaller). */
enum pith_status pith_zeros_store(const struct pith_qmat *q, unsigned minus, uint8_t *out,
                                  struct pith_error *err);
/* The reverse; `plus` is added. PITH_FORMAT when a sum does not fit the format. */
enum pith_status pith_zeros_read(const uint8_t *in, unsigned plus, struct pith_qmat *q,
                                 struct pith_error *err);

/* --- configs ---------------------------------------------------------------------------------- */

/* "int4" and so on for 2..8 bits, NULL otherwise. */
const struct pith_format *pith_int_format(unsigned bits);
/* PITH_UNSUPPORTED unless the grid is an integer format of `bits` set in mask (1 << 4 | ...), with
 * scales by tensor, channel or group that are not quantized again, and zero points that are whole
 * unless the mask has PITH_ANY_ZEROS. `who` names the container. */
#define PITH_ANY_ZEROS 1u /* no format has 0 bits */
enum pith_status pith_accepts_ints(const char *who, const struct pith_grid *grid, uint32_t mask,
                                   struct pith_error *err);
/* A container's scale_dtype(): scales as the model's other weights are, BF16 or else F16. */
enum pith_dtype pith_scale_half(const struct pith_grid *grid, enum pith_dtype model_dtype);
/* The names of the unquantized linears, and lm_head in any case: it is a Linear to transformers, so
 * it is named even when the checkpoint has none. A new reference, NULL when memory is out. */
json_t *pith_ignored_modules(const struct pith_linear_grid *linears, size_t count);
/* True of a model's head, by its name: "lm_head", "language_model.lm_head", "embed_out". It is no
 * Linear to some loaders. */
bool pith_module_is_head(const char *module);
/* The same of the embedding: "model.embed_tokens", "gpt_neox.embed_in", "transformer.wte". */
bool pith_module_is_embedding(const char *module);
/* The linears whose grid no earlier one has, in order, as indexes: an owned list of *distinct, NULL
 * when memory is out. Those without a grid are passed over. */
size_t *pith_distinct_grids(const struct pith_linear_grid *linears, size_t count, size_t *distinct);

#endif
