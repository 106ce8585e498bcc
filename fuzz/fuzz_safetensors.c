/* Fuzzes the safetensors reader. What it accepts, the writer can write again, in one file or in
 * many, and the reader finds the same tensors in it. */
#include "base/mem.h"
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition) abort();
}

static void same(const struct pith_tensor *a, const struct pith_tensor *b)
{
    must(strcmp(a->name, b->name) == 0);
    must(a->dtype == b->dtype && a->dims == b->dims && a->bytes == b->bytes);
    must(a->dims == 0 || memcmp(a->shape, b->shape, a->dims * sizeof a->shape[0]) == 0);
    must(a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

static size_t check_shard(const struct pith_safetensors *st, const struct pith_layout *l,
                          size_t shard)
{
    uint8_t *file = pith_alloc(l->shard_bytes[shard], 1);
    must(file != NULL);
    memcpy(file, l->headers[shard], l->header_bytes[shard]);
    for (size_t i = 0; i < l->count; i++) {
        const struct pith_tensor_plan *p = &l->tensors[i];
        const struct pith_tensor *t = pith_safetensors_find(st, p->name);
        must(t && t->bytes == p->bytes);
        if (p->shard == shard && t->bytes) memcpy(file + p->offset, t->data, t->bytes);
    }
    struct pith_safetensors again;
    must(pith_safetensors_parse(file, l->shard_bytes[shard], "again", &again, NULL) == PITH_OK);
    const size_t count = again.count;
    for (size_t i = 0; i < count; i++)
        same(&again.tensors[i], pith_safetensors_find(st, again.tensors[i].name));
    pith_safetensors_close(&again);
    pith_free(file);
    return count;
}

static void write_and_read_again(const struct pith_safetensors *st, uint64_t max_shard)
{
    struct pith_layout l = {0};
    for (size_t i = st->count; i-- > 0;) {
        const struct pith_tensor *t = &st->tensors[i];
        must(pith_layout_add(&l, t->name, t->dtype, t->dims, t->shape, NULL) == PITH_OK);
    }
    must(pith_layout_finish(&l, max_shard, NULL) == PITH_OK);
    size_t found = 0;
    for (size_t i = 0; i < l.shards; i++) found += check_shard(st, &l, i);
    must(found == st->count);
    pith_layout_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_safetensors st;
    struct pith_error err = {0};
    const enum pith_status s = pith_safetensors_parse(data, size, "input", &st, &err);
    if (s != PITH_OK) {
        must(err.status == s && strncmp(err.text, "input: ", 7) == 0);
        return 0;
    }
    write_and_read_again(&st, 0);
    write_and_read_again(&st, 6);
    pith_safetensors_close(&st);
    return 0;
}
