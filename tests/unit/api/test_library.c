/* libpith as a program of another version calls it: options of other sizes, calls that are stopped,
 * what a call leaves behind. */
#include <pith/advise.h>
#include <pith/bench.h>
#include <pith/eval.h>
#include <pith/generate.h>
#include <pith/inspect.h>
#include <pith/quantize.h>

#include "api/context.h"
#include "api/options.h"
#include "base/file.h"
#include "base/mem.h"
#include "sanitized.h"
#include "test.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE "models/probe"

static struct pith_context *context;

static int open_context(void **state)
{
    (void)state;
    struct pith_error err = {0};
    assert_ok(pith_context_new(2, NULL, &context, &err), err);
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    pith_context_free(&context);
    return 0;
}

struct made_up {
    size_t size;
    int first, second, third;
};
static const struct made_up defaults = {.first = 1, .second = 2, .third = 3};

static void options_of_every_size(void **state)
{
    (void)state;
    struct pith_error err = {0};
    /* An older program knows two members of the three. */
    struct made_up o;
    memset(&o, 0x7f, sizeof o);
    pith_options_give(&o, offsetof(struct made_up, third), &defaults, sizeof defaults);
    assert_int_equal(o.size, offsetof(struct made_up, third));
    assert_int_equal(o.third, 0x7f7f7f7f); /* not the library's to write */
    o.second = 20;
    struct made_up taken = defaults;
    assert_ok(pith_options_take(&taken, sizeof taken, &o, &err), err);
    assert_int_equal(taken.first, 1);
    assert_int_equal(taken.second, 20);
    assert_int_equal(taken.third, 3);
    assert_int_equal(taken.size, sizeof taken);
    /* A newer one knows more: as long as that is not set, it is served. */
    struct {
        struct made_up known;
        int more[3];
    } newer;
    pith_options_give(&newer, sizeof newer, &defaults, sizeof defaults);
    assert_int_equal(newer.known.size, sizeof newer);
    assert_int_equal(newer.more[2], 0);
    assert_ok(pith_options_take(&taken, sizeof taken, &newer, &err), err);
    newer.more[2] = 1;
    assert_int_equal(pith_options_take(&taken, sizeof taken, &newer, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "newer library"));
}

static void options_without_a_size(void **state)
{
    (void)state;
    const struct pith_verify_options verify = {.model = PROBE};
    const struct pith_eval_options eval = {.model = PROBE};
    const struct pith_bench_options bench = {.model = PROBE};
    const struct pith_quantize_options quantize = {.model = PROBE, .out = "never"};
    const struct pith_convert_options convert = {.model = PROBE, .out = "never.gguf"};
    struct pith_error err = {0};
    assert_int_equal(pith_verify(context, &verify, NULL, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "defaults"));
    assert_int_equal(pith_eval(context, &eval, NULL, NULL), PITH_ARG);
    assert_int_equal(pith_bench(context, &bench, NULL, NULL), PITH_ARG);
    assert_int_equal(pith_quantize(context, &quantize, NULL, NULL), PITH_ARG);
    assert_int_equal(pith_convert(context, &convert, NULL, NULL), PITH_ARG);
    assert_int_equal(pith_bench(context, NULL, NULL, NULL), PITH_ARG);
}

static void nothing_given(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_engine *engine = NULL;
    struct pith_generate_options o;
    assert_ok(pith_engine_open(context, PROBE, &engine, &err), err);
    pith_generate_defaults(&o);
    o.prompt = NULL;
    assert_int_equal(pith_generate(engine, &o, NULL, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "prompt"));
    pith_engine_close(&engine);
    assert_null(engine);
}

static void bench_leaves_the_mode(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_bench_options o;
    pith_bench_defaults(&o);
    o.model = PROBE;
    o.prompt = 2;
    o.gen = 1;
    o.reps = 1;
    o.mode = "fast";
    assert_ok(pith_bench(context, &o, NULL, &err), err);
    assert_int_equal(pith_backend_mode(context->backend), PITH_MODE_EXACT);
    o.model = "no such folder";
    assert_int_not_equal(pith_bench(context, &o, NULL, &err), PITH_OK);
    assert_int_equal(pith_backend_mode(context->backend), PITH_MODE_EXACT);
}

/* Lets `*left` steps pass. */
static int stop_after(void *left, const char *what, double done, double total)
{
    assert_non_null(what);
    assert_true(done <= total || total == 0);
    return (*(int *)left)-- <= 0;
}

static void every_call_can_be_stopped(void **state)
{
    (void)state;
    int left = 0;
    char *report = NULL;
    struct pith_engine *engine = NULL;
    struct pith_numbers numbers;
    struct pith_verify_options verify;
    struct pith_eval_options eval;
    static const char *const texts[] = {PROBE "/eval.txt"};
    pith_verify_defaults(&verify);
    verify.model = verify.against = PROBE;
    pith_eval_defaults(&eval);
    eval.model = PROBE;
    eval.texts = (struct pith_list){texts, 1};
    pith_context_listen(context, (struct pith_progress){stop_after, &left}, NULL, NULL);
    assert_int_equal(pith_inspect(context, PROBE, 1, &report, NULL), PITH_INTERRUPTED);
    left = 2;
    assert_int_equal(pith_diff(context, PROBE, PROBE, &report, NULL), PITH_INTERRUPTED);
    left = 2;
    assert_int_equal(pith_numbers_read(context, PROBE, "model.embed_tokens", &numbers, NULL),
                     PITH_INTERRUPTED);
    assert_null(numbers.value);
    left = 1;
    assert_int_equal(pith_engine_open(context, PROBE, &engine, NULL), PITH_INTERRUPTED);
    assert_null(engine);
    left = 3;
    assert_int_equal(pith_eval(context, &eval, &report, NULL), PITH_INTERRUPTED);
    left = 1;
    assert_int_equal(pith_verify(context, &verify, &report, NULL), PITH_INTERRUPTED);
    assert_null(report);
    pith_context_listen(context, (struct pith_progress){0}, NULL, NULL);
}

struct told {
    bool recipe, measuring;
};

static int on_advice(void *ctx, const char *what, double done, double total)
{
    struct told *told = ctx;
    (void)done;
    (void)total;
    told->recipe |= strstr(what, ", recipe 1 of 1: block 1 of 6") != NULL;
    told->measuring |= strstr(what, "measuring recipes: ") == what;
    return 0;
}

/* Each recipe's progress says which it is. */
static void advice_says_what_it_does(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct told told = {0};
    struct pith_advise_options o;
    char *report = NULL, *folder = test_temp_dir();
    char *work = pith_path_join(folder, "advice");
    pith_advise_defaults(&o);
    o.model = PROBE;
    o.target = "vllm:gpu=l4";
    o.work = work;
    o.context = 256;
    o.users = 1;
    o.candidates = 1;
    o.max_tokens = o.calib_tokens = 512;
    o.progress = (struct pith_progress){on_advice, &told};
    assert_ok(pith_advise(context, &o, &report, &err), err);
    assert_true(told.recipe);
    assert_true(told.measuring);
    pith_text_free(report);
    assert_ok(pith_dir_remove(folder, &err), err);
    pith_free(work);
    free(folder);
}

/* In a process of its own, since the ceiling stays. */
static void a_ceiling_on_memory(void **state)
{
    (void)state;
    if (SANITIZED) skip(); /* its shadow has no room below a ceiling */
    const pid_t child = fork();
    if (child == 0) {
        if (pith_limit_memory((uint64_t)64 << 20, NULL) != PITH_OK) _exit(1);
        if (malloc((size_t)256 << 20)) _exit(2);
        free(malloc(1 << 20));
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_every_size),     cmocka_unit_test(options_without_a_size),
        cmocka_unit_test(nothing_given),             cmocka_unit_test(bench_leaves_the_mode),
        cmocka_unit_test(every_call_can_be_stopped), cmocka_unit_test(advice_says_what_it_does),
        cmocka_unit_test(a_ceiling_on_memory),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
