/* quantize/site/change_basis: the model in another basis computes what it computed, and its
 * matrices are those of the definition. */
#include "llama.h"
#include "quantize/site/change_basis.h"
#include "unit/model/fixture.h"

static const char *const cases[] = {"llama_gqa_tied", "llama_bias", "llama_mha",
                                    "mistral_window", "qwen2",      "qwen3_bias_tied"};

/* Replaces what stands outside the blocks; the arrays are to be freed. */
static void turn_ends(const struct pith_basis_change *t, struct pith_model *m, float *ends[2])
{
    struct pith_error err = {0};
    const struct pith_shape *s = &m->shape;
    for (int head = 0; head < 2; head++) {
        ends[head] = pith_alloc_aligned((size_t)s->vocab * s->hidden, sizeof(float));
        for (uint32_t at = 0; at < s->vocab; at += 7)
            assert_ok(pith_rotated_rows(t, head, at, s->vocab - at < 7 ? s->vocab - at : 7,
                                        ends[head] + (size_t)at * s->hidden, &err),
                      err);
    }
    struct pith_weight *w[2] = {&m->embed, &m->head};
    for (int head = 0; head < 2; head++) {
        w[head]->dtype = PITH_F32;
        w[head]->dense = ends[head];
    }
    for (uint32_t i = 0; i < s->hidden; i++) m->final_norm[i] = 1;
}

/* A model whose blocks are floats that may be changed. */
static void open_floats(struct rig *r, const char *dir)
{
    struct pith_error err = {0};
    rig_open_bare(r, dir, 2);
    r->model->blocks = pith_zalloc(r->model->shape.layers, sizeof *r->model->blocks);
    for (uint32_t i = 0; i < r->model->shape.layers; i++)
        assert_ok(pith_block_load(r->model, i, PITH_LOAD_FLOAT, &r->model->blocks[i], &err), err);
}

static void assert_blocks_agree(const struct pith_basis_change *t, struct pith_model *m)
{
    struct pith_error err = {0};
    for (uint32_t layer = 0; layer < m->shape.layers; layer++)
        for (uint32_t role = 0; role < LLAMA_LINEARS; role++) {
            const struct pith_linear_weights *l = &m->blocks[layer].linear[role];
            float *w;
            assert_ok(pith_rotated_linear(t, layer, role, l->hadamard > 1, &w, &err), err);
            assert_memory_equal(w, l->dense, (size_t)l->w.rows * l->w.cols * sizeof *w);
            pith_free(w);
        }
}

/* The model in a folder, before and after, by its logits. */
static void check_model(const char *dir, struct pith_basis_plan plan)
{
    struct pith_error err = {0};
    struct rig r;
    int32_t ids[PROMPT_MAX];
    struct pith_basis basis;
    float *ends[2];
    const size_t n = golden_prompt(0, ids);
    open_floats(&r, dir);
    const struct pith_shape *s = &r.model->shape;
    float *want = rig_logits(&r, ids, n, n);
    plan.hidden = s->hidden;
    plan.head_dim = s->head_dim;
    plan.ffn = s->ffn;
    plan.attention = s->heads * s->head_dim;
    assert_ok(pith_basis_init(&basis, &plan, &err), err);
    const struct pith_basis_change t = {&basis, r.model, r.backend};
    for (uint32_t i = 0; i < s->layers; i++) {
        r.model->blocks[i].linear[LLAMA_O].hadamard = plan.o;
        r.model->blocks[i].linear[LLAMA_DOWN].hadamard = plan.down;
        assert_ok(pith_rotate_block(&t, &r.model->blocks[i], &err), err);
    }
    assert_blocks_agree(&t, r.model);
    if (basis.stream.dim) turn_ends(&t, r.model, ends);
    float *is = rig_logits(&r, ids, n, n), worst = 0, largest = 0;
    for (size_t i = 0; i < n * s->vocab; i++) {
        worst = fmaxf(worst, fabsf(is[i] - want[i]));
        largest = fmaxf(largest, fabsf(want[i]));
    }
    if (!(worst < 1e-5f * largest)) fail_msg("%s: %g of %g", dir, (double)worst, (double)largest);
    for (int i = 0; basis.stream.dim && i < 2; i++) pith_free(ends[i]);
    pith_basis_free(&basis);
    free(want);
    free(is);
    rig_close(&r);
}

static void check_case(const char *name, struct pith_basis_plan plan)
{
    char *dir = golden_folder(name);
    check_model(dir, plan);
    folder_remove(dir);
}

/* Models that have learned something; the second where the data folder is. */
static void function_of_real_models_does_not_change(void **state)
{
    (void)state;
    char dir[300];
    check_model("models/probe",
                (struct pith_basis_plan){.stream = 256, .o = 256, .down = 256, .seed = 1});
    (void)snprintf(dir, sizeof dir, "%s/models/stories260K", test_data_dir());
    if (!pith_path_is_dir(dir)) skip();
    check_model(dir, (struct pith_basis_plan){.stream = 64, .head = 8, .down = 4, .seed = 1});
}

static void function_does_not_change(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        check_case(cases[i], (struct pith_basis_plan){.stream = 32, .head = 2, .seed = 1});
        check_case(cases[i], (struct pith_basis_plan){.stream = 8, .seed = 2});
        check_case(cases[i], (struct pith_basis_plan){.head = 2, .seed = 3});
        check_case(cases[i], (struct pith_basis_plan){.down = 4});
        check_case(cases[i], (struct pith_basis_plan){.stream = 32, .head = 2, .down = 4});
        check_case(cases[i], (struct pith_basis_plan){.o = 8, .down = 2});
    }
}

/* The next count values of the golden file. */
static void assert_golden(FILE *f, const float *is, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        float want;
        assert_int_equal(fread(&want, sizeof want, 1, f), 1);
        if (!(fabsf(is[i] - want) <= 1e-6f * fmaxf(1, fabsf(want))))
            fail_msg("%s: value %zu is %.9g, not %.9g", what, i, (double)is[i], (double)want);
    }
}

/* tests/golden/turn: QuaRot's own code on the same model and signs. */
static void tensors_are_quarots(void **state)
{
    (void)state;
    enum { ROWS = 16 };
    struct pith_error err = {0};
    struct rig r;
    struct pith_basis basis;
    rig_open_golden(&r, "llama_gqa_tied", 1);
    const struct pith_shape *s = &r.model->shape;
    const struct pith_basis_plan plan = {.hidden = s->hidden,
                                         .head_dim = s->head_dim,
                                         .ffn = s->ffn,
                                         .stream = 32,
                                         .head = 8,
                                         .down = 4,
                                         .seed = 5};
    assert_ok(pith_basis_init(&basis, &plan, &err), err);
    const struct pith_basis_change t = {&basis, r.model, r.backend};
    FILE *f = fopen("tests/golden/turn/turn.f32", "rb");
    assert_non_null(f);
    float rows[ROWS * 32];
    for (int head = 0; head < 2; head++) {
        assert_ok(pith_rotated_rows(&t, head, 0, ROWS, rows, &err), err);
        assert_golden(f, rows, PITH_COUNT(rows), head ? "the head" : "the embedding");
    }
    for (uint32_t role = 0; role < LLAMA_LINEARS; role++) {
        const struct pith_linear_spec *l = &pith_plan(&r.model->plans, 1)->linear[role];
        float *w;
        assert_ok(pith_rotated_linear(&t, 1, role, true, &w, &err), err);
        assert_golden(f, w, (size_t)l->rows * l->cols, l->name);
        pith_free(w);
    }
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
    pith_basis_free(&basis);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(function_does_not_change),
        cmocka_unit_test(function_of_real_models_does_not_change),
        cmocka_unit_test(tensors_are_quarots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
