/* The forward pass against transformers, on tiny random models of every architecture and variant
 * (tests/golden/model/make_golden.py), and its invariances: chunks, threads, rewinding. */
#include "unit/model/fixture.h"

/* Difference to transformers that is allowed, relative to the range of its logits. Both sides sum
 * in float32 in some order; measured differences are below 3e-6. */
static const double tolerance = 1e-5;

/* Tokens read at once, one by one as in generation or a few: the bits of all at once. */
static const size_t chunks[] = {1, 3, 5};

static void check_case(const char *name)
{
    struct pith_error err = {0};
    struct rig r;
    char path[256];
    rig_open_golden(&r, name, 2);
    int32_t ids[2][PROMPT_MAX];
    const size_t n[2] = {golden_prompt(0, ids[0]), golden_prompt(1, ids[1])};
    const size_t vocab = r.model->shape.vocab;

    char *bytes;
    size_t size;
    snprintf(path, sizeof path, GOLDEN "%s.logits", name);
    assert_ok(pith_file_read(path, 1 << 20, &bytes, &size, &err), err);
    assert_int_equal(size, (n[0] + n[1]) * vocab * sizeof(float));
    float *expected = malloc(size);
    memcpy(expected, bytes, size);
    double worst = 0;
    for (size_t i = 0, at = 0; i < 2; at += n[i] * vocab, i++) {
        float *whole = rig_logits(&r, ids[i], n[i], PROMPT_MAX);
        const double d = logits_difference(whole, expected + at, n[i] * vocab);
        if (!(d <= worst)) worst = d;
        for (size_t c = 0; c < PITH_COUNT(chunks); c++) {
            float *logits = rig_logits(&r, ids[i], n[i], chunks[c]);
            assert_memory_equal(logits, whole, n[i] * vocab * sizeof *whole);
            free(logits);
        }
        free(whole);
    }
    print_message("%-20s %.1e\n", name, worst);
    if (!(worst <= tolerance)) fail_msg("%s: logits differ by %g of their range", name, worst);
    free(expected);
    pith_free(bytes);
    rig_close(&r);
}

static void every_case_equals_transformers(void **state)
{
    (void)state;
    struct pith_error err = {0};
    char **names;
    size_t count, cases = 0;
    assert_ok(pith_dir_list("tests/golden/model", &names, &count, &err), err);
    for (size_t i = 0; i < count; i++) {
        char *dot = strrchr(names[i], '.');
        if (!dot || strcmp(dot, ".json") != 0) continue;
        *dot = '\0';
        check_case(names[i]);
        cases++;
    }
    pith_names_free(names, count);
    assert_true(cases >= 20);
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    static const char *const cases[] = {"llama_bias", "mistral_window", "qwen3", "qwen2_tied_f16"};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        int32_t ids[PROMPT_MAX];
        const size_t n = golden_prompt(0, ids);
        for (size_t c = 0; c < PITH_COUNT(chunks); c++) {
            float *first = NULL;
            for (unsigned threads = 1; threads <= 3; threads++) {
                struct rig r;
                rig_open_golden(&r, cases[i], threads);
                float *logits = rig_logits(&r, ids, n, chunks[c]);
                if (!first) first = logits;
                assert_memory_equal(logits, first, n * PROMPT_VOCAB * sizeof(float));
                if (logits != first) free(logits);
                rig_close(&r);
            }
            free(first);
        }
    }
}

/* bfloat16 has 8 significant bits: rounding keys and values moves the logits by a few thousandths
 * of their range, and the same way for any threads and chunks (of rows enough that the linears add
 * in one order). */
static void a_bfloat16_cache_is_close(void **state)
{
    (void)state;
    static const char *const cases[] = {"llama_bias", "mistral_window", "qwen3", "qwen2_tied_f16"};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        int32_t ids[PROMPT_MAX];
        const size_t n = golden_prompt(0, ids);
        struct rig r, one;
        rig_open_golden(&r, cases[i], 3);
        rig_open_golden(&one, cases[i], 1);
        const size_t count = n * r.model->shape.vocab;
        float *full = rig_logits(&r, ids, n, n), *half = rig_logits_kv(&r, ids, n, n, PITH_BF16);
        const double d = logits_difference(half, full, count);
        print_message("%-20s %.1e\n", cases[i], d);
        if (!(d > 0 && d < 0.02)) fail_msg("%s: bfloat16 moves logits by %g", cases[i], d);
        float *chunked = rig_logits_kv(&one, ids, n, PROMPT_MAX / 4, PITH_BF16);
        assert_memory_equal(chunked, half, count * sizeof *half);
        free(chunked);
        free(half);
        free(full);
        rig_close(&one);
        rig_close(&r);
    }
}

/* Two sessions of one model take turns; both are rewound, and nothing of the past shows. */
static void sessions_rewind_and_do_not_mix(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig r;
    rig_open_golden(&r, "mistral_window", 2);
    const size_t hidden = r.model->shape.hidden;
    int32_t a[PROMPT_MAX], b[PROMPT_MAX];
    const size_t na = golden_prompt(0, a), nb = golden_prompt(1, b);
    float *xa = malloc(na * hidden * sizeof *xa), *xb = malloc(nb * hidden * sizeof *xb);
    float *again = malloc(na * hidden * sizeof *again);
    struct pith_session s, t;
    const struct pith_session_options options = {
        .capacity = na, .chunk = 7, .kv = pith_kv_floats(PITH_F32)};
    assert_ok(pith_session_init(&s, r.model, r.backend, &options, &err), err);
    assert_ok(pith_session_init(&t, r.model, r.backend, &options, &err), err);
    assert_ok(pith_session_append(&s, a, na, xa, &err), err);
    assert_ok(pith_session_append(&t, b, nb, xb, &err), err);

    pith_session_rewind(&s, 0);
    assert_ok(pith_session_append(&s, b, nb, again, &err), err);
    assert_memory_equal(again, xb, nb * hidden * sizeof *xb);
    /* A wrong turn in the middle is forgotten. */
    pith_session_rewind(&t, 0);
    assert_ok(pith_session_append(&t, a, 14, again, &err), err);
    assert_ok(pith_session_append(&t, b, nb, again + 14 * hidden, &err), err);
    pith_session_rewind(&t, 14);
    assert_int_equal(t.length, 14);
    pith_session_rewind(&t, 99);
    assert_int_equal(t.length, 14);
    assert_ok(pith_session_append(&t, a + 14, na - 14, again + 14 * hidden, &err), err);
    assert_memory_equal(again, xa, na * hidden * sizeof *xa);

    /* A full context and a bad id are refused and leave the session as it was. */
    assert_int_equal(pith_session_append(&t, a, 1, again, &err), PITH_LIMIT);
    err = (struct pith_error){0};
    pith_session_rewind(&t, 5);
    const int32_t bad[] = {3, PROMPT_VOCAB}, negative[] = {-1};
    assert_int_equal(pith_session_append(&t, bad, 2, again, &err), PITH_ARG);
    err = (struct pith_error){0};
    assert_int_equal(pith_session_append(&t, negative, 1, again, &err), PITH_ARG);
    assert_int_equal(t.length, 5);
    pith_session_free(&s);
    pith_session_free(&t);
    free(xa);
    free(xb);
    free(again);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_equals_transformers),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(a_bfloat16_cache_is_close),
        cmocka_unit_test(sessions_rewind_and_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
