/* io/: containers: what is packed is read back, through a real file; and other libraries' files. */
#include "base/mem.h"
#include "folder.h"
#include "pack_and_read.h"

#include <time.h>

/* --- round trips --------------------------------------------------------------------------- */

static void round_trip(const struct pith_container *c, const struct ramp *p,
                       struct pith_container_opts opts)
{
    struct pith_qmat q;
    const struct pith_grid grid = ramp_grid(p);
    ramp_make(p, &q);
    if (opts.acts.format) q.input.grid = opts.acts;
    pack_and_read(c, &grid, &q, opts);
    pith_qmat_free(&q);
}

static void compressed_tensors_returns_what_it_got(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("compressed-tensors");
    static const enum pith_dtype dtypes[] = {PITH_BF16, PITH_F16, PITH_F32};
    unsigned turn = 0;
    for (unsigned bits = 2; bits <= 8; bits++)
        for (unsigned kind = 0; kind < 16; kind++) {
            struct ramp p = {.bits = bits,
                             .rows = 40,
                             .cols = 96,
                             .group = kind & 1 ? 32 : 0,
                             .asym = kind & 2,
                             .permuted = (kind & 5) == 5,
                             .tensor = (kind & 5) == 4,
                             .dtype = dtypes[turn++ % 3]};
            const struct pith_container_opts opts = {
                .model_dtype = p.dtype,
                .act_order_groups = p.permuted && !(kind & 8),
                .acts = {.format = kind & 8 ? pith_format_find("int8") : NULL,
                         .granularity = PITH_PER_TOKEN}};
            if (kind & 8) p.permuted = false;
            round_trip(c, &p, opts);
            /* Odd sizes: rows that end within a word. */
            if (p.group) continue;
            p.rows = 13;
            p.cols = 37;
            round_trip(c, &p, opts);
        }
}

static void gptq_returns_what_it_got(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("gptq");
    static const unsigned widths[] = {2, 3, 4, 8};
    for (size_t b = 0; b < PITH_COUNT(widths); b++)
        for (unsigned kind = 0; kind < 32; kind++) {
            const struct ramp p = {.bits = widths[b],
                                   .rows = 64,
                                   .cols = 160,
                                   .group = kind & 1 ? kind & 16 ? 64 : 32 : 0,
                                   .asym = kind & 2,
                                   .from_one = kind & 2,
                                   .tensor = (kind & 9) == 8,
                                   .permuted = (kind & 5) == 5,
                                   .dtype = PITH_F16};
            const struct pith_container_opts opts = {
                .model_dtype = PITH_BF16, .act_order_groups = p.permuted, .gptq_v2 = kind & 8};
            round_trip(c, &p, opts);
            struct ramp zero = p;
            zero.from_one = false; /* settle() must choose v2 */
            round_trip(c, &zero, opts);
        }
}

static void awq_returns_what_it_got(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("awq");
    static const uint32_t groups[] = {0, 16, 32, 48};
    for (size_t g = 0; g < PITH_COUNT(groups); g++)
        for (unsigned kind = 0; kind < 4; kind++) {
            const struct ramp p = {.bits = 4,
                                   .rows = 24,
                                   .cols = 96,
                                   .group = groups[g],
                                   .asym = kind & 1,
                                   .tensor = !groups[g] && kind & 2,
                                   .dtype = PITH_F16};
            const struct pith_container_opts opts = {.model_dtype = PITH_F16};
            round_trip(c, &p, opts);
        }
    /* Columns that do not fill a word of codes. */
    const struct ramp odd = {.bits = 4, .rows = 16, .cols = 21, .asym = true, .dtype = PITH_F16};
    round_trip(c, &odd, (struct pith_container_opts){.model_dtype = PITH_F16});
}

/* --- other libraries' files ---------------------------------------------------------------- */

#define GOLDEN "tests/golden/io_containers/"

/* A checkpoint of one file without a config of its own. */
static void open_golden(const char *file, struct pith_checkpoint *c, struct pith_safetensors *st)
{
    char path[200];
    struct pith_error err = {0};
    snprintf(path, sizeof path, GOLDEN "%s", file);
    assert_ok(pith_safetensors_open(path, st, &err), err);
    *c = (struct pith_checkpoint){.dir = (char *)(uintptr_t) "golden",
                                  .files = st,
                                  .file_count = 1,
                                  .tensors = st->tensors,
                                  .count = st->count};
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    if (!s) fail_msg("case without %s", key);
    return s;
}

static uint32_t number_of(const json_t *o, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(o, key));
}

static struct ramp ramp_of(const json_t *o)
{
    const char *zeros = text_of(o, "zeros");
    enum pith_dtype dtype = PITH_F16;
    assert_true(pith_dtype_find(text_of(o, "dtype"), &dtype));
    return (struct ramp){
        .bits = number_of(o, "bits"),
        .rows = number_of(o, "rows"),
        .cols = number_of(o, "cols"),
        .group = number_of(o, "group"),
        .asym = strcmp(zeros, "sym") != 0,
        .from_one = strcmp(zeros, "asym1") == 0,
        .dtype = dtype,
        .tensor = strcmp(text_of(o, "strategy"), "tensor") == 0,
        .permuted = json_is_true(json_object_get(o, "permuted")),
    };
}

/* pith packs the same matrix into the same bytes. */
static void same_bytes(const struct pith_container *c, const struct pith_qmat *q, const json_t *o,
                       const struct pith_checkpoint *ck, const struct ramp *p)
{
    const json_t *config = json_object_get(o, "config");
    const char *format = json_string_value(json_object_get(config, "checkpoint_format"));
    const char *ct = json_string_value(json_object_get(config, "format"));
    const struct pith_container_opts opts = {
        .model_dtype = p->dtype,
        .act_order_groups = p->permuted,
        .gptq_v2 = format && strcmp(format, "gptq_v2") == 0,
        .acts = {.format = ct && strcmp(ct, "int-quantized") == 0 ? pith_format_find("int8")
                                                                  : NULL}};
    struct pith_packed_set set = {0};
    struct pith_error err = {0};
    assert_ok(pith_container_pack(c, q, &opts, &set, &err), err);
    for (unsigned i = 0; i < set.count; i++) {
        char name[200];
        snprintf(name, sizeof name, "%s%s", text_of(o, "module"), set.item[i].suffix);
        const struct pith_tensor *t = pith_checkpoint_find(ck, name);
        if (!t) fail_msg("%s: the peer has none", name);
        assert_int_equal(t->dtype, set.item[i].dtype);
        assert_int_equal(t->dims, set.item[i].dims);
        assert_memory_equal(t->shape, set.item[i].shape, t->dims * sizeof t->shape[0]);
        if (memcmp(t->data, set.item[i].data, set.item[i].bytes) != 0)
            fail_msg("%s: other bytes than the peer's", name);
    }
    pith_packed_free(&set);
}

static void check_case(const json_t *o)
{
    struct pith_checkpoint ck;
    struct pith_safetensors st;
    struct pith_error err = {0};
    const char *module = text_of(o, "module");
    const struct pith_container *c = pith_container_find(text_of(o, "container"));
    const struct ramp p = ramp_of(o);
    open_golden(text_of(o, "file"), &ck, &st);
    ck.quantization = json_object_get(o, "config");
    void *s = NULL;
    struct pith_qmat q, want;
    bool found = false;
    assert_ok(c->open(&ck, &s, &err), err);
    assert_ok(c->load(s, &ck, module, p.rows, p.cols, &q, &found, &err), err);
    if (!found) fail_msg("%s: not found", module);
    ramp_make(&p, &want);
    want.input.grid = q.input.grid;
    if (!pith_qmat_equal(&q, &want)) fail_msg("%s: read as something else", module);
    const bool older = strstr(text_of(o, "file"), "older") && 32 % p.bits;
    if (!older && !strstr(module, "gemv")) same_bytes(c, &want, o, &ck, &p);
    pith_qmat_free(&want);
    pith_qmat_free(&q);
    c->close(s);
    pith_safetensors_close(&st);
}

static void peers_files_are_read_and_equalled(void **state)
{
    (void)state;
    json_t *cases = NULL;
    struct pith_error err = {0};
    assert_ok(pith_json_load(GOLDEN "cases.json", 1 << 20, &cases, &err), err);
    assert_true(json_array_size(cases) > 60);
    for (size_t i = 0; i < json_array_size(cases); i++) check_case(json_array_get(cases, i));
    json_decref(cases);
}

/* --- speed --------------------------------------------------------------------------------- */

/* 58 million weights in well under a second of a processor; the limit is loose, as some are slow.
 */
static void packing_is_quick(void **state)
{
    (void)state;
    static const char *const names[] = {"compressed-tensors", "gptq", "awq"};
    struct ramp p = {.bits = 4, .rows = 4096, .cols = 14336, .group = 128, .dtype = PITH_F16};
    const struct pith_grid grid = ramp_grid(&p);
    const struct pith_container_opts opts = {.model_dtype = PITH_F16};
    struct pith_error err = {0};
    struct pith_qmat q;
    assert_ok(pith_qmat_init(&q, p.rows, p.cols, &grid, PITH_F16, &err), err);
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        struct pith_packed_set set = {0};
        const clock_t start = clock();
        assert_ok(pith_container_pack(pith_container_find(names[i]), &q, &opts, &set, &err), err);
        const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        print_message("%s: %.3f s for %.1f million weights\n", names[i], seconds,
                      (double)p.rows * p.cols / 1e6);
        assert_true(seconds < 5);
        pith_packed_free(&set);
    }
    pith_qmat_free(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_tensors_returns_what_it_got),
        cmocka_unit_test(gptq_returns_what_it_got),
        cmocka_unit_test(awq_returns_what_it_got),
        cmocka_unit_test(peers_files_are_read_and_equalled),
        cmocka_unit_test(packing_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
