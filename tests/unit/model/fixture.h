/* Checkpoint folders made from a config and the weights of tests/golden/model. */
#ifndef PITH_TEST_MODEL_FIXTURE_H
#define PITH_TEST_MODEL_FIXTURE_H

#include "base/cpu.h"
#include "base/json.h"
#include "folder.h"
#include "model/session.h"

#include <math.h>
#include <unistd.h>

#define GOLDEN "tests/golden/model/"

/* A golden case: its config (a new reference) and the name of its weights. */
struct golden {
    json_t *file;
    json_t *config;      /* borrowed from file */
    const char *weights; /* likewise */
};

/* What is kept, and lists of no more than a few lines of 64 bytes beside it. */
#define assert_pages(bytes, kept) assert_in_range(bytes, kept, (kept) + 16 * 64)

static inline void golden_load(struct golden *g, const char *name)
{
    struct pith_error err = {0};
    char path[256];
    snprintf(path, sizeof path, GOLDEN "%s.json", name);
    assert_ok(pith_json_load(path, 1 << 20, &g->file, &err), err);
    g->config = json_object_get(g->file, "config");
    g->weights = json_string_value(json_object_get(g->file, "weights"));
    assert_non_null(g->config);
    assert_non_null(g->weights);
}

static inline void golden_free(struct golden *g)
{
    json_decref(g->file);
}

/* A fresh folder with config.json and, unless weights is NULL, a link to those golden weights. */
static inline char *folder_make(const json_t *config, const char *weights)
{
    struct pith_error err = {0};
    char *dir = test_temp_dir(), path[600], target[600], cwd[400];
    snprintf(path, sizeof path, "%s/config.json", dir);
    assert_ok(pith_json_save(path, config, &err), err);
    if (weights) {
        assert_non_null(getcwd(cwd, sizeof cwd));
        snprintf(target, sizeof target, "%s/" GOLDEN "weights/%s.safetensors", cwd, weights);
        snprintf(path, sizeof path, "%s/model.safetensors", dir);
        assert_int_equal(symlink(target, path), 0);
    }
    return dir;
}

/* The folder of a golden case as it is; folder_remove() it. */
static inline char *golden_folder(const char *name)
{
    struct golden g;
    golden_load(&g, name);
    char *dir = folder_make(g.config, g.weights);
    golden_free(&g);
    return dir;
}

/* A model ready to run, with its pool and backend. */
struct rig {
    char *dir; /* to be removed in the end, or NULL */
    struct pith_pool *pool;
    struct pith_backend *backend;
    struct pith_model *model;
};

/* Without its blocks. */
static inline void rig_open_bare(struct rig *r, const char *dir, unsigned threads)
{
    struct pith_error err = {0};
    r->dir = NULL;
    assert_ok(pith_pool_new(threads, &r->pool, &err), err);
    assert_ok(pith_backend_new(r->pool, PITH_CPU_ALL, &r->backend, &err), err);
    assert_ok(pith_model_open(dir, &r->model, &err), err);
}

static inline void rig_open(struct rig *r, const char *dir, unsigned threads)
{
    struct pith_error err = {0};
    rig_open_bare(r, dir, threads);
    assert_ok(pith_model_load_blocks(r->model, NULL, &err), err);
}

/* The same of a folder_make(), which is the rig's from now on. */
static inline void rig_open_own(struct rig *r, char *dir, unsigned threads)
{
    rig_open(r, dir, threads);
    r->dir = dir;
}

static inline void rig_open_golden(struct rig *r, const char *name, unsigned threads)
{
    rig_open_own(r, golden_folder(name), threads);
}

static inline void rig_close(struct rig *r)
{
    pith_model_close(r->model);
    pith_backend_free(r->backend);
    pith_pool_free(r->pool);
    if (r->dir) folder_remove(r->dir);
}

/* Logits of ids read in chunks of `chunk` over a cache of that type, [n][vocab]; free() them. */
static inline float *rig_logits_kv(struct rig *r, const int32_t *ids, size_t n, size_t chunk,
                                   enum pith_dtype kv)
{
    struct pith_error err = {0};
    struct pith_session s;
    const size_t hidden = r->model->shape.hidden, vocab = r->model->shape.vocab;
    float *x = malloc(n * hidden * sizeof *x), *logits = malloc(n * vocab * sizeof *logits);
    const struct pith_session_options options = {
        .capacity = n, .chunk = chunk, .kv = pith_kv_floats(kv)};
    assert_ok(pith_session_init(&s, r->model, r->backend, &options, &err), err);
    assert_ok(pith_session_append(&s, ids, n, x, &err), err);
    assert_ok(pith_model_logits(r->model, r->backend, x, n, logits, &err), err);
    pith_session_free(&s);
    free(x);
    return logits;
}

static inline float *rig_logits(struct rig *r, const int32_t *ids, size_t n, size_t chunk)
{
    return rig_logits_kv(r, ids, n, chunk, PITH_F32);
}

/* Largest difference relative to the range of `expected`. */
static inline double logits_difference(const float *x, const float *expected, size_t count)
{
    float lo = expected[0], hi = expected[0];
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        if (expected[i] < lo) lo = expected[i];
        if (expected[i] > hi) hi = expected[i];
        const double d = fabs((double)x[i] - (double)expected[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst / (double)(hi - lo);
}

/* The prompts of make_golden.py. */
enum { PROMPT_VOCAB = 80, PROMPT_MAX = 40 };
static inline size_t golden_prompt(unsigned which, int32_t *ids)
{
    const size_t n = which == 0 ? 40 : 25;
    for (size_t i = 0; i < n; i++) {
        const size_t id = which == 0 ? 7 * i * i + 3 * i + 1 : 5 * i * i + 11 * i + 62;
        ids[i] = (int32_t)(id % PROMPT_VOCAB);
    }
    return n;
}

#endif
