/* io/: the squeezellm container: the authors' matrices, what it is given, and files that lie. */
#include "base/mem.h"
#include "golden_file.h"
#include "pack_and_read.h"

#include <math.h>

enum { ROWS = 40, COLS = 96 };
#define GOLDEN "tests/golden/squeezellm/"

/* A golden file with its config. */
struct file {
    struct golden_file golden;
    json_t *config;
    void *state;
};

static const struct pith_container *container(void)
{
    return pith_container_find("squeezellm");
}

static void open_file(struct file *f, unsigned bits)
{
    struct pith_error err = {0};
    char path[128];
    snprintf(path, sizeof path, GOLDEN "%u.safetensors", bits);
    golden_open(&f->golden, path);
    f->config = json_pack("{s:s, s:i}", "quant_method", "squeezellm", "wbits", (int)bits);
    f->golden.c.quantization = f->config;
    assert_ok(container()->open(&f->golden.c, &f->state, &err), err);
}

static void close_file(struct file *f)
{
    container()->close(f->state);
    json_decref(f->config);
    golden_close(&f->golden);
}

static enum pith_status load(struct file *f, const char *module, struct pith_qmat *q,
                             struct pith_error *err)
{
    bool found = false;
    PITH_TRY(container()->load(f->state, &f->golden.c, module, ROWS, COLS, q, &found, err));
    assert_true(found);
    return PITH_OK;
}

static void check_module(struct file *f, const char *module, bool kept)
{
    struct pith_error err = {0};
    struct pith_qmat q;
    struct pith_grid grid;
    struct pith_container_opts opts = {.model_dtype = PITH_F16};
    struct pith_packed_set set = {0};
    char name[64];
    float *got = malloc(ROWS * COLS * sizeof *got);
    assert_ok(load(f, module, &q, &err), err);
    assert_true((q.sparse != NULL) == kept);
    pith_qmat_decode(&q, 0, ROWS, got);
    snprintf(name, sizeof name, "want.%s", module);
    assert_memory_equal(got, golden_tensor(&f->golden, name)->data, ROWS * COLS * sizeof *got);
    assert_ok(container()->describe(f->state, &f->golden.c, module, &grid, &opts, &err), err);
    assert_ptr_equal(grid.format, q.format);
    assert_int_equal(grid.granularity, PITH_PER_CHANNEL);
    assert_true((opts.sparse < 0) == kept);
    assert_true((container()->accepts(&grid, ROWS, COLS, &opts, NULL) != PITH_OK) == kept);
    opts.sparse = 0;
    assert_ok(pith_container_pack(container(), &q, &opts, &set, &err), err);
    assert_int_equal(set.count, kept ? 5 : 2);
    golden_packed(&f->golden, module, &set);
    pith_packed_free(&set);
    pith_qmat_free(&q);
    free(got);
}

static void reads_and_writes_what_the_authors_do(void **state)
{
    (void)state;
    for (unsigned bits = 3; bits <= 4; bits++) {
        struct file f;
        open_file(&f, bits);
        check_module(&f, "m", true);
        check_module(&f, "d", false);
        close_file(&f);
    }
}

/* A matrix with `kept` percent of weights beside the grid. */
static struct pith_qmat make_matrix(const struct pith_grid *grid, double percent)
{
    struct pith_qmat q;
    struct pith_error err = {0};
    uint8_t codes[COLS];
    assert_ok(pith_qmat_init(&q, ROWS, COLS, grid, PITH_F16, &err), err);
    const uint32_t k = 1u << grid->format->bits;
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t c = 0; c < COLS; c++) codes[c] = (uint8_t)((r * 7 + c * 5) % k);
        pith_qmat_set_codes(&q, r, codes);
        for (uint32_t i = 0; i < k; i++) q.levels[r * k + i] = (float)i / 8 - (float)r;
        q.scales[r] = 1;
    }
    const size_t kept = pith_sparse_count(ROWS, COLS, percent);
    if (kept == 0) return q;
    q.sparse = pith_sparse_new(ROWS, kept);
    uint32_t at = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        q.sparse->start[r] = at;
        for (uint32_t c = 0; at < kept && c < kept / ROWS + 2; c++, at++) {
            q.sparse->col[at] = c * 3;
            q.sparse->value[at] = (float)at;
        }
    }
    q.sparse->start[ROWS] = at;
    assert_int_equal(at, kept);
    return q;
}

static void returns_what_it_got(void **state)
{
    (void)state;
    static const char *const formats[] = {"codebook3", "codebook4"};
    static const double percents[] = {0, 0.01, 0.45, 10};
    for (size_t f = 0; f < PITH_COUNT(formats); f++)
        for (size_t p = 0; p < PITH_COUNT(percents); p++) {
            const struct pith_grid grid = {.format = pith_format_find(formats[f]),
                                           .granularity = PITH_PER_CHANNEL};
            struct pith_qmat q = make_matrix(&grid, percents[p]);
            pack_and_read(container(), &grid, &q,
                          (struct pith_container_opts){.model_dtype = PITH_BF16,
                                                       .sparse = percents[p]});
            pith_qmat_free(&q);
        }
}

static void what_it_cannot_hold_is_refused(void **state)
{
    (void)state;
    const struct pith_format *three = pith_format_find("codebook3"),
                             *four = pith_format_find("codebook4");
    struct pith_container_opts opts = {.model_dtype = PITH_F16};
    const struct pith_grid good = {.format = four, .granularity = PITH_PER_CHANNEL},
                           other = {.format = three, .granularity = PITH_PER_CHANNEL},
                           wrong = {.format = pith_format_find("int4")};
    struct pith_error err = {0};
    json_t *made = NULL;
    assert_int_equal(container()->accepts(&wrong, 64, 64, &opts, NULL), PITH_UNSUPPORTED);
    assert_int_equal(container()->accepts(&good, 64, 48, &opts, NULL), PITH_UNSUPPORTED);
    assert_ok(container()->accepts(&good, 33, 64, &opts, &err), err);
    const struct pith_linear_grid two[] = {{.module = "a", .grid = good},
                                           {.module = "b", .grid = other}};
    assert_int_equal(container()->config(two, 2, &opts, &made, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "one width"));
    opts.acts.format = pith_format_find("int8");
    assert_int_equal(container()->accepts(&good, 64, 64, &opts, NULL), PITH_UNSUPPORTED);
    opts.acts.format = NULL;
    struct pith_qmat q = make_matrix(&good, 1);
    struct pith_packed_set set = {0};
    q.scales[5] = 2;
    assert_int_equal(pith_container_pack(container(), &q, &opts, &set, NULL), PITH_ARG);
    pith_qmat_free(&q);
}

/* A tensor's word replaced: what the message must say. */
static void files_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int at; /* of the 32-bit words; negative: from the end */
        uint32_t word;
        const char *text;
    } cases[] = {
        {"m.rows", 0, 1, "begin at 0"},
        {"m.rows", -1, 7, "end at"},
        {"m.rows", -1, 0xffffffff, "end at"},
        {"m.rows", 5, 0xfffffff0, "before they begin"},
        {"m.rows", 9, 0, "before they begin"},
        {"m.cols", 0, COLS, "out of range"},
        {"m.cols", 3, 0xffffffff, "out of range"},
        {"m.cols", 1, 0, "order"},
        {"m.vals", 0, 0x7fc00000, "not finite"},
        {"m.lookup_table", 11, 0x7f800000, "not finite"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct file f;
        struct pith_qmat q = {0};
        struct pith_error err = {0};
        open_file(&f, 4);
        struct pith_tensor *t = golden_tensor(&f.golden, cases[i].name);
        const size_t words = t->bytes / 4;
        const size_t at = cases[i].at < 0 ? words - (size_t)-cases[i].at : (size_t)cases[i].at;
        memcpy((uint8_t *)(uintptr_t)t->data + at * 4, &cases[i].word, 4);
        assert_int_equal(load(&f, "m", &q, &err), PITH_FORMAT);
        if (!strstr(err.text, cases[i].text)) fail_msg("%s: %s", cases[i].name, err.text);
        assert_null(q.codes);
        close_file(&f);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pith_tensor *)a)->name, ((const struct pith_tensor *)b)->name);
}

static void shapes_that_lie_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"m.qweight", "m.lookup_table", "m.rows", "m.cols",
                                        "m.vals"};
    for (size_t i = 0; i < PITH_COUNT(names); i++)
        for (int kind = 0; kind < 4; kind++) {
            struct file f;
            struct pith_qmat q = {0};
            struct pith_error err = {0};
            open_file(&f, 3);
            struct pith_tensor *t = golden_tensor(&f.golden, names[i]);
            if (kind == 0) t->shape[0] += 1;
            else if (kind == 1) t->dtype = PITH_I64;
            else if (kind == 2) t->dims = 3;
            else t->shape[0] = (uint64_t)1 << 40;
            const enum pith_status s = load(&f, "m", &q, &err);
            assert_true(s == PITH_FORMAT || s == PITH_UNSUPPORTED);
            assert_null(q.codes);
            close_file(&f);
        }
    static const struct {
        const char *from, *to;
    } renamed[] = {{"d.qweight", "m.weight"}, {"d.qweight", "m.full_rows"}, {"m.vals", "x"},
                   {"m.rows", "x"},           {"m.cols", "x"},              {"m.qweight", "x"},
                   {"m.lookup_table", "x"}};
    for (size_t i = 0; i < PITH_COUNT(renamed); i++) {
        struct file f;
        struct pith_qmat q = {0};
        open_file(&f, 3);
        golden_tensor(&f.golden, renamed[i].from)->name = renamed[i].to;
        qsort(f.golden.tensors, f.golden.c.count, sizeof f.golden.tensors[0], by_name);
        if (load(&f, "m", &q, NULL) == PITH_OK)
            fail_msg("%s as %s", renamed[i].from, renamed[i].to);
        assert_null(q.codes);
        close_file(&f);
    }
    struct pith_checkpoint c = {.dir = (char *)(uintptr_t) "x"};
    static const char *const configs[] = {"{}", "{\"wbits\": 5}", "{\"wbits\": \"4\"}",
                                          "{\"wbits\": 0}"};
    for (size_t i = 0; i < PITH_COUNT(configs); i++) {
        void *s = NULL;
        json_t *config = json_loads(configs[i], 0, NULL);
        c.quantization = config;
        assert_true(container()->open(&c, &s, NULL) != PITH_OK);
        assert_null(s);
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_writes_what_the_authors_do),
        cmocka_unit_test(returns_what_it_got),
        cmocka_unit_test(what_it_cannot_hold_is_refused),
        cmocka_unit_test(files_that_lie_are_refused),
        cmocka_unit_test(shapes_that_lie_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
