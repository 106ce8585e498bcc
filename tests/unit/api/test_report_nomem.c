/* Whichever request for memory of jansson's fails while a report is put together, the call says so
 * or the report is whole: nothing that is told lacks a key or an element. */
#include <pith/eval.h>
#include <pith/inspect.h>
#include <pith/quantize.h>
#include <pith/report.h>
#include <pith/sensitivity.h>

#include "base/str.h"
#include "requests.h"
#include "test.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PROBE "models/probe"

/* Requests of jansson's until one fails; negative: none will. Not while it parses: jansson 2.14
 * writes past its token buffer when that cannot grow. */
static long jansson = -1;
static int parsing;

static void *request(size_t size)
{
    if (!parsing && jansson >= 0 && jansson-- == 0) return NULL;
#if PITH_REQUESTS
    return __libc_malloc(size);
#else
    return malloc(size);
#endif
}

static void release(void *p)
{
#if PITH_REQUESTS
    __libc_free(p);
#else
    free(p);
#endif
}

struct input {
    const char *text;
    size_t left;
};

static size_t take(void *to, size_t most, void *ctx)
{
    struct input *in = ctx;
    const size_t n = in->left < most ? in->left : most;
    memcpy(to, in->text, n);
    in->text += n;
    in->left -= n;
    return n;
}

json_t *json_loadb(const char *text, size_t size, size_t flags, json_error_t *error)
{
    struct input in = {text, size};
    parsing++;
    json_t *j = json_load_callback(take, &in, flags, error);
    parsing--;
    return j;
}

static struct pith_context *context;
static char folder[] = "/tmp/pith-report-XXXXXX";
static char quantized[64];

/* All keys, and how many elements lists have: what a report holds whatever it measured. */
static void outline(const json_t *j, struct pith_str *out)
{
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach ((json_t *)(uintptr_t)j, key, value) {
        pith_str_printf(out, "%s:", key);
        outline(value, out);
    }
    json_array_foreach (j, i, value) outline(value, out);
    pith_str_puts(out, json_is_null(j) ? "0" : ".");
}

static char *outline_of(const char *report)
{
    struct pith_str s = {0};
    json_t *j = json_loadb(report, strlen(report), 0, NULL);
    assert_non_null(j);
    outline(j, &s);
    json_decref(j);
    char *text = pith_str_take(&s);
    assert_non_null(text);
    return text;
}

typedef enum pith_status (*reporter)(char **report, struct pith_error *err);

/* Calls with request n failing, of jansson's or of pith's own; true when one failed. The call says
 * so, or its report is whole. */
static bool survives(const char *name, reporter call, const char *whole, bool own, long n)
{
    struct pith_error err = {0};
    char *report = NULL;
    if (own) atomic_store(&countdown, n);
    else jansson = n;
    const enum pith_status s = call(&report, &err);
    const bool failed = own ? atomic_exchange(&countdown, -1) < 0 : jansson < 0;
    jansson = -1;
    if (s != PITH_OK && s != PITH_NOMEM)
        fail_msg("%s, request %ld (%d): status %d, %s", name, n, own, (int)s, err.text);
    if (s == PITH_OK) {
        char *told = outline_of(report);
        if (strcmp(told, whole) != 0)
            fail_msg("%s, request %ld (%d): %s\nis not\n%s", name, n, own, told, whole);
        pith_text_free(told);
    }
    pith_text_free(report);
    return failed;
}

/* Requests 0, 1, 2, ..., later more and more of them left out, until a call gets through. */
static void each_request(const char *name, reporter call)
{
    struct pith_error err = {0};
    char *report = NULL;
    long n = 0;
    assert_ok(call(&report, &err), err);
    char *whole = outline_of(report);
    pith_text_free(report);
    const long thick = test_thorough() ? 100 : 10, thin = test_thorough() ? 25 : 3;
    while (survives(name, call, whole, false, n)) n += 1 + n / thick;
    assert_true(n > 10);
    for (n = 0; PITH_REQUESTS && survives(name, call, whole, true, n);) n += 1 + n / thin;
    pith_text_free(whole);
}

static enum pith_status evaluate(char **report, struct pith_error *err)
{
    static const char *const texts[] = {PROBE "/eval.txt"};
    struct pith_eval_options o;
    pith_eval_defaults(&o);
    o.model = quantized;
    o.baseline = PROBE;
    o.texts = (struct pith_list){texts, 1};
    o.context = 16;
    o.max_tokens = 32;
    o.details = 1;
    return pith_eval(context, &o, report, err);
}

static enum pith_status verify(char **report, struct pith_error *err)
{
    struct pith_verify_options o;
    pith_verify_defaults(&o);
    o.model = quantized;
    o.against = PROBE;
    return pith_verify(context, &o, report, err);
}

static enum pith_status inspect(char **report, struct pith_error *err)
{
    return pith_inspect(context, quantized, 0, report, err);
}

static enum pith_status differ(char **report, struct pith_error *err)
{
    return pith_diff(context, PROBE, quantized, report, err);
}

static enum pith_status read_numbers(char **report, struct pith_error *err)
{
    struct pith_numbers n;
    const enum pith_status s =
        pith_numbers_read(context, quantized, "model.layers.5.mlp.down_proj", &n, err);
    if (s != PITH_OK) {
        assert_null(n.value);
        return s;
    }
    assert_int_equal(n.rows, 256);
    assert_int_equal(n.cols, 768);
    memset(n.value, 0, n.rows * n.cols * sizeof *n.value);
    memcpy(n.value, "{}", 3);
    *report = (char *)n.value;
    return PITH_OK;
}

/* A list, or one of its entries, whose text was made with its JSON. */
static enum pith_status list(const char *name, const char *entry, char **report,
                             struct pith_error *err)
{
    const struct pith_report_form form = {.json = 1};
    struct pith_report *r = NULL;
    PITH_TRY(pith_list_report(name, entry, &r, err));
    const enum pith_status s = pith_report_write(r, &form, report, err);
    pith_report_free(&r);
    return s;
}

static enum pith_status list_recipes(char **report, struct pith_error *err)
{
    return list("recipes", NULL, report, err);
}

static enum pith_status list_format(char **report, struct pith_error *err)
{
    return list("formats", "mxfp4", report, err);
}

static enum pith_status list_loads(char **report, struct pith_error *err)
{
    return list("features", "vllm", report, err);
}

static enum pith_status list_splits(char **report, struct pith_error *err)
{
    return list("features", "splits", report, err);
}

/* What a failure left to go on with is removed before each. */
static enum pith_status sense(char **report, struct pith_error *err)
{
    static const char *const grids[] = {"int4:g128"}, *const acts[] = {"int8:token"};
    static const char *const caches[] = {"turbo3"};
    char work[64], command[96];
    struct pith_sensitivity_options o;
    pith_sensitivity_defaults(&o);
    snprintf(work, sizeof work, "%s/sense", folder);
    snprintf(command, sizeof command, "rm -rf %s.partial", work);
    assert_int_equal(system(command), 0);
    o.model = PROBE;
    o.work = work;
    o.recipe = "rtn";
    o.container = "compressed-tensors";
    o.tries = (struct pith_list){grids, 1};
    o.acts = (struct pith_list){acts, 1};
    o.caches = (struct pith_list){caches, 1};
    o.calib_tokens = 16;
    o.seq_len = 16;
    return pith_sensitivity(context, &o, report, err);
}

/* The page of a report, as an object of its lines. */
static char *sensed;
static enum pith_status draw(char **report, struct pith_error *err)
{
    char *html = NULL;
    PITH_TRY(pith_sensitivity_html(sensed, &html, err));
    const char *const pieces[] = {"Keys and values", "The dearest", "layer 5", "</html>"};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        assert_non_null(strstr(html, pieces[i]));
    memset(html, ' ', strlen(html));
    memcpy(html, "{}", 2);
    *report = html;
    return PITH_OK;
}

static void sensitivities(void **state)
{
    (void)state;
    struct pith_error err = {0};
    each_request("sensitivity", sense);
    assert_ok(sense(&sensed, &err), err);
    each_request("its page", draw);
    pith_text_free(sensed);
}

static void evaluations(void **state)
{
    (void)state;
    each_request("eval", evaluate);
}
static void verifications(void **state)
{
    (void)state;
    each_request("verify", verify);
}
static void inspections(void **state)
{
    (void)state;
    each_request("inspect", inspect);
}
static void differences(void **state)
{
    (void)state;
    each_request("diff", differ);
}
static void numbers(void **state)
{
    (void)state;
    char *whole = outline_of("{}");
    long n = 0;
    while (PITH_REQUESTS && survives("numbers", read_numbers, whole, true, n)) n++;
    assert_true(n > 10 || !PITH_REQUESTS);
    pith_text_free(whole);
}
static void lists(void **state)
{
    (void)state;
    each_request("formats", pith_formats_json);
    each_request("recipes", list_recipes);
    each_request("a format", list_format);
    each_request("splits", list_splits);
    each_request("an engine", list_loads);
}

static int quantize(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_quantize_options o;
    assert_non_null(mkdtemp(folder));
    snprintf(quantized, sizeof quantized, "%s/out", folder);
    assert_ok(pith_context_new(2, NULL, &context, &err), err);
    pith_quantize_defaults(&o);
    o.model = PROBE;
    o.out = quantized;
    o.recipe = "rtn";
    assert_ok(pith_quantize(context, &o, NULL, &err), err);
    json_set_alloc_funcs(request, release);
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    char command[128];
    pith_context_free(&context);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluations),   cmocka_unit_test(verifications),
        cmocka_unit_test(inspections),   cmocka_unit_test(differences),
        cmocka_unit_test(numbers),       cmocka_unit_test(lists),
        cmocka_unit_test(sensitivities),
    };
    return cmocka_run_group_tests(tests, quantize, clean_up);
}
