/* tests/unit/tok/vectors.h: reads the .tok files that tests/golden/tok/make_*.py write. */
#ifndef PITH_TEST_TOK_VECTORS_H
#define PITH_TEST_TOK_VECTORS_H

#include "base/file.h"
#include "base/mem.h"
#include "test.h"
#include "tok/files/gguf.h"
#include "tok/kind.h"

/* A view into the file. */
struct bytes {
    const char *data;
    size_t size;
};

struct cursor {
    const uint8_t *p, *end;
};

struct vector {
    struct bytes text, kept, skipped;
    struct pith_ids ids, special;
};

static inline uint32_t take_u32(struct cursor *c)
{
    assert_true(c->end - c->p >= 4);
    const uint32_t v = c->p[0] | (uint32_t)c->p[1] << 8 | (uint32_t)c->p[2] << 16 |
                       (uint32_t)c->p[3] << 24;
    c->p += 4;
    return v;
}

static inline struct bytes take_bytes(struct cursor *c)
{
    const size_t n = take_u32(c);
    assert_true((size_t)(c->end - c->p) >= n);
    const struct bytes b = {(const char *)c->p, n};
    c->p += n;
    return b;
}

static inline void take_ids(struct cursor *c, struct pith_ids *ids)
{
    ids->count = 0;
    for (uint32_t n = take_u32(c); n > 0; n--) {
        uint32_t v = 0;
        unsigned shift = 0;
        do v |= (uint32_t)(*c->p & 127) << shift, shift += 7;
        while (c->p < c->end && (*c->p++ & 128));
        assert_true(pith_ids_push(ids, (int32_t)v));
    }
}

static inline void take_vector(struct cursor *c, struct vector *v)
{
    v->text = take_bytes(c);
    take_ids(c, &v->ids);
    take_ids(c, &v->special);
    v->kept = take_bytes(c);
    v->skipped = take_bytes(c);
}

/* Of what file a tokenizer is. */
enum { KIND_JSON, KIND_SPM, KIND_GGUF };

/* The file inside a .tok file, and its kind. */
static inline struct bytes take_model(struct cursor *c, int *kind)
{
    assert_true(c->end - c->p > 9 && memcmp(c->p, "PITHTOK1", 8) == 0);
    *kind = c->p[8];
    c->p += 9;
    return take_bytes(c);
}

/* Opens the tokenizer inside a .tok file and leaves the cursor at its vectors; *count is their
 * number. */
static inline struct pith_tokenizer *open_vectors(struct cursor *c, uint32_t *count, bool *spm)
{
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    struct pith_gguf g;
    int kind;
    const struct bytes model = take_model(c, &kind);
    *spm = kind == KIND_SPM;
    if (kind == KIND_SPM) {
        assert_ok(pith_tokenizer_from_spm((const uint8_t *)model.data, model.size, &t, &err), err);
    } else if (kind == KIND_GGUF) {
        assert_ok(pith_gguf_parse((const uint8_t *)model.data, model.size, "m", &g, &err), err);
        assert_ok(pith_tokenizer_from_gguf(&g, &t, &err), err);
        pith_gguf_close(&g);
    } else {
        assert_ok(pith_tokenizer_from_json(model.data, model.size, &t, &err), err);
    }
    *count = take_u32(c);
    return t;
}

#endif
