/* ExLlamaV3's caches: codes, scales and what is read back are what its own kernels give, compiled
 * for the CPU (tests/golden/num/make_exllama.py), in rows and in pages. */
#include "backend/cache/pages.h"
#include "base/json.h"
#include "num/elements/minifloat.h"
#include "setups.h"

enum { TOKENS = 32, DIM = 128, ALL = TOKENS * DIM, GROUP = 32, EACH = ALL / GROUP };

static uint16_t word_of(const json_t *hex, size_t i, size_t digits)
{
    char word[5] = {0};
    assert_in_range(i * digits, 0, json_string_length(hex) - digits);
    memcpy(word, json_string_value(hex) + i * digits, digits);
    return (uint16_t)strtoul(word, NULL, 16);
}

static json_t *open_file(float *x)
{
    struct pith_error err = {0};
    json_t *file;
    assert_ok(pith_json_load("tests/golden/num/exllama.json", 1 << 20, &file, &err), err);
    for (size_t i = 0; i < ALL; i++)
        x[i] = pith_f16_to_f32(word_of(json_object_get(file, "x"), i, 4));
    return file;
}

static const json_t *codes_of(const json_t *file, const struct pith_kv_row *row, uint32_t cols,
                              struct pith_row_code *code)
{
    struct pith_error err = {0};
    float level[PITH_ROW_LEVELS];
    const struct pith_kv_heads heads = {.bits = row->bits, .cols = cols};
    assert_ok(row->kind->code(&heads, level, code, &err), err);
    const json_t *j = json_object_get(file, row->name);
    assert_non_null(j);
    return j;
}

/* What they read is rounded to a half. */
static void assert_read(const json_t *j, size_t at, const float *x, size_t n)
{
    const json_t *back = json_object_get(j, "back");
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pith_f32_to_f16(x[i]) & 0xffff, word_of(back, at + i, 4));
}

static void rows_are_the_kernels(const json_t *file, const struct pith_kv_row *row, const float *x)
{
    struct pith_row_code code;
    const json_t *j = codes_of(file, row, DIM, &code);
    for (size_t t = 0; t < TOKENS; t++) {
        struct pith_row_scale of[DIM / GROUP];
        uint8_t codes[DIM], bytes[2];
        float back[DIM];
        pith_row_encode(&code, 1.0f, x + t * DIM, codes, of);
        for (size_t i = 0; i < DIM; i++)
            assert_int_equal(codes[i], word_of(json_object_get(j, "codes"), t * DIM + i, 2));
        for (size_t g = 0; g < DIM / GROUP; g++) {
            pith_row_scale_put(&code, 1.0f, &of[g], bytes);
            of[g] = pith_row_scale_get(&code, 1.0f, bytes);
            assert_true(of[g].scale == pith_f16_to_f32(word_of(json_object_get(j, "scale"),
                                                               t * (DIM / GROUP) + g, 4)));
        }
        pith_row_decode(&code, codes, of, back);
        assert_read(j, t * DIM, back, DIM);
    }
}

static void pages_are_the_kernels(struct pith_backend *b, const json_t *file,
                                  const struct pith_kv_row *row, const float *x)
{
    struct pith_row_code code;
    const json_t *j = codes_of(file, row, DIM, &code);
    const struct pith_cache_side side = {.code = &code, .dim = DIM};
    struct pith_cache c = {.kv_heads = 1, .k = side, .v = side};
    assert_true(pith_cache_layout(&c));
    /* 32 positions: codes, and a half for 32 of them, for 2 sides. */
    assert_int_equal(c.page_bytes, 2 * TOKENS * (DIM * row->bits / 8 + DIM / GROUP * 2));
    c.memory = pith_alloc_aligned(1, c.page_bytes);
    assert_non_null(c.memory);
    pith_cache_store(b, &c, &(struct pith_cache_span){.n = TOKENS}, x, x);
    for (size_t t = 0; t < TOKENS; t++) {
        float both[2 * DIM];
        pith_cache_read(b, &c, &(struct pith_cache_span){.n = TOKENS}, t, 0, both);
        assert_read(j, t * DIM, both, DIM);
        assert_read(j, t * DIM, both + DIM, DIM);
    }
    pith_free(c.memory);
}

static void all_bits(void **state)
{
    (void)state;
    static float x[ALL];
    struct setups s;
    size_t count, widths = 0;
    const struct pith_kv_row *row = pith_kv_rows(&count);
    json_t *file = open_file(x);
    setups_open(&s);
    for (size_t r = 0; r < count; r++) {
        if (row[r].kind != &pith_kv_exllama) continue;
        widths++;
        rows_are_the_kernels(file, &row[r], x);
        for (size_t i = 0; i < s.count; i++) pages_are_the_kernels(s.backend[i], file, &row[r], x);
    }
    assert_int_equal(widths, 7);
    setups_close(&s);
    json_decref(file);
}

/* Numbers that a half does not reach, and heads that are not of whole groups. */
static void numbers_at_the_edge(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_row_code code;
    struct pith_row_scale of;
    uint8_t codes[GROUP];
    float level[PITH_ROW_LEVELS], x[GROUP] = {0};
    struct pith_kv_heads heads = {.bits = 4, .cols = GROUP};
    assert_ok(pith_kv_exllama.code(&heads, level, &code, &err), err);
    for (size_t i = 0; i < GROUP; i++) x[i] = 60000;
    pith_row_encode(&code, 1.0f, x, codes, &of);
    assert_true(of.scale == 65504 && codes[0] == 15);
    x[3] = INFINITY;
    pith_row_encode(&code, 1.0f, x, codes, &of);
    assert_true(isnan(of.scale));
    x[3] = NAN;
    pith_row_encode(&code, 1.0f, x, codes, &of);
    assert_true(isnan(of.scale));
    heads.cols = 80;
    assert_int_equal(pith_kv_exllama.code(&heads, level, &code, &err), PITH_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_bits),
        cmocka_unit_test(numbers_at_the_edge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
