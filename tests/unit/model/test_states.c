/* What layers keep for a sequence, when tokens are taken back: a latent and a recurrent state give
 * the bits of a sequence that never had them. */
#include "unit/model/arch_case.h"

enum { HIDDEN = 32 };

static void open_case(struct rig *r, const char *name)
{
    rig_open_arch(r, name, 2);
    assert_int_equal(r->model->shape.hidden, HIDDEN);
}

static void begin(struct rig *r, struct pith_session *s, size_t chunk)
{
    struct pith_error err = {0};
    const struct pith_session_options o = {
        .capacity = 40, .chunk = chunk, .kv = pith_kv_floats(PITH_F32)};
    assert_ok(pith_session_init(s, r->model, r->backend, &o, &err), err);
}

/* The hidden row of the last of n ids read in a session of their own. */
static void alone(struct rig *r, const int32_t *ids, size_t n, float row[HIDDEN])
{
    struct pith_error err = {0};
    struct pith_session s;
    float x[40 * HIDDEN];
    begin(r, &s, 40);
    assert_ok(pith_session_append(&s, ids, n, x, &err), err);
    memcpy(row, x + (n - 1) * HIDDEN, HIDDEN * sizeof *row);
    pith_session_free(&s);
}

/* Back to `keep` tokens, then `more` others: a place to go back to, and how. */
struct turn {
    size_t keep, more;
};

static void taken_back(const char *name)
{
    static const struct turn turns[] = {{0, 20}, {13, 4}, {13, 7}, {19, 3}, {13, 1}, {14, 5},
                                        {6, 9},  {15, 2}, {13, 1}, {0, 3},  {2, 30}, {31, 1}};
    struct pith_error err = {0};
    struct rig r;
    struct pith_session s;
    int32_t ids[40], token = 3;
    float x[40 * HIDDEN], expected[HIDDEN];
    open_case(&r, name);
    for (size_t chunk = 3; chunk <= 40; chunk += 37) {
        begin(&r, &s, chunk);
        for (size_t t = 0; t < PITH_COUNT(turns); t++) {
            const size_t keep = turns[t].keep, more = turns[t].more;
            pith_session_rewind(&s, keep);
            assert_int_equal(s.length, keep);
            for (size_t i = 0; i < more; i++) ids[keep + i] = token = (token * 7 + 5) % 80;
            assert_ok(pith_session_append(&s, ids + keep, more, x, &err), err);
            alone(&r, ids, keep + more, expected);
            assert_memory_equal(x + (more - 1) * HIDDEN, expected, sizeof expected);
        }
        pith_session_free(&s);
    }
    rig_close(&r);
}

static void latents_are_taken_back(void **state)
{
    (void)state;
    taken_back("deepseek_v3");
    taken_back("deepseek_v2");
}

static void recurrent_states_are_taken_back(void **state)
{
    (void)state;
    taken_back("qwen3_next");
    taken_back("qwen3_5");
    taken_back("lfm2_moe");
    taken_back("granitemoehybrid");
}

/* A pass of its own cannot begin where the state is not. */
static void a_state_goes_on_from_where_it_is(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig r;
    struct pith_session s;
    float x[4 * HIDDEN] = {0};
    open_case(&r, "qwen3_next");
    begin(&r, &s, 8);
    struct pith_pass p = {
        .backend = r.backend, .model = r.model, .scratch = &s.runner.scratch, .kv = &s.runner.kv};
    assert_ok(pith_block_forward(&p, &r.model->blocks[0], x, 4, NULL, &err), err);
    p.start = 3;
    assert_int_equal(pith_block_forward(&p, &r.model->blocks[0], x, 4, NULL, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "seen 4 tokens cannot go on from 3"));
    p.start = 4;
    assert_ok(pith_block_forward(&p, &r.model->blocks[0], x, 4, NULL, &err), err);
    pith_session_free(&s);
    rig_close(&r);
}

/* What is asked for is what is taken: latents of one head, recurrent states twice. */
static void sizes_are_those_of_what_is_kept(void **state)
{
    (void)state;
    struct rig r;
    open_case(&r, "deepseek_v3");
    /* 3 layers of 32 positions: keys of 16 + 8, padded to 32, hold the values; sums of 4 heads. */
    assert_pages(pith_kv_bytes(&r.model->plans, 3, 20, PITH_BF16),
                 3 * 32 * 32 * 2 + 4 * 32 * 4);
    rig_close(&r);
    open_case(&r, "qwen3_5");
    /* Three states of 3 x 56 inputs and 4 x 8 x 16, one layer of two heads of 16. */
    const size_t floats = 3 * (3 * 56 + 4 * 8 * 16);
    assert_pages(pith_kv_bytes(&r.model->plans, 4, 20, PITH_F32),
                 2 * floats * 4 + 2 * 2 * 32 * 16 * 4 + 4 * 32 * 4);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latents_are_taken_back),
        cmocka_unit_test(recurrent_states_are_taken_back),
        cmocka_unit_test(a_state_goes_on_from_where_it_is),
        cmocka_unit_test(sizes_are_those_of_what_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
