/* io/safetensors.h: the safetensors container: u64 header length, JSON header, data. Reading
 * rejects all that the reference implementation rejects (holes, overlaps, trailing bytes, lying
 * lengths) and duplicate names as well. */
#ifndef PITH_IO_SAFETENSORS_H
#define PITH_IO_SAFETENSORS_H

#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "io/row_order.h"
#include "num/format.h"

#define PITH_MAX_DIMS 8

/* Who makes a tensor's data when they are needed (io/dense.h). */
struct pith_lazy {
    /* Makes them, unless they are there; for any thread. */
    enum pith_status (*make)(struct pith_lazy *self, struct pith_error *err);
    /* They are not needed soon: a later user requests them again. */
    void (*drop)(struct pith_lazy *self);
};

/* What a tensor is called, holds, and where: data points into a mapping. */
struct pith_tensor {
    const char *name;
    enum pith_dtype dtype;
    unsigned dims;
    uint64_t shape[PITH_MAX_DIMS];
    uint64_t bytes;
    const uint8_t *data;
    uint32_t file; /* index into the checkpoint's files; 0 for a single file */
    /* How `data` lies, and what its numbers are (GGUF files). Who reads `data` heeds both; the
     * functions below do, and pith_linear_load(). */
    struct pith_stow order;
    enum pith_stored_as as;
    /* 0, or where element (r, c) of a slice of a larger tensor lies (pith_checkpoint_slice()): at
     * r * row_step + c * col_step from `data`, in elements; of a vector r. */
    uint64_t row_step, col_step;
    bool slice; /* it is no tensor of the file, but within one */
    /* Folders store the matrix columns by rows under this name: such a slice is all of it, or a
     * file that has it in rows. */
    bool exchanged;
    struct pith_lazy *lazy; /* NULL: `data` can be read. Else after pith_tensor_need() only */
};
/* The order of tensors by name, for qsort() and bsearch(). */
int pith_tensor_by_name(const void *a, const void *b);
/* To be called before `data` is read, directly or by a function below. Cheap when nothing is to be
 * made. */
static inline enum pith_status pith_tensor_need(const struct pith_tensor *t, struct pith_error *err)
{
    return t->lazy ? t->lazy->make(t->lazy, err) : PITH_OK;
}
/* Whether t is a slice of `whole`. */
static inline bool pith_tensor_within(const struct pith_tensor *t, const struct pith_tensor *whole)
{
    return t->slice && t->data >= whole->data && t->data < whole->data + whole->bytes;
}
/* Whether the data lie in order, one behind the other. */
static inline bool pith_tensor_plain(const struct pith_tensor *t)
{
    return t->order.kind == PITH_STOW_STRAIGHT && t->row_step == 0;
}
/* The tensor as a folder has it: an exchanged one by its columns, others as they are. */
static inline struct pith_tensor pith_tensor_stored(const struct pith_tensor *t)
{
    struct pith_tensor s = *t;
    if (!t->exchanged) return s;
    s.shape[0] = t->shape[1];
    s.shape[1] = t->shape[0];
    s.row_step = t->row_step ? 0 : 1;
    s.col_step = t->row_step ? 0 : t->shape[1];
    s.exchanged = false;
    return s;
}
/* ... or, for a container of one file, as it is read. */
static inline struct pith_tensor pith_tensor_stored_in(const struct pith_tensor *t, bool file)
{
    return file ? *t : pith_tensor_stored(t);
}
/* Bytes from the first to behind the last of its elements; `bytes` where they lie in order. */
uint64_t pith_tensor_extent(const struct pith_tensor *t);
/* Copies elements [first, first + count), in order, of a tensor that lies straight or is a
 * slice. */
void pith_tensor_copy(const struct pith_tensor *t, uint64_t first, uint64_t count, void *out);

/* Copies t's data to out (t->bytes), rows in their order; numbers stay as they are stored. */
void pith_tensor_straighten(const struct pith_tensor *t, void *out);
/* Such a copy where one is needed: *copy stays NULL when the rows lie in order. pith_free() it.
 * False when memory is out. */
bool pith_tensor_straight(const struct pith_tensor *t, uint8_t **copy);
/* All values as float32, in order; false for a dtype that pith_dtype_decode() does not know. */
bool pith_tensor_decode(const struct pith_tensor *t, float *out);

/* Elements of a shape; the file reader has checked that it does not overflow. */
uint64_t pith_tensor_elements(const struct pith_tensor *t);

/* Bytes that a tensor takes: shape's product (1 for 0 dims) times the dtype's bits over 8. False
 * when that overflows, or is no whole number of bytes (sub-byte types). */
bool pith_tensor_size(enum pith_dtype dtype, unsigned dims, const uint64_t *shape, uint64_t *bytes);

/* Why `name` cannot be a tensor's name (not UTF-8, control characters, longer than PITH_MAX_NAME
 * bytes, or the reserved "__metadata__"); NULL when it can. */
#define PITH_MAX_NAME 1024
const char *pith_tensor_name_fault(const char *name);

/* One open file. Tensors are sorted by name (strcmp order). */
struct pith_safetensors {
    char *path;
    struct pith_map map; /* empty when parsed from memory */
    struct pith_tensor *tensors;
    size_t count;
    char *names;      /* where the tensors' names are */
    json_t *metadata; /* the __metadata__ object, strings only, or NULL */
};

/* Maps and checks `path`. PITH_IO when it cannot be read, PITH_FORMAT for a file that breaks a
 * rule, PITH_UNSUPPORTED for more than PITH_MAX_DIMS dimensions; the message names file and tensor.
 * On failure *out owns nothing. Memory taken is a small multiple of the header, which is at most
 * 100,000,000 bytes. */
enum pith_status pith_safetensors_open(const char *path, struct pith_safetensors *out,
                                       struct pith_error *err);
/* The same over bytes in memory (borrowed; for tests and fuzzing). `path` is for messages. */
enum pith_status pith_safetensors_parse(const uint8_t *data, size_t size, const char *path,
                                        struct pith_safetensors *out, struct pith_error *err);
/* Frees what *st owns and zeroes it. */
void pith_safetensors_close(struct pith_safetensors *st);
/* By name; NULL when absent. */
const struct pith_tensor *pith_safetensors_find(const struct pith_safetensors *st,
                                                const char *name);

/* A tensor to be written: everything but its bytes is known before the work starts. */
struct pith_tensor_plan {
    char *name; /* owned by the layout it is added to */
    enum pith_dtype dtype;
    unsigned dims;
    uint64_t shape[PITH_MAX_DIMS];
    uint64_t bytes;         /* filled by pith_layout_finish */
    uint32_t shard;         /* filled likewise */
    uint64_t offset;        /* from the start of the shard file, filled likewise */
    struct pith_stow order; /* as struct pith_tensor's */
    enum pith_stored_as as;
};
int pith_tensor_plan_by_name(const void *a, const void *b);

/* The layout of a checkpoint's files; start with {0}. It is fixed before any data exists: so
 * headers are written first, tensors land at their offset in any order, and the bytes do not depend
 * on the order of the work. */
struct pith_layout {
    struct pith_tensor_plan *tensors; /* in the order added until finish(), then sorted by name */
    size_t count, cap;
    size_t shards;
    char **shard_names;    /* "model.safetensors" or "model-00001-of-0000N.safetensors" */
    uint64_t *shard_bytes; /* whole file size */
    char **headers;        /* 8 length bytes and JSON of each shard, padded with blanks */
    size_t *header_bytes;  /* a multiple of 8: where the shard's first tensor begins */
    uint64_t total_bytes;  /* of tensors, for the index */
};

/* Adds a tensor; name is copied. PITH_ARG for a name, rank or size that no file can have, or when
 * the layout is finished already. */
enum pith_status pith_layout_add(struct pith_layout *l, const char *name, enum pith_dtype dtype,
                                 unsigned dims, const uint64_t *shape, struct pith_error *err);
/* Distributes over shards of at most max_shard bytes of tensors (0: no limit) in the order added (a
 * larger tensor gets its own), sorts within a shard as the reference writer does (dtype descending,
 * then name) and builds the headers (with "__metadata__": {"format": "pt"}). A layout without
 * tensors gives one file without tensors. PITH_ARG on a duplicate name; after a failure the layout
 * can only be freed. */
enum pith_status pith_layout_finish(struct pith_layout *l, uint64_t max_shard,
                                    struct pith_error *err);
/* By name, after finish(); NULL when absent. */
const struct pith_tensor_plan *pith_layout_find(const struct pith_layout *l, const char *name);
/* The text of model.safetensors.index.json, pith_free() it; NULL when memory is out. */
char *pith_layout_index(const struct pith_layout *l);
/* Frees what *l owns and zeroes it. */
void pith_layout_free(struct pith_layout *l);

#endif
