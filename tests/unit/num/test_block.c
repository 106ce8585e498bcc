/* num/block and num/codebook: blocks with a scale, against torchao and bitsandbytes
 * (tests/golden/num/make_blocks.py) and against the formulas. */
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "num/block.h"
#include "num/codebook.h"
#include "num/elements/minifloat.h"
#include "test.h"

#include <float.h>
#include <math.h>

enum { BLOCKS = 96, VALUES = BLOCKS * 32 };

static json_t *load_golden(void)
{
    struct pith_error err = {0};
    json_t *j = NULL;
    assert_ok(pith_json_load("tests/golden/num/blocks.json", 1 << 20, &j, &err), err);
    return j;
}

static const char *text_of(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    assert_non_null(s);
    return s;
}

/* n floats written as words; malloc'd. */
static float *floats_of(const json_t *j, const char *key, size_t n)
{
    const char *s = text_of(j, key);
    assert_int_equal(strlen(s), n * 9 - 1);
    float *out = malloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++)
        out[i] = pith_bits_to_float((uint32_t)strtoul(s + i * 9, NULL, 16));
    return out;
}

/* n codes written as two digits each; malloc'd. */
static uint8_t *codes_of(const json_t *j, const char *key, size_t n)
{
    const char *s = text_of(j, key);
    assert_int_equal(strlen(s), n * 2);
    uint8_t *out = malloc(n);
    for (size_t i = 0; i < n; i++) {
        const char pair[3] = {s[2 * i], s[2 * i + 1], '\0'};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return out;
}

static void microscaling_is_that_of_torchao(void **state)
{
    (void)state;
    json_t *golden = load_golden();
    float *x = floats_of(golden, "x", VALUES);
    const char *name;
    json_t *row, *mx = json_object_get(golden, "mx");
    assert_int_equal(json_object_size(mx), 5);
    json_object_foreach(mx, name, row) {
        const struct pith_format *f = pith_format_find(name);
        uint8_t *scales = codes_of(row, "scales", BLOCKS), *want = codes_of(row, "codes", VALUES);
        for (size_t b = 0; b < BLOCKS; b++) {
            uint8_t codes[32];
            assert_int_equal(pith_mx_scale(f, x + 32 * b, 32), scales[b]);
            pith_mx_encode(f, x + 32 * b, 32, scales[b], codes);
            /* torchao divides by 2^-126 where the scale says 2^-127. */
            if (b != 1) assert_memory_equal(codes, want + 32 * b, 32);
        }
        free(scales);
        free(want);
    }
    free(x);
    json_decref(golden);
}

static void nvfp4_is_that_of_torchao(void **state)
{
    (void)state;
    json_t *golden = load_golden(), *row = json_object_get(golden, "nvfp4");
    enum { N = (BLOCKS - 2) * 2 };
    float *x = floats_of(golden, "x", VALUES), *global = floats_of(row, "global", 1);
    uint8_t *scales = codes_of(row, "scales", N), *want = codes_of(row, "codes", N * 16);
    float amax = 0;
    uint8_t lowest = 0xff;
    for (size_t i = 64; i < VALUES; i++) amax = fmaxf(amax, fabsf(x[i] /= 64));
    assert_true(pith_nvfp4_global(amax) == global[0]);
    for (size_t b = 0; b < N; b++) {
        uint8_t codes[16];
        const float *block = x + 64 + 16 * b;
        /* torchao keeps block scales at 2^-6 and above, the smallest normal one. */
        const uint8_t scale = pith_nvfp4_scale(block, 16, global[0]);
        assert_int_equal(scale < 8 ? 8 : scale, scales[b]);
        lowest = scale < lowest ? scale : lowest;
        pith_nvfp4_encode(block, 16, global[0], scales[b], codes);
        assert_memory_equal(codes, want + 16 * b, 16);
    }
    free(x);
    assert_int_equal(lowest, 1);
    free(global);
    free(scales);
    free(want);
    json_decref(golden);
}

/* Every scale x every code: the value is the product, rounded once. */
static void blocks_decode_to_products(void **state)
{
    (void)state;
    static const char *const names[] = {"mxfp8", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4"};
    for (size_t k = 0; k < PITH_COUNT(names); k++) {
        const struct pith_format *f = pith_format_find(names[k]);
        const struct pith_format *element = pith_format_find(f->element);
        for (unsigned scale = 0; scale < 256; scale++)
            for (uint32_t c = 0; c < (uint32_t)1 << f->bits; c++) {
                const uint8_t code = (uint8_t)c;
                float got;
                pith_mx_decode(f, &code, 1, (uint8_t)scale, &got);
                const double want = ldexp((double)element->decode(c), (int)scale - 127);
                if (scale == 255 || isnan(want)) assert_true(isnan(got));
                else assert_true(got == (float)want);
            }
    }
    static const float globals[] = {1.0f, 0.1f, 3e-5f, 1e-38f, 1e30f};
    for (size_t k = 0; k < PITH_COUNT(globals); k++)
        for (unsigned scale = 0; scale < 0x7f; scale++)
            for (uint8_t code = 0; code < 16; code++) {
                float got;
                pith_nvfp4_decode(&code, 1, globals[k], (uint8_t)scale, &got);
                const double element = pith_format_find("fp4_e2m1")->decode(code);
                const double s = pith_format_find("fp8_e4m3")->decode(scale);
                assert_true(got == (float)(element * s * globals[k]));
            }
}

static void awkward_blocks(void **state)
{
    (void)state;
    const struct pith_format *mxfp4 = pith_format_find("mxfp4"), *nf4 = pith_format_find("nf4");
    uint8_t codes[4];
    float out[4], absmax;
    /* An element in the top binade above 6 saturates, it does not wrap. */
    const float high[4] = {7.9f, -7.9f, 6.0f, 0.1f};
    assert_int_equal(pith_mx_scale(mxfp4, high, 4), 127);
    pith_mx_encode(mxfp4, high, 4, 127, codes);
    pith_mx_decode(mxfp4, codes, 4, 127, out);
    assert_true(out[0] == 6 && out[1] == -6 && out[2] == 6 && out[3] == 0);
    /* The largest float still has a scale; infinity and NaN poison the block visibly. */
    const float top[4] = {FLT_MAX, 0, 0, 0};
    assert_int_equal(pith_mx_scale(mxfp4, top, 4), 127 + 127 - 2);
    const float bad[2][4] = {{1, NAN, 2, 3}, {1, -INFINITY, 2, 3}};
    for (int i = 0; i < 2; i++) {
        const uint8_t scale = pith_mx_scale(mxfp4, bad[i], 4);
        assert_int_equal(scale, 0xff);
        pith_mx_encode(mxfp4, bad[i], 4, scale, codes);
        pith_mx_decode(mxfp4, codes, 4, scale, out);
        for (int k = 0; k < 4; k++) assert_true(isnan(out[k]));
        pith_codebook_encode(nf4, bad[i], 4, codes, &absmax);
        assert_true(isnan(absmax));
    }
    /* Blocks of zeros decode to zeros. */
    const float zeros[4] = {0};
    assert_int_equal(pith_mx_scale(mxfp4, zeros, 4), 0);
    pith_codebook_encode(nf4, zeros, 4, codes, &absmax);
    pith_codebook_decode(nf4, codes, 4, absmax, out);
    for (int k = 0; k < 4; k++) assert_true(out[k] == 0 && codes[k] == 7);
    /* NVFP4: no global scale of zero or infinity, no block scale of zero, saturation at both
     * levels. */
    assert_true(pith_nvfp4_global(0) == 1 && pith_nvfp4_global(INFINITY) == 1);
    assert_true(pith_nvfp4_global(1e-45f) == 1 && pith_nvfp4_global(2688) == 1);
    assert_int_equal(pith_nvfp4_scale(zeros, 4, 1), 1);
    assert_int_equal(pith_nvfp4_scale(top, 4, 1), 0x7e);
    assert_int_equal(pith_nvfp4_scale(bad[0], 4, 1), 0x7f);
    pith_nvfp4_encode(top, 4, 1, 0x7e, codes);
    pith_nvfp4_decode(codes, 4, 1, 0x7e, out);
    assert_true(out[0] == 2688 && out[1] == 0);
}

static void four_bits_are_those_of_bitsandbytes(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"nf4", "nf4"}, {"fp4", "bnb_fp4"}};
    enum { N = VALUES / 64 };
    json_t *golden = load_golden();
    float *x = floats_of(golden, "x", VALUES);
    for (size_t k = 0; k < PITH_COUNT(names); k++) {
        const struct pith_format *f = pith_format_find(names[k][1]);
        json_t *row = json_object_get(golden, names[k][0]);
        float *absmax = floats_of(row, "absmax", N), *values = floats_of(row, "values", VALUES);
        uint8_t *want = codes_of(row, "codes", VALUES);
        for (size_t b = 0; b < N; b++) {
            uint8_t codes[64];
            float amax, out[64];
            pith_codebook_encode(f, x + 64 * b, 64, codes, &amax);
            assert_true(amax == absmax[b]);
            pith_codebook_decode(f, want + 64 * b, 64, amax, out);
            for (size_t i = 0; i < 64; i++) {
                assert_true(out[i] == values[64 * b + i]);
                /* Both its zeros are one value. */
                assert_true(f->decode(codes[i]) == f->decode(want[64 * b + i]));
            }
        }
        free(absmax);
        free(values);
        free(want);
    }
    free(x);
    json_decref(golden);
}

static void thresholds_of_codebooks(void **state)
{
    (void)state;
    static const float nf4[] = {
        -0.8480964004993439f,   -0.6106329262256622f,  -0.4599952697753906f,
        -0.33967943489551544f,  -0.23460740596055984f, -0.13791173323988914f,
        -0.045525018125772476f, 0.03979014977812767f,  0.1202552504837513f,
        0.2035212516784668f,    0.2920137718319893f,   0.3893125355243683f,
        0.5016634166240692f,    0.6427869200706482f,   0.8614784181118011f};
    const struct pith_format *f = pith_format_find("nf4");
    for (uint32_t i = 0; i < PITH_COUNT(nf4); i++) {
        assert_int_equal(f->encode(nf4[i]), i);
        assert_int_equal(f->encode(nextafterf(nf4[i], 2)), i + 1);
    }
    static const struct {
        float above;
        uint32_t code;
    } fp4[] = {{0.00260417f, 1}, {0.0859375f, 6}, {0.20833333f, 7}, {0.29166667f, 4},
               {0.4166667f, 5},  {0.583333f, 2},  {0.8333333f, 3}};
    f = pith_format_find("bnb_fp4");
    for (uint32_t i = 0; i < PITH_COUNT(fp4); i++) {
        assert_int_equal(f->encode(fp4[i].above), i ? fp4[i - 1].code : 0);
        assert_int_equal(f->encode(nextafterf(fp4[i].above, 2)), fp4[i].code);
        assert_int_equal(f->encode(nextafterf(-fp4[i].above, -2)), fp4[i].code | 8);
    }
}

static void double_quantization_is_that_of_bitsandbytes(void **state)
{
    (void)state;
    enum { N = 600, RUNS = 3 };
    json_t *golden = load_golden(), *row = json_object_get(golden, "double");
    float *want_map = floats_of(golden, "dynamic", 256), map[256];
    pith_dynamic_map(map);
    assert_memory_equal(map, want_map, sizeof map);
    float *absmax = floats_of(row, "absmax", N), *want_offset = floats_of(row, "offset", 1);
    float *want_nested = floats_of(row, "nested", RUNS), *restored = floats_of(row, "restored", N);
    uint8_t *want = codes_of(row, "codes", N), codes[N];
    float nested[RUNS], offset, out[N];
    pith_double_quant_encode(absmax, N, codes, nested, &offset);
    assert_true(fabsf(offset - want_offset[0]) <= 2 * FLT_EPSILON * want_offset[0]);
    size_t other = 0;
    for (size_t i = 0; i < N; i++) {
        if (codes[i] == want[i]) continue;
        other++;
        assert_int_equal(abs(codes[i] - want[i]), 1);
        /* Where the library's table takes the other neighbour, ours is no farther. */
        const float x = (absmax[i] - offset) / nested[i / 256];
        assert_true(fabsf(map[codes[i]] - x) <= fabsf(map[want[i]] - x) + 1e-6f);
    }
    assert_true(other <= N / 100);
    pith_double_quant_decode(want, want_nested, want_offset[0], N, out);
    for (size_t i = 0; i < N; i++) assert_true(fabsf(out[i] - restored[i]) <= 1e-7f);
    for (size_t i = 0; i < RUNS; i++) assert_true(fabsf(nested[i] - want_nested[i]) <= 1e-7f);
    /* Equal scales have nothing left to quantize and come back exactly. */
    for (size_t i = 0; i < N; i++) absmax[i] = 0.375f;
    pith_double_quant_encode(absmax, N, codes, nested, &offset);
    pith_double_quant_decode(codes, nested, offset, N, out);
    assert_memory_equal(out, absmax, sizeof out);
    free(want_map);
    free(absmax);
    free(want_offset);
    free(want_nested);
    free(restored);
    free(want);
    json_decref(golden);
}

/* The factor that is stored by some engines and the divisor that is stored by others. */
static void nvfp4_scales_mean_the_same_in_all_files(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 4);
    const struct pith_format *e4m3 = pith_format_find("fp8_e4m3");
    for (int i = 0; i < 2000; i++) {
        const int e = (int)pith_rng_below(&rng, 40) - 30;
        const float g = ldexpf(1.0f + (float)pith_rng_unit(&rng), e);
        const float twin = pith_nvfp4_twin(g), divisor = pith_nvfp4_divisor(twin);
        assert_true(twin >= g && twin <= g * 1.001f);
        for (uint32_t code = 0; code < 0x7f; code++)
            assert_true(e4m3->decode(code) * twin == e4m3->decode(code) / divisor);
        assert_true(pith_nvfp4_twin(twin) == twin);
    }
    assert_true(pith_nvfp4_twin(1.0f) == 1.0f && pith_nvfp4_divisor(0.25f) == 4.0f);
    assert_true(pith_nvfp4_twin(0x1p-140f) == 0x1p-140f); /* its inverse is no number */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(microscaling_is_that_of_torchao),
        cmocka_unit_test(nvfp4_is_that_of_torchao),
        cmocka_unit_test(blocks_decode_to_products),
        cmocka_unit_test(awkward_blocks),
        cmocka_unit_test(four_bits_are_those_of_bitsandbytes),
        cmocka_unit_test(thresholds_of_codebooks),
        cmocka_unit_test(double_quantization_is_that_of_bitsandbytes),
        cmocka_unit_test(nvfp4_scales_mean_the_same_in_all_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
