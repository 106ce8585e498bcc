/* io/digest.h: what a checkpoint is recognised by: a hash for each tensor, and a list of its files
 * that covers every byte which is no tensor's data. */
#ifndef PITH_IO_DIGEST_H
#define PITH_IO_DIGEST_H

#include "base/hash.h"
#include "io/checkpoint.h"

/* A tensor's hash is that of the line "BF16 [256, 64]\n" (dtype and shape, as the file has them)
 * and of its bytes in the file's order. Begins one: the bytes are for the caller to add. NULL when
 * memory is out. */
struct pith_sha256 *pith_tensor_digest_begin(enum pith_dtype dtype, unsigned dims,
                                             const uint64_t *shape);
/* Says a tensor's bytes, in the file's order; of a slice in the order of its rows. */
typedef void pith_bytes_fn(void *ctx, const void *data, size_t size);
void pith_tensor_say(const struct pith_tensor *t, pith_bytes_fn *say, void *ctx);
/* Adds them to a digest, which may be NULL. */
void pith_tensor_hash(const struct pith_tensor *t, struct pith_sha256 *h);
/* The whole of it; false when memory is out. */
bool pith_tensor_digest(const struct pith_tensor *t, char hex[PITH_SHA256_HEX]);

/* The files that a checkpoint is made of, as an array of objects, sorted by name; *out is a new
 * reference.
 *
 *   "name"    within the folder; "model.gguf" for a GGUF file, whatever it is called now, or
 *             "model-00001-of-00003.gguf" for a part
 *   "bytes"   its size
 *   "sha256"  of the bytes in it that are no tensor's data: headers, keys, padding; of a file
 *             without tensors, of all of it
 *   "keys"    the hash of each value, by name, of a GGUF file's keys (their type counts), and of
 *             the members of a JSON object, where blanks and the order of members do not matter
 *
 * Of a folder these are its regular files, but for hidden ones and pith's own ("pith.*"). PITH_IO
 * when one cannot be read. */
enum pith_status pith_checkpoint_digest(const struct pith_checkpoint *c, json_t **out,
                                        struct pith_error *err);

#endif
