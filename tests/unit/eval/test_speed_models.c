/* eval/speed over models of several architectures: what a cache takes, what experts make read. */
#include "eval/speed/speed.h"
#include "model/runner.h"
#include "unit/model/arch_case.h"

struct opened {
    json_t *file;
    char *dir;
    struct rig r;
};

static void open_model(struct opened *o, const char *name)
{
    struct pith_error err = {0};
    char path[256];
    snprintf(path, sizeof path, ARCH_GOLDEN "%s.json", name);
    assert_ok(pith_json_load(path, 1 << 20, &o->file, &err), err);
    o->dir = arch_folder_make(o->file);
    rig_open(&o->r, o->dir, 1);
}

static void close_model(struct opened *o)
{
    rig_close(&o->r);
    folder_remove(o->dir);
    json_decref(o->file);
}

/* Pages that a pool has given away, in all layers, and states. */
static double bytes_held(const struct pith_kv *kv)
{
    double bytes = (double)(pith_kv_state_width(&kv->format) * kv->state_at[kv->layers]);
    for (uint32_t i = 0; i < kv->layers; i++) {
        const struct pith_kv_group *g = &kv->group[kv->group_of[i]], *p = &kv->group[PITH_KV_PLAIN];
        bytes += (double)kv->page_bytes[i] * (g->pages - g->unused);
        if (p->pages) bytes += (double)kv->plain_bytes[i] * (p->pages - p->unused);
    }
    return bytes;
}

enum { TOKENS = 100 };

/* A sequence that grows. */
static void holds(const struct rig *r, const char *cache)
{
    static const size_t lengths[] = {1, 32, 45, 64, TOKENS};
    struct pith_error err = {0};
    struct pith_runner run;
    uint32_t sequence;
    int32_t ids[TOKENS] = {0};
    float *x = test_malloc(TOKENS * r->model->shape.hidden * sizeof *x);
    struct pith_runner_options o = {.sequences = 1, .context = 128, .rows = 32};
    assert_ok(pith_kv_parse(cache, PITH_F32, r->model, &o.format, &err), err);
    assert_ok(pith_runner_init(&run, r->model, r->backend, &o, &err), err);
    assert_ok(pith_runner_open(&run, &sequence, &err), err);
    for (size_t i = 0, at = 0; i < PITH_COUNT(lengths); at = lengths[i++]) {
        const struct pith_step_span span = {.ids = ids, .n = lengths[i] - at, .x = x};
        assert_ok(pith_runner_step(&run, &span, 1, &err), err);
        assert_true(bytes_held(&run.kv) ==
                    pith_speed_cache_bytes(&r->model->plans, lengths[i], &o.format));
    }
    pith_runner_free(&run);
    test_free(x);
}

static void a_cache_takes_what_is_said(void **state)
{
    (void)state;
    static const char *const models[] = {"llama", "gemma2", "qwen3_next", "deepseek_v3",
                                         "gemma4_small"};
    static const char *const caches[] = {"bf16", "int8:token", "int4:token,sink=4,recent=32"};
    for (size_t m = 0; m < PITH_COUNT(models); m++) {
        struct opened o;
        open_model(&o, models[m]);
        for (size_t c = 0; c < PITH_COUNT(caches); c++) holds(&o.r, caches[c]);
        holds(&o.r, "kivi2");
        if (strcmp(models[m], "qwen3_next") == 0) holds(&o.r, "int8:token,state=bf16");
        close_model(&o);
    }
}

/* Of experts several tokens read more than one does, at most all. */
static void experts_are_read_by_lot(void **state)
{
    (void)state;
    struct opened o;
    open_model(&o, "mixtral");
    const struct pith_model *m = o.r.model;
    const double row = pith_speed_matrix_bytes(&m->embed) / m->embed.rows;
    const double part = (double)m->shape.moe.taken / m->shape.moe.experts;
    double experts = 0, bytes[3];
    for (uint32_t i = 0; i < m->shape.layers; i++)
        for (uint32_t j = 0; j < m->blocks[i].plan->linears; j++)
            if (m->blocks[i].plan->linear[j].expert != PITH_NO_PART)
                experts += pith_speed_matrix_bytes(&m->blocks[i].linear[j].w);
    for (size_t i = 0; i < 3; i++)
        bytes[i] = pith_speed_weight_bytes(m, i + 1) - (double)(i + 1) * row;
    assert_true(experts > 0 && part < 1);
    assert_true(fabs(bytes[1] - bytes[0] - experts * part * (1 - part)) < 1);
    assert_true(fabs(bytes[2] - bytes[1] - experts * part * (1 - part) * (1 - part)) < 1);
    close_model(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_takes_what_is_said),
        cmocka_unit_test(experts_are_read_by_lot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
