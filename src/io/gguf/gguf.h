/* io/gguf/gguf.h: GGUF version 3, the single file of llama.cpp: keys with typed values, then
 * tensors of ggml's types. Reading checks every length, count, type and offset before use, and
 * refuses what llama.cpp refuses. Writing lays the file out before any tensor has data, as
 * io/safetensors.h does for its files.
 *
 * Sources: ggml/include/gguf.h and ggml/src/gguf.cpp (layout, what is refused), ggml.h (types). */
#ifndef PITH_IO_GGUF_GGUF_H
#define PITH_IO_GGUF_GGUF_H

#include "base/str.h"
#include "io/safetensors.h"

/* --- types of tensors ------------------------------------------------------------------------- */

struct pith_ggml_type {
    uint32_t id;
    const char *name;      /* "Q4_K" */
    uint32_t block, bytes; /* elements a block, bytes a block */
};

/* Types of num/gguf/kquants.def, and of plain values. False when there is none. */
bool pith_ggml_type_by_id(uint32_t id, struct pith_ggml_type *out);
bool pith_ggml_type_find(const char *name, struct pith_ggml_type *out);
/* The dtype that has the same bytes (F32, F16, BF16, F64 and integers); false for blocks. */
bool pith_ggml_type_dtype(const struct pith_ggml_type *type, enum pith_dtype *out);

/* --- reading ---------------------------------------------------------------------------------- */

enum pith_gguf_kind {
    PITH_GGUF_U8,
    PITH_GGUF_I8,
    PITH_GGUF_U16,
    PITH_GGUF_I16,
    PITH_GGUF_U32,
    PITH_GGUF_I32,
    PITH_GGUF_F32,
    PITH_GGUF_BOOL,
    PITH_GGUF_STRING,
    PITH_GGUF_ARRAY,
    PITH_GGUF_U64,
    PITH_GGUF_I64,
    PITH_GGUF_F64,
    PITH_GGUF_KIND_COUNT
};

/* A key with its value. Strings are length and bytes, as in the file; the reader has checked that
 * all of them are within it. */
struct pith_gguf_key {
    char *name;
    enum pith_gguf_kind kind;    /* of the value */
    enum pith_gguf_kind element; /* of an array's elements; never ARRAY */
    uint64_t count;              /* elements of an array; 1 otherwise */
    const uint8_t *data;         /* the first element, maybe unaligned */
    size_t size;                 /* bytes of all elements */
};

struct pith_gguf_tensor {
    char *name;
    struct pith_ggml_type type;
    unsigned dims;     /* 1 to 4 */
    uint64_t shape[4]; /* outermost first, as everywhere in pith: the file's reversed */
    uint64_t bytes;
    const uint8_t *data;
    uint32_t part; /* which of the model's files holds it, from 0; not 0 after pith_gguf_append() */
};

struct pith_gguf {
    char *path;
    struct pith_map map; /* empty when parsed from memory */
    uint32_t version;
    uint32_t alignment;
    struct pith_gguf_key *keys; /* in the file's order, like the tensors */
    size_t key_count;
    struct pith_gguf_tensor *tensors;
    size_t tensor_count;
};

/* Maps and checks `path`. PITH_FORMAT for a file that breaks a rule, PITH_UNSUPPORTED for another
 * version or an unknown type; the message names file and place. On failure *out owns nothing.
 * Memory taken is a small multiple of the header. */
enum pith_status pith_gguf_open(const char *path, struct pith_gguf *out, struct pith_error *err);
/* The same over borrowed bytes. */
enum pith_status pith_gguf_parse(const uint8_t *data, size_t size, const char *path,
                                 struct pith_gguf *out, struct pith_error *err);
void pith_gguf_close(struct pith_gguf *g);

/* Moves the tensors of another file of the same model, its part number `part`, behind g's own; the
 * keys stay, and so does what the tensors' data lies in. PITH_NOMEM; nothing has moved then. */
enum pith_status pith_gguf_append(struct pith_gguf *g, struct pith_gguf *from, uint32_t part,
                                  struct pith_error *err);
/* PITH_FORMAT when two tensors have one name: to be called after all have been appended. */
enum pith_status pith_gguf_check_unique(const struct pith_gguf *g, struct pith_error *err);

/* NULL when absent. */
const struct pith_gguf_key *pith_gguf_find(const struct pith_gguf *g, const char *name);
const struct pith_gguf_tensor *pith_gguf_tensor_find(const struct pith_gguf *g, const char *name);

/* Values by key. A missing key leaves *out and gives PITH_OK; a value of another kind (any integer
 * serves as a number, as long as it is within 0..limit) PITH_FORMAT. */
enum pith_status pith_gguf_get_uint(const struct pith_gguf *g, const char *name, uint64_t limit,
                                    uint64_t *out, struct pith_error *err);
/* The same of element `index` of an array of whole numbers, or of a number as if it were one of
 * any length. PITH_FORMAT where the array ends before. */
enum pith_status pith_gguf_get_uint_at(const struct pith_gguf *g, const char *name, uint64_t index,
                                       uint64_t limit, uint64_t *out, struct pith_error *err);
enum pith_status pith_gguf_get_real(const struct pith_gguf *g, const char *name, double *out,
                                    struct pith_error *err);
enum pith_status pith_gguf_get_bool(const struct pith_gguf *g, const char *name, bool *out,
                                    struct pith_error *err);
/* *out is a copy with a NUL, pith_free() it; untouched when the key is missing. PITH_FORMAT for a
 * string with a NUL inside. */
enum pith_status pith_gguf_get_text(const struct pith_gguf *g, const char *name, char **out,
                                    struct pith_error *err);

/* Walks an array of strings: at *offset (0 at first) lies the next one. False at the end. */
bool pith_gguf_next_string(const struct pith_gguf_key *key, size_t *offset, const char **text,
                           size_t *length);

/* --- writing ---------------------------------------------------------------------------------- */

/* Keys to be written, as they will lie in the file; start with {0}. Failure is remembered. */
struct pith_gguf_keys {
    struct pith_str bytes;
    uint64_t count;
};
void pith_gguf_put_uint(struct pith_gguf_keys *k, const char *name, uint32_t value);
void pith_gguf_put_real(struct pith_gguf_keys *k, const char *name, float value);
void pith_gguf_put_bool(struct pith_gguf_keys *k, const char *name, bool value);
void pith_gguf_put_text(struct pith_gguf_keys *k, const char *name, const char *text);
/* An array: then `count` elements follow, each appended to k->bytes by the caller (scalars little
 * endian; strings by pith_gguf_put_string). */
void pith_gguf_begin_array(struct pith_gguf_keys *k, const char *name, enum pith_gguf_kind element,
                           uint64_t count);
void pith_gguf_put_string(struct pith_str *s, const char *text, size_t length);
/* A key of another file, unchanged. */
void pith_gguf_copy_key(struct pith_gguf_keys *k, const struct pith_gguf_key *key);
void pith_gguf_keys_free(struct pith_gguf_keys *k);

/* What a tensor of a layout is called and how it is typed in the file. */
struct pith_gguf_name {
    char name[64];
    struct pith_ggml_type type;
    unsigned dims;
    uint64_t shape[4];      /* outermost first */
    struct pith_stow order; /* struct pith_tensor_plan's, like `as` */
    enum pith_stored_as as;
    /* Behind it, without a gap, a tensor of another type; 0 dims: none. Both hold what the layout
     * has in one tensor. */
    struct {
        char name[64];
        unsigned dims;
        uint64_t shape[4];
    } rest;
    /* One of `parts` tensors that are one in the file, of one dimension more, its part `part`; they
     * share name, type and shape (outermost first, of one part; {1}: a number). parts 0: no. */
    uint32_t part, parts;
};

/* A small F32 vector whose values are known before the work: it is written with the header. */
struct pith_gguf_constant {
    const char *name;
    const float *value;
    uint64_t count; /* 0: none */
};

/* Finishes a layout as one GGUF file `file` with these keys; names[i] is for tensor i as added, and
 * tensors keep that order, after the constant; parts stand where the first of them does. PITH_ARG
 * when two have the same name, parts of one are missing, or a shape and type do not give
 * the planned bytes; PITH_UNSUPPORTED when parts are unlike. After a failure the layout can only be
 * freed. */
enum pith_status pith_gguf_layout_finish(struct pith_layout *l, const char *file,
                                         const struct pith_gguf_keys *keys,
                                         const struct pith_gguf_constant *constant,
                                         const struct pith_gguf_name *names,
                                         struct pith_error *err);

#endif
