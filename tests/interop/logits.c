/* tests/interop/logits.c: what pith computes, for other implementations to be held against.
 *
 *   logits MODEL IDS CONTEXT OUT   reads 32-bit ids, cuts them into windows of CONTEXT (the rest is
 *                                  left out) and writes the logits of every position as float32
 *
 * Run by models.py. */
#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"
#include "eval/scorer.h"
#include "test.h"

#include <stdlib.h>

static void write_window(struct pith_scorer *s, const int32_t *ids, size_t context, FILE *out)
{
    struct pith_error err = {0};
    assert_ok(pith_scorer_read(s, ids, context, &err), err);
    const size_t vocab = s->model->shape.vocab;
    for (size_t at = 0; at < context; at += s->rows) {
        const size_t n = context - at < s->rows ? context - at : s->rows;
        assert_ok(pith_scorer_logits(s, at, n, &err), err);
        assert_int_equal(fwrite(s->logits, sizeof(float), n * vocab, out), n * vocab);
    }
}

int main(int argc, char **argv)
{
    if (argc != 5) return 2;
    struct pith_error err = {0};
    struct pith_model *m = NULL;
    struct pith_backend *be = NULL;
    struct pith_scorer s;
    char *bytes;
    size_t size;
    const size_t context = (size_t)atol(argv[3]);
    struct pith_scorer_options options = {.name = argv[1], .capacity = context, .exact = true};
    assert_ok(pith_file_read(argv[2], (size_t)1 << 30, &bytes, &size, &err), err);
    assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &be, &err), err);
    assert_ok(pith_model_open(argv[1], &m, &err), err);
    options.kv.k.grid = options.kv.v.grid = m->kv_grid; /* as the checkpoint says */
    assert_ok(pith_scorer_init(&s, m, be, &options, &err), err);
    FILE *out = fopen(argv[4], "wb");
    assert_non_null(out);
    const int32_t *ids = (const int32_t *)(const void *)bytes;
    const size_t count = size / sizeof *ids;
    for (size_t at = 0; at + context <= count; at += context)
        write_window(&s, ids + at, context, out);
    assert_int_equal(fclose(out), 0);
    pith_scorer_free(&s);
    pith_model_close(m);
    pith_backend_free(be);
    pith_free(bytes);
    return 0;
}
