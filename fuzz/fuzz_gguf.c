/* Fuzzes the GGUF reader, and what is made of a file's keys: a config and a tokenizer. What the
 * reader accepts, the writer can write again, and the reader finds the same in it. As a checkpoint,
 * its matrices of blocks are unpacked. What follows a second "GGUF" is also the second of two
 * parts. */
#include "folder.h"

#include "base/mem.h"
#include "io/container/container.h"
#include "io/gguf/model.h"
#include "num/gguf/kquant.h"
#include "tok/files/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition) abort();
}

static void same_keys(const struct pith_gguf *a, const struct pith_gguf *b)
{
    must(a->key_count == b->key_count);
    for (size_t i = 0; i < a->key_count; i++) {
        const struct pith_gguf_key *x = &a->keys[i], *y = &b->keys[i];
        must(strcmp(x->name, y->name) == 0 && x->kind == y->kind && x->element == y->element);
        must(x->count == y->count && x->size == y->size);
        must(x->size == 0 || memcmp(x->data, y->data, x->size) == 0);
    }
}

static void same_tensors(const struct pith_gguf *a, const struct pith_gguf *b)
{
    must(a->tensor_count == b->tensor_count);
    for (size_t i = 0; i < a->tensor_count; i++) {
        const struct pith_gguf_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        must(strcmp(x->name, y->name) == 0 && x->type.id == y->type.id && x->dims == y->dims);
        must(memcmp(x->shape, y->shape, sizeof x->shape) == 0 && x->bytes == y->bytes);
        must(memcmp(x->data, y->data, x->bytes) == 0);
    }
}

/* The tensors' bytes at their places. */
static uint8_t *fill(const struct pith_gguf *g, const struct pith_layout *l)
{
    uint8_t *file = pith_zalloc(l->shard_bytes[0] + 1, 1);
    must(file != NULL);
    memcpy(file, l->headers[0], l->header_bytes[0]);
    for (size_t i = 0; i < g->tensor_count; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "t%zu", i);
        const struct pith_tensor_plan *p = pith_layout_find(l, name);
        must(p && p->bytes == g->tensors[i].bytes);
        memcpy(file + p->offset, g->tensors[i].data, p->bytes);
    }
    return file;
}

static void write_and_read_again(const struct pith_gguf *g)
{
    struct pith_gguf_keys keys = {0};
    struct pith_layout l = {0};
    struct pith_gguf_name *names = pith_zalloc(g->tensor_count, sizeof *names);
    must(names != NULL);
    for (size_t i = 0; i < g->key_count; i++) pith_gguf_copy_key(&keys, &g->keys[i]);
    for (size_t i = 0; i < g->tensor_count; i++) {
        const struct pith_gguf_tensor *t = &g->tensors[i];
        char name[24];
        (void)snprintf(name, sizeof name, "t%zu", i);
        must(pith_layout_add(&l, name, PITH_U8, 1, &t->bytes, NULL) == PITH_OK);
        names[i] = (struct pith_gguf_name){.type = t->type, .dims = t->dims};
        memcpy(names[i].name, t->name, strlen(t->name));
        memcpy(names[i].shape, t->shape, sizeof t->shape);
    }
    must(pith_gguf_layout_finish(&l, "again", &keys, NULL, names, NULL) == PITH_OK);
    uint8_t *file = fill(g, &l);
    struct pith_gguf again;
    must(pith_gguf_parse(file, l.shard_bytes[0], "again", &again, NULL) == PITH_OK);
    same_keys(g, &again);
    same_tensors(g, &again);
    pith_gguf_close(&again);
    pith_free(file);
    pith_free(names);
    pith_layout_free(&l);
    pith_gguf_keys_free(&keys);
}

static void use_keys(const struct pith_gguf *g)
{
    struct pith_gguf_arch arch;
    json_t *json = NULL;
    if (pith_gguf_arch_read(g, &arch, NULL) == PITH_OK &&
        pith_gguf_config(g, &arch, true, &json, NULL) == PITH_OK)
        json_decref(json);
    if (pith_tok_gguf_json(g, &json, NULL) == PITH_OK) {
        (void)pith_gguf_pre_of(json);
        json_decref(json);
    }
}

/* A tensor that a module's blocks may be: unpacked, it is a matrix that keeps its promises. */
static void load_blocks(const struct pith_container *c, void *state,
                        const struct pith_checkpoint *ck, const struct pith_tensor *t)
{
    const char *dot = strrchr(t->name, '.');
    const struct pith_kquant *type = dot ? pith_kquant_find(dot + 1) : NULL;
    char module[192];
    if (!type || t->dims != 2 || t->shape[0] > 256 || t->shape[1] > 65536) return;
    (void)snprintf(module, sizeof module, "%.*s", (int)(dot - t->name), t->name);
    const uint32_t cols = (uint32_t)(t->shape[1] / type->bytes * type->elements);
    struct pith_qmat q = {0};
    struct pith_error err = {0};
    struct pith_container_opts opts = {.model_dtype = PITH_F16};
    struct pith_grid grid;
    bool found = false;
    (void)c->describe(state, ck, module, &grid, &opts, NULL);
    if (c->load(state, ck, module, (uint32_t)t->shape[0], cols, &q, &found, &err) != PITH_OK) {
        must(err.text[0] != '\0');
        return;
    }
    if (!found) return;
    float *row = malloc((cols + 1) * sizeof *row);
    must(row && pith_qmat_check(&q, &err) == PITH_OK);
    for (uint32_t r = 0; r < q.rows; r++) pith_qmat_decode(&q, r, 1, row);
    free(row);
    pith_qmat_free(&q);
}

/* A file of the folder. */
static void load_all(const char *name)
{
    struct pith_checkpoint *ck = NULL;
    const struct pith_container *c = NULL;
    struct pith_error err = {0};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder(), name);
    if (pith_gguf_checkpoint(path, &ck, &err) != PITH_OK) {
        must(err.text[0] != '\0');
        return;
    }
    void *state = NULL;
    if (pith_container_detect(ck, &c, &err) == PITH_OK && c &&
        c->open(ck, &state, &err) == PITH_OK) {
        for (size_t i = 0; i < ck->count; i++) load_blocks(c, state, ck, &ck->tensors[i]);
        c->close(state);
    }
    pith_checkpoint_close(ck);
}

static void use_checkpoint(const uint8_t *data, size_t size)
{
    struct pith_error err = {0};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/model.gguf", folder());
    folder_put("model.gguf", data, size);
    struct pith_tokenizer *t = NULL;
    must(pith_tokenizer_open(path, &t, &err) == PITH_OK || err.text[0] != '\0');
    pith_tokenizer_close(t);
    load_all("model.gguf");
}

static void use_parts(const uint8_t *data, size_t size)
{
    size_t at = 4;
    while (at + 4 <= size && memcmp(data + at, "GGUF", 4) != 0) at++;
    if (at + 4 > size) return;
    folder_put("m-00001-of-00002.gguf", data, at);
    folder_put("m-00002-of-00002.gguf", data + at, size - at);
    load_all("m-00001-of-00002.gguf");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_gguf g;
    struct pith_error err = {0};
    use_parts(data, size);
    const enum pith_status s = pith_gguf_parse(data, size, "input", &g, &err);
    if (s != PITH_OK) {
        must(err.status == s && strncmp(err.text, "input: ", 7) == 0);
        return 0;
    }
    /* Another alignment is read but not written. */
    if (g.alignment == 32) write_and_read_again(&g);
    use_keys(&g);
    use_checkpoint(data, size);
    struct pith_tokenizer *t = NULL;
    if (pith_tokenizer_from_gguf(&g, &t, NULL) == PITH_OK) {
        struct pith_ids ids = {0};
        (void)pith_tokenizer_encode(t, "a b\n<s>0", 8, true, &ids, NULL);
        pith_ids_free(&ids);
        pith_tokenizer_close(t);
    }
    pith_gguf_close(&g);
    return 0;
}
