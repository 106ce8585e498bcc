/* eval/windows: by hand, and against the loop in Hugging Face's documentation (make_stats.py). */
#include "base/json.h"
#include "base/mem.h"
#include "eval/eval.h"
#include "test.h"

static struct pith_window *make(enum pith_convention c, size_t count, size_t context, size_t stride,
                                size_t *n)
{
    struct pith_error err = {0};
    struct pith_window *w;
    assert_ok(pith_windows_make(c, count, context, stride, &w, n, &err), err);
    return w;
}

static void gptq_is_disjoint_and_drops_the_tail(void **state)
{
    (void)state;
    size_t n;
    struct pith_window *w = make(PITH_CONVENTION_GPTQ, 11, 4, 0, &n);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(w[i].begin, 4 * i);
        assert_int_equal(w[i].length, 4);
        assert_int_equal(w[i].score_from, 1);
        assert_true(w[i].weight == 3);
        assert_false(w[i].bos_first);
    }
    pith_free(w);
    w = make(PITH_CONVENTION_GPTQ, 29680, 512, 0, &n);
    assert_int_equal(n, 57);
    assert_true(w[0].weight * 57 == 29127);
    pith_free(w);
}

static void llamacpp_scores_255_of_512(void **state)
{
    (void)state;
    size_t n;
    struct pith_window *w = make(PITH_CONVENTION_LLAMACPP, 1300, 512, 0, &n);
    assert_int_equal(n, 2);
    assert_int_equal(w[1].begin, 512);
    assert_int_equal(w[1].length - w[1].score_from, 255);
    assert_int_equal(w[1].score_from, 257);
    assert_true(w[0].bos_first && w[1].bos_first);
    pith_free(w);
    w = make(PITH_CONVENTION_LLAMACPP, 3, 3, 0, &n);
    assert_int_equal(n, 1);
    assert_int_equal(w[0].score_from, 2);
    pith_free(w);
}

static void bos_is_gptq_with_bos(void **state)
{
    (void)state;
    size_t n, want;
    struct pith_window *w = make(PITH_CONVENTION_BOS, 1300, 512, 0, &n);
    struct pith_window *gptq = make(PITH_CONVENTION_GPTQ, 1300, 512, 0, &want);
    assert_int_equal(n, want);
    for (size_t i = 0; i < n; i++) {
        assert_true(w[i].bos_first && !gptq[i].bos_first);
        assert_int_equal(w[i].begin, gptq[i].begin);
        assert_int_equal(w[i].length, gptq[i].length);
        assert_int_equal(w[i].score_from, gptq[i].score_from);
        assert_true(w[i].weight == gptq[i].weight);
    }
    pith_free(w);
    pith_free(gptq);
}

static size_t number(const json_t *list, size_t i)
{
    return (size_t)json_integer_value(json_array_get(list, i));
}

static size_t field(const json_t *obj, const char *key)
{
    return (size_t)json_integer_value(json_object_get(obj, key));
}

static void hf_is_the_documented_loop(void **state)
{
    (void)state;
    struct pith_error err = {0};
    json_t *golden;
    assert_ok(pith_json_load("tests/golden/eval/stats.json", 1 << 20, &golden, &err), err);
    const json_t *one, *cases = json_object_get(golden, "hf_windows");
    assert_true(json_array_size(cases) > 40);
    size_t i, n;
    json_array_foreach(cases, i, one) {
        const json_t *want = json_object_get(one, "windows");
        struct pith_window *w = make(PITH_CONVENTION_HF, field(one, "count"), field(one, "context"),
                                     field(one, "stride"), &n);
        assert_int_equal(n, json_array_size(want));
        for (size_t k = 0; k < n; k++) {
            const json_t *row = json_array_get(want, k);
            assert_int_equal(w[k].begin, number(row, 0));
            assert_int_equal(w[k].length, number(row, 1));
            assert_int_equal(w[k].score_from, number(row, 2));
            assert_true(w[k].weight == (double)number(row, 3));
            assert_false(w[k].bos_first);
        }
        pith_free(w);
    }
    json_decref(golden);
}

/* Each id but the first is scored exactly once, whatever the stride, up to one at the very end. */
static void hf_scores_every_token_once(void **state)
{
    (void)state;
    for (size_t count = 2; count < 60; count++)
        for (size_t context = 2; context < 14; context++)
            for (size_t stride = 2; stride < context; stride++) {
                size_t n, next = 1;
                struct pith_window *w = make(PITH_CONVENTION_HF, count, context, stride, &n);
                for (size_t k = 0; k < n; k++) {
                    assert_int_equal(w[k].begin + w[k].score_from, next);
                    next = w[k].begin + w[k].length;
                }
                assert_true(next == count || next == count - 1);
                pith_free(w);
            }
}

static void impossible_windows_are_refused(void **state)
{
    (void)state;
    static const struct {
        enum pith_convention c;
        size_t count, context, stride;
    } bad[] = {
        {PITH_CONVENTION_GPTQ, 511, 512, 0},     {PITH_CONVENTION_GPTQ, 10, 1, 0},
        {PITH_CONVENTION_GPTQ, 10, 0, 0},        {PITH_CONVENTION_GPTQ, 0, 2, 0},
        {PITH_CONVENTION_LLAMACPP, 511, 512, 0}, {PITH_CONVENTION_LLAMACPP, 10, 2, 0},
        {PITH_CONVENTION_HF, 1, 512, 256},       {PITH_CONVENTION_HF, 100, 10, 0},
        {PITH_CONVENTION_HF, 100, 10, 1},        {PITH_CONVENTION_HF, 100, 10, 11},
        {PITH_CONVENTION_HF, 0, 10, 5},          {PITH_CONVENTION_GPTQ, 100, SIZE_MAX, 0},
    };
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        struct pith_error err = {0};
        struct pith_window *w;
        size_t n;
        assert_int_equal(
            pith_windows_make(bad[i].c, bad[i].count, bad[i].context, bad[i].stride, &w, &n, &err),
            PITH_ARG);
        assert_true(strlen(err.text) > 10);
    }
    size_t n;
    struct pith_window *w = make(PITH_CONVENTION_HF, 5, SIZE_MAX, 512, &n);
    assert_int_equal(n, 1);
    pith_free(w);
}

static void names(void **state)
{
    (void)state;
    enum pith_convention c;
    static const char *const all[PITH_CONVENTIONS] = {"gptq", "hf", "llama.cpp", "bos"};
    for (size_t i = 0; i < PITH_CONVENTIONS; i++) {
        assert_true(pith_convention_find(all[i], &c));
        assert_string_equal(pith_convention_name(c), all[i]);
    }
    assert_false(pith_convention_find("lm-eval", &c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gptq_is_disjoint_and_drops_the_tail),
        cmocka_unit_test(llamacpp_scores_255_of_512),
        cmocka_unit_test(bos_is_gptq_with_bos),
        cmocka_unit_test(hf_is_the_documented_loop),
        cmocka_unit_test(hf_scores_every_token_once),
        cmocka_unit_test(impossible_windows_are_refused),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
