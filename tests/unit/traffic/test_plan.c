/* What is asked and when: src/traffic/lengths.c, plan.c, prompts.c. */
#include "base/str.h"
#include "tests/test.h"
#include "traffic/plan.h"
#include "traffic/prompts.h"

#include <math.h>

/* --- lengths ---------------------------------------------------------------------------------- */

struct moments {
    double mean, variance, least, most;
};

static struct moments moments_of(const char *text, size_t n)
{
    struct pith_lengths l;
    struct pith_rng rng;
    struct pith_error err = {0};
    struct moments m = {.least = 1e18};
    assert_ok(pith_lengths_parse(text, "--prompt", &l, &err), err);
    pith_rng_seed(&rng, 7);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)pith_lengths_draw(&l, &rng);
        sum += x;
        squares += x * x;
        m.least = fmin(m.least, x);
        m.most = fmax(m.most, x);
    }
    m.mean = sum / (double)n;
    m.variance = squares / (double)n - m.mean * m.mean;
    return m;
}

static void near(double got, double wanted, double within)
{
    if (!(fabs(got - wanted) <= within)) fail_msg("%g instead of %g", got, wanted);
}

/* Means and deviations by their closed forms; bounds are five standard errors. */
static void lengths_have_their_moments(void **state)
{
    (void)state;
    enum { N = 100000 };
    struct moments m = moments_of("256", 100);
    assert_true(m.least == 256 && m.most == 256);
    m = moments_of("uniform:100:300", N);
    near(m.mean, 200, 5 * 58.0 / sqrt(N));
    near(sqrt(m.variance), sqrt((201.0 * 201 - 1) / 12), 0.5);
    assert_true(m.least == 100 && m.most == 300);
    m = moments_of("normal:500:50", N);
    near(m.mean, 500, 5 * 50 / sqrt(N));
    near(sqrt(m.variance), 50, 1);
    m = moments_of("lognormal:256:0.5", N);
    near(m.mean, 256 * exp(0.125), 5 * 155 / sqrt(N));
    near(sqrt(m.variance), 256 * exp(0.125) * sqrt(exp(0.25) - 1), 4);
    m = moments_of("exponential:400", N);
    near(m.mean, 400, 5 * 400 / sqrt(N));
    m = moments_of("either:10:20:60", N);
    near(m.mean, 30, 5 * 22 / sqrt(N));
    assert_true(m.least == 10 && m.most == 60);
    m = moments_of("lognormal:256:2,min=64,max=512", N);
    assert_true(m.least == 64 && m.most == 512);
    m = moments_of("normal:2:50", 1000);
    assert_true(m.least == 1);
    assert_true(moments_of("2k", 1).mean == 2048);
}

static void what_is_no_distribution_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "x",
                                      "-5",
                                      "0",
                                      "fixed",
                                      "uniform:5",
                                      "uniform:9:5",
                                      "uniform:1:2:3",
                                      "256,min=",
                                      "256,max=0",
                                      "256,least=3",
                                      "256,min=9,max=8",
                                      "normal:5",
                                      "256x",
                                      "either:5",
                                      "lognormal:256:x",
                                      "1e99",
                                      "uniform:1:nan",
                                      "256,",
                                      "fixed:1,min=1x",
                                      "either:1:2:3:4:5:6:7:8:9",
                                      "uniform:-5:5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pith_lengths l;
        struct pith_error err = {0};
        if (pith_lengths_parse(bad[i], "--prompt", &l, &err) != PITH_ARG)
            fail_msg("%s is taken", bad[i]);
        assert_non_null(strstr(err.text, "--prompt"));
    }
    struct pith_lengths l;
    struct pith_error err = {0};
    assert_int_equal(pith_lengths_parse("lognorml:1:2", "--gen", &l, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "did you mean lognormal"));
}

/* --- plans ------------------------------------------------------------------------------------ */

static struct pith_plan_options plan(const char *arrivals, double rate, uint64_t seed)
{
    struct pith_plan_options o = {
        .arrivals = pith_arrivals_find(arrivals), .rate = rate, .seed = seed};
    struct pith_error err = {0};
    assert_non_null(o.arrivals);
    assert_ok(pith_lengths_parse("uniform:1:1000", "--prompt", &o.prompt, &err), err);
    assert_ok(pith_lengths_parse("exponential:50", "--gen", &o.answer, &err), err);
    return o;
}

/* The mean gap is that of the rate; the variance of the gaps that of their distribution, in units
 * of the mean gap: 1, 0 and 4. */
static void arrivals_have_their_rate(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double variance, within;
    } cases[] = {{"poisson", 1, 0.05}, {"even", 0, 1e-9}, {"bursts", 4, 0.4}};
    enum { N = 100000 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct pith_plan_options o = plan(cases[i].name, 8, 3);
        struct pith_planner p;
        struct pith_planned r;
        double before = 0, squares = 0;
        size_t above = 0;
        pith_planner_begin(&p, &o);
        for (size_t k = 0; k < N; k++) {
            assert_true(pith_planner_next(&p, &r));
            assert_true(r.at >= before && r.index == k);
            const double gap = 8 * (r.at - before);
            squares += gap * gap;
            above += gap > 1;
            before = r.at;
        }
        const double mean = 8 * before / N;
        near(mean, 1, 5 * sqrt(cases[i].variance / N) + 1e-9);
        near(squares / N - mean * mean, cases[i].variance, cases[i].within);
        if (i == 0) near((double)above / N, exp(-1), 0.01); /* memoryless */
    }
}

/* Counts in windows of a second are Poisson's: their variance is their mean. */
static void counts_are_poisson(void **state)
{
    (void)state;
    enum { SECONDS = 20000 };
    const struct pith_plan_options o = plan("poisson", 5, 11);
    struct pith_planner p;
    struct pith_planned r;
    double sum = 0, squares = 0;
    pith_planner_begin(&p, &o);
    assert_true(pith_planner_next(&p, &r));
    for (size_t s = 0; s < SECONDS; s++) {
        double n = 0;
        for (; r.at < (double)(s + 1); n++) assert_true(pith_planner_next(&p, &r));
        sum += n;
        squares += n * n;
    }
    const double mean = sum / SECONDS, variance = squares / SECONDS - mean * mean;
    near(mean, 5, 0.08);
    near(variance / mean, 1, 0.06);
}

static void the_same_seed_is_the_same_plan(void **state)
{
    (void)state;
    const struct pith_plan_options a = plan("poisson", 2, 5), other = plan("poisson", 2, 6);
    struct pith_plan_options level = a;
    level.level = 1;
    struct pith_planner p[4];
    struct pith_planned r[4];
    size_t same_prompt = 0, same_seed = 0;
    pith_planner_begin(&p[0], &a);
    pith_planner_begin(&p[1], &a);
    pith_planner_begin(&p[2], &other);
    pith_planner_begin(&p[3], &level);
    for (size_t i = 0; i < 1000; i++) {
        for (size_t k = 0; k < 4; k++) assert_true(pith_planner_next(&p[k], &r[k]));
        assert_memory_equal(&r[0], &r[1], sizeof r[0]);
        /* Another level asks as long ones at the same times, and never the same. */
        assert_true(r[0].at == r[3].at && r[0].prompt == r[3].prompt &&
                    r[0].answer == r[3].answer && r[0].seed != r[3].seed);
        same_prompt += r[0].prompt == r[2].prompt;
        same_seed += r[0].seed == r[2].seed;
    }
    assert_true(same_prompt < 20 && same_seed == 0);
}

/* --- traces ----------------------------------------------------------------------------------- */

static void traces_are_read(void **state)
{
    (void)state;
    static const char text[] =
        "{\"time\": 0, \"prompt\": 10, \"answer\": 5}\n\n  \r\n"
        "{\"time\": 0.5, \"prompt_tokens\": 20, \"answer_tokens\": 0}\n"
        "{\"timestamp\": 2000, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0]}";
    struct pith_trace t;
    struct pith_error err = {0};
    assert_ok(pith_trace_parse(text, sizeof text - 1, "trace", &t, &err), err);
    assert_int_equal(t.rows, 3);
    assert_true(t.row[1].at == 0.5 && t.row[1].prompt == 20 && t.row[1].answer == 1);
    assert_true(t.row[2].at == 2 && t.row[2].prompt == 6758 && t.row[2].index == 2);
    const struct pith_plan_options o = {.trace = &t};
    struct pith_planner p;
    struct pith_planned r;
    pith_planner_begin(&p, &o);
    for (size_t i = 0; i < 3; i++) assert_true(pith_planner_next(&p, &r) && r.at == t.row[i].at);
    assert_false(pith_planner_next(&p, &r));
    pith_trace_free(&t);
}

static void what_is_no_trace_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "\n\n",
        "x",
        "[]",
        "{}",
        "{\"time\": -1, \"prompt\": 1, \"answer\": 1}",
        "{\"time\": 0, \"prompt\": 1}",
        "{\"time\": 0, \"prompt\": 1e30, \"answer\": 1}",
        "{\"time\": 1, \"prompt\": 1, \"answer\": 1}\n{\"time\": 0, \"prompt\": 1, \"answer\": 1}",
        "{\"time\": \"0\", \"prompt\": 1, \"answer\": 1}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pith_trace t;
        struct pith_error err = {0};
        assert_int_equal(pith_trace_parse(bad[i], strlen(bad[i]), "trace", &t, &err), PITH_FORMAT);
        assert_non_null(strstr(err.text, "trace, line"));
    }
}

/* --- prompts ---------------------------------------------------------------------------------- */

static size_t words_in(const json_t *text)
{
    size_t n = 1;
    for (const char *p = json_string_value(text); *p; p++) n += *p == ' ';
    return n;
}

static void prompts_have_their_length(void **state)
{
    (void)state;
    struct pith_words w;
    struct pith_error err = {0};
    assert_ok(pith_words_open(NULL, &w, &err), err);
    assert_true(w.count > 250);
    w.per_word = 1.5;
    w.fixed = 10;
    json_t *a = pith_words_prompt(&w, 310, 1), *b = pith_words_prompt(&w, 310, 1),
           *c = pith_words_prompt(&w, 310, 2);
    assert_int_equal(words_in(a), 200);
    assert_true(json_equal(a, b) && !json_equal(a, c));
    json_decref(b);
    w.prefix = 150;
    b = pith_words_prompt(&w, 310, 2);
    assert_int_equal(words_in(b), 300);
    const char *own = strstr(json_string_value(b), json_string_value(c));
    assert_non_null(own);
    /* What stands before is the same for another prompt. */
    json_decref(a);
    a = pith_words_prompt(&w, 310, 9);
    assert_memory_equal(json_string_value(a), json_string_value(b),
                        (size_t)(own - json_string_value(b)));
    json_decref(a);
    json_decref(b);
    json_decref(c);
    pith_words_free(&w);
}

static void prompts_of_ids_are_exact(void **state)
{
    (void)state;
    struct pith_words w;
    struct pith_error err = {0};
    assert_ok(pith_words_open(NULL, &w, &err), err);
    w.ids = 3;
    w.id = malloc(w.ids * sizeof *w.id);
    w.id[0] = 7, w.id[1] = 70, w.id[2] = 700;
    w.prefix = 5;
    json_t *a = pith_words_prompt(&w, 100, 4), *one;
    size_t i;
    assert_int_equal(json_array_size(a), 105);
    json_array_foreach (a, i, one) {
        const json_int_t v = json_integer_value(one);
        assert_true(v == 7 || v == 70 || v == 700);
    }
    json_decref(a);
    pith_words_free(&w);
}

static void words_of_a_file_stay_in_order(void **state)
{
    (void)state;
    char *dir = test_temp_dir(), path[600];
    snprintf(path, sizeof path, "%s/text", dir);
    FILE *f = fopen(path, "w");
    fputs("one two\tthree\n\n four \xff\xfe\"five\" six", f);
    fclose(f);
    struct pith_words w;
    struct pith_error err = {0};
    assert_ok(pith_words_open(path, &w, &err), err);
    assert_int_equal(w.count, 5);
    json_t *a = pith_words_text(&w, 10, 3);
    char twice[200];
    snprintf(twice, sizeof twice, "%s",
             "one two three four six one two three four six one two "
             "three four six");
    assert_non_null(strstr(twice, json_string_value(a)));
    json_decref(a);
    pith_words_free(&w);
    f = fopen(path, "w");
    fputs(" \n\t", f);
    fclose(f);
    assert_int_equal(pith_words_open(path, &w, &err), PITH_FORMAT);
    remove(path);
    remove(dir);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_have_their_moments),
        cmocka_unit_test(what_is_no_distribution_is_refused),
        cmocka_unit_test(arrivals_have_their_rate),
        cmocka_unit_test(counts_are_poisson),
        cmocka_unit_test(the_same_seed_is_the_same_plan),
        cmocka_unit_test(traces_are_read),
        cmocka_unit_test(what_is_no_trace_is_refused),
        cmocka_unit_test(prompts_have_their_length),
        cmocka_unit_test(prompts_of_ids_are_exact),
        cmocka_unit_test(words_of_a_file_stay_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
