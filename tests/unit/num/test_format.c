/* num/format: every code and every tie of every format, against tables of ml_dtypes and PyTorch
 * (tests/golden/num/make_formats.py) and against a search through all codes. */
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "num/elements/minifloat.h"
#include "num/format.h"
#include "test.h"

#include <float.h>
#include <math.h>

static const char *const small[] = {"fp8_e4m3", "fp8_e5m2", "fp6_e3m2",
                                    "fp6_e2m3", "fp4_e2m1", "e8m0"};

static uint32_t canonical(float x)
{
    return isnan(x) ? 0x7fc00000u : pith_float_to_bits(x);
}

static json_t *load_golden(void)
{
    struct pith_error err = {0};
    json_t *j = NULL;
    assert_ok(pith_json_load("tests/golden/num/formats.json", 1 << 20, &j, &err), err);
    return j;
}

static const char *golden_text(const json_t *j, const char *format, const char *key)
{
    const char *s = json_string_value(json_object_get(json_object_get(j, format), key));
    assert_non_null(s);
    return s;
}

static void assert_digest(const void *data, size_t size, const char *want)
{
    char hex[PITH_SHA256_HEX];
    assert_true(pith_sha256_hex(data, size, hex));
    assert_string_equal(hex, want);
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Finite non-negative values of a format, ascending; at most 32768. */
static size_t magnitudes(const struct pith_format *f, float *out)
{
    size_t n = 0;
    for (uint32_t c = 0; c < (uint32_t)1 << f->bits; c++) {
        const float v = f->decode(c);
        if (isfinite(v) && !signbit(v)) out[n++] = v;
    }
    qsort(out, n, sizeof *out, by_value);
    return n;
}

/* Midpoints, their neighbours and the negatives, in the order that the golden script uses. */
static size_t tie_inputs(const struct pith_format *f, float *out)
{
    float *v = malloc(32768 * sizeof *v);
    const size_t n = magnitudes(f, v);
    size_t used = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        const float mid = (float)(((double)v[i] + v[i + 1]) / 2);
        const float three[3] = {mid, nextafterf(mid, 0), nextafterf(mid, INFINITY)};
        for (int k = 0; k < 6; k++) out[used++] = k < 3 ? three[k] : -three[k - 3];
    }
    free(v);
    return used;
}

static void random_inputs(float *out, size_t n)
{
    uint32_t x = 12345;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        out[i] = pith_bits_to_float(x);
    }
}

/* As the golden script saw it: NaN is code 0; scales have no sign and are at least 2^-126. */
static void assert_encodes(const struct pith_format *f, const float *x, size_t n, const char *want)
{
    uint8_t *codes = malloc(n);
    const bool scale = f->mantissa_bits == 0;
    for (size_t i = 0; i < n; i++) {
        const float v = scale ? fmaxf(fabsf(x[i]), 0x1p-126f) : x[i];
        codes[i] = isnan(x[i]) ? 0 : (uint8_t)f->encode(v);
    }
    assert_digest(codes, n, want);
    free(codes);
}

static void small_floats_are_those_of_ml_dtypes(void **state)
{
    (void)state;
    enum { RANDOM = 200000 };
    json_t *golden = load_golden();
    float *x = malloc(RANDOM * sizeof *x);
    for (size_t s = 0; s < PITH_COUNT(small); s++) {
        const struct pith_format *f = pith_format_find(small[s]);
        const char *word = golden_text(golden, small[s], "decode");
        for (uint32_t c = 0; c < (uint32_t)1 << f->bits; c++, word += 9) {
            assert_int_equal(canonical(f->decode(c)), strtoul(word, NULL, 16));
            assert_int_equal(canonical(f->decode(c | 0xffffffffu << f->bits)),
                             strtoul(word, NULL, 16));
        }
        for (uint32_t c = 0; c < 65536; c++) x[c] = pith_bf16_to_f32((uint16_t)c);
        assert_encodes(f, x, 65536, golden_text(golden, small[s], "bf16"));
        const size_t n = tie_inputs(f, x);
        assert_encodes(f, x, n, golden_text(golden, small[s], "ties"));
        random_inputs(x, RANDOM);
        assert_encodes(f, x, RANDOM, golden_text(golden, small[s], "random"));
    }
    free(x);
    json_decref(golden);
}

static void bf16_is_that_of_pytorch(void **state)
{
    (void)state;
    enum { RANDOM = 200000, MOST = 6 * 32768 };
    static const struct {
        const char *name;
        float (*widen)(uint16_t);
        uint16_t (*narrow)(float);
    } rows[] = {{"f16", pith_f16_to_f32, pith_f32_to_f16},
                {"bf16", pith_bf16_to_f32, pith_f32_to_bf16}};
    json_t *golden = load_golden();
    uint32_t *words = malloc(65536 * sizeof *words);
    float *x = malloc(RANDOM * sizeof *x);
    uint16_t *codes = malloc(RANDOM * sizeof *codes);
    for (size_t r = 0; r < PITH_COUNT(rows); r++) {
        for (uint32_t c = 0; c < 65536; c++) words[c] = canonical(rows[r].widen((uint16_t)c));
        assert_digest(words, 65536 * sizeof *words, golden_text(golden, rows[r].name, "decode"));
        size_t n = tie_inputs(pith_format_find(rows[r].name), x);
        assert_true(n <= MOST);
        for (size_t i = 0; i < n; i++) codes[i] = rows[r].narrow(x[i]);
        assert_digest(codes, n * sizeof *codes, golden_text(golden, rows[r].name, "ties"));
        random_inputs(x, RANDOM);
        for (size_t i = 0; i < RANDOM; i++) codes[i] = rows[r].narrow(isnan(x[i]) ? 0 : x[i]);
        assert_digest(codes, RANDOM * sizeof *codes, golden_text(golden, rows[r].name, "random"));
    }
    free(words);
    free(x);
    free(codes);
    json_decref(golden);
}

static void bf16_of_special_values(void **state)
{
    (void)state;
    assert_int_equal(pith_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(pith_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(pith_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(pith_f32_to_f16(FLT_MAX), 0x7c00);
    assert_int_equal(pith_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(pith_f32_to_f16(-0x1.000002p-25f), 0x8001);
    assert_int_equal(pith_f32_to_bf16(FLT_MAX), 0x7f80);
    assert_int_equal(pith_f32_to_bf16(INFINITY), 0x7f80);
    /* No NaN may lose its mantissa and become an infinity. */
    static const uint32_t nans[] = {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu,
                                    0x7fc00000u};
    for (size_t i = 0; i < PITH_COUNT(nans); i++) {
        const float nan = pith_bits_to_float(nans[i]);
        assert_true(isnan(pith_f16_to_f32(pith_f32_to_f16(nan))));
        assert_true(isnan(pith_bf16_to_f32(pith_f32_to_bf16(nan))));
    }
    for (uint32_t c = 0; c < 65536; c++) {
        const uint16_t h = (uint16_t)c;
        const float a = pith_f16_to_f32(h), b = pith_bf16_to_f32(h);
        if (!isnan(a)) assert_int_equal(pith_f32_to_f16(a), h);
        if (!isnan(b)) assert_int_equal(pith_f32_to_bf16(b), h);
    }
}

/* The code that a search through all of them finds: nearest, on a tie the even code (of a power of
 * two the larger). */
static uint32_t search(const struct pith_format *f, float x)
{
    double best = INFINITY;
    uint32_t code = 0;
    const bool e8m0 = f->kind == PITH_KIND_FLOAT && !f->mantissa_bits;
    for (uint32_t c = 0; c < (uint32_t)1 << f->bits; c++) {
        const double v = f->decode(c);
        if (!isfinite(v)) continue;
        const double d = fabs(v - fmin(fmax((double)x, -2.0 * f->max), 2.0 * f->max));
        const bool sign_fits = signbit(v) == signbit(x);
        const bool even = e8m0 ? c > code : c % 2 == 0;
        const bool better = d < best || (d == best && even && c % 2 != code % 2) ||
                            (d == best && v == 0 && sign_fits);
        if (!better) continue;
        best = d;
        code = c;
    }
    return code;
}

static void encode_is_the_nearest_code(void **state)
{
    (void)state;
    size_t count;
    const struct pith_format *formats = pith_formats(&count);
    float *x = malloc(6 * 32768 * sizeof *x);
    for (size_t i = 0; i < count; i++) {
        const struct pith_format *f = &formats[i];
        if (!f->decode || f->bits > 8 || f->kind == PITH_KIND_CODEBOOK) continue;
        size_t n = tie_inputs(f, x);
        for (uint32_t c = 0; c < 65536; c += 61) {
            const float v = pith_bf16_to_f32((uint16_t)c);
            if (isfinite(v)) x[n++] = v;
        }
        for (size_t k = 0; k < n; k++) {
            const float v = f->mantissa_bits == 0 && f->exponent_bits ? fabsf(x[k]) : x[k];
            const uint32_t got = f->encode(v), want = search(f, v);
            if (f->decode(got) != f->decode(want))
                fail_msg("%s: %a: code %u, should be %u", f->name, (double)v, got, want);
        }
    }
    free(x);
}

/* Each value encodes to its own code; NaN, infinities and zero as format.h says. */
static void every_code_survives(void **state)
{
    (void)state;
    size_t count;
    const struct pith_format *formats = pith_formats(&count);
    for (size_t i = 0; i < count; i++) {
        const struct pith_format *f = &formats[i];
        if (!f->encode) continue;
        float top = -INFINITY, bottom = INFINITY, least = f->bits == 32 ? 0 : INFINITY;
        bool has_nan = f->bits == 32;
        for (uint32_t c = 0; f->bits <= 16 && c < (uint32_t)1 << f->bits; c++) {
            const float v = f->decode(c);
            has_nan |= isnan(v);
            if (!isfinite(v)) continue;
            if (v > top) top = v;
            if (v < bottom) bottom = v;
            if (fabsf(v) < least) least = fabsf(v); /* iq4 has no zero */
            const bool zero_twice = v == 0 && f->kind == PITH_KIND_CODEBOOK;
            if (!zero_twice) assert_int_equal(f->encode(v), c);
        }
        if (f->bits == 32) bottom = -(top = FLT_MAX);
        assert_true(f->max == top);
        assert_true(f->decode(f->encode(INFINITY)) == top);
        assert_true(f->decode(f->encode(FLT_MAX)) == top);
        const float nan = f->decode(f->encode(NAN));
        assert_true(has_nan ? isnan(nan) : fabsf(nan) == least);
        if (f->mantissa_bits == 0 && f->exponent_bits) {
            assert_true(f->decode(f->encode(0)) == 0x1p-127f);
            assert_true(isnan(f->decode(f->encode(-1))));
        } else {
            assert_true(f->decode(f->encode(-INFINITY)) == bottom);
            assert_true(fabsf(f->decode(f->encode(0))) == least);
            assert_true(least == 0 || strcmp(f->name, "iq4") == 0);
        }
    }
}

static void integers_are_twos_complement(void **state)
{
    (void)state;
    for (int bits = 2; bits <= 8; bits++) {
        char name[16];
        snprintf(name, sizeof name, "int%d", bits);
        const struct pith_format *f = pith_format_find(name);
        const int half = 1 << (bits - 1);
        assert_int_equal(pith_format_middle(f), half);
        for (int v = -half; v < half; v++)
            assert_true(f->decode((uint32_t)v & ((1u << bits) - 1)) == (float)v);
        for (int q = -8 * 200; q <= 8 * 200; q++) {
            const float x = (float)q / 8;
            const double want = fmin(fmax(rint(x), -half), half - 1);
            assert_true(f->decode(f->encode(x)) == (float)want);
        }
    }
    assert_int_equal(pith_format_middle(pith_format_find("nf4")), 0);
    assert_int_equal(pith_format_middle(pith_format_find("fp8_e4m3")), 0);
}

static void registry_is_consistent(void **state)
{
    (void)state;
    size_t count;
    const struct pith_format *formats = pith_formats(&count);
    assert_true(count >= 24);
    for (size_t i = 0; i < count; i++) {
        const struct pith_format *f = &formats[i];
        if (i) assert_true(formats[i - 1].id < f->id);
        assert_ptr_equal(pith_format_by_id(f->id), f);
        assert_ptr_equal(pith_format_find(f->name), f);
        assert_true(strlen(f->name) < 24 && f->summary[0]);
        char words[128], *rest = words, *word;
        snprintf(words, sizeof words, "%s", f->aliases);
        while ((word = strtok_r(rest, " ", &rest))) assert_ptr_equal(pith_format_find(word), f);
        const bool block = f->kind == PITH_KIND_BLOCK || f->kind == PITH_KIND_GGUF;
        const bool single = !block && f->kind != PITH_KIND_TRELLIS; /* codes stand for themselves */
        const bool read = f->kind == PITH_KIND_CODEBOOK && !f->encode; /* of GGUF's IQ1 to IQ3 */
        assert_true(single == (f->decode != NULL) && single == (f->encode != NULL || read));
        assert_true(block == (f->element != NULL) && block == (f->scale != NULL));
        if (!block) continue;
        assert_int_equal(pith_format_find(f->element)->bits, f->bits);
        assert_true(pith_format_find(f->element)->max == f->max);
        assert_int_equal(pith_format_find(f->scale)->bits, f->kind == PITH_KIND_GGUF ? 16 : 8);
    }
    assert_ptr_equal(pith_format_find("F8_E4M3"), pith_format_find("fp8_e4m3"));
    assert_ptr_equal(pith_format_find("MXFP6"), pith_format_find("mxfp6_e2m3"));
    assert_null(pith_format_find(""));
    assert_null(pith_format_find("int"));
    assert_null(pith_format_find("int44"));
    assert_null(pith_format_find("fp4"));
    assert_null(pith_format_find("float32 fp32"));
    assert_null(pith_format_by_id(0));
    assert_true(pith_format_bits(pith_format_find("mxfp4")) == 4.25);
    assert_true(pith_format_bits(pith_format_find("nvfp4")) == 4.5);
    assert_true(pith_format_bits(pith_format_find("int3")) == 3);
    assert_true(pith_format_bits(pith_format_find("q4_0")) == 4.5);
    assert_true(pith_format_bits(pith_format_find("Q3_K")) == 3.4375);
    assert_true(pith_format_bits(pith_format_find("q6_k")) == 6.5625);
}

static void dtypes_have_names_and_sizes(void **state)
{
    (void)state;
    enum pith_dtype found;
    for (unsigned t = 0; t < PITH_DTYPE_COUNT; t++) {
        assert_true(pith_dtype_find(pith_dtype_name((enum pith_dtype)t), &found));
        assert_int_equal(found, t);
    }
    assert_int_equal(pith_dtype_bits(PITH_F4), 4);
    assert_int_equal(pith_dtype_bits(PITH_F6_E3M2), 6);
    assert_int_equal(pith_dtype_bits(PITH_BF16), 16);
    assert_int_equal(pith_dtype_bits(PITH_C64), 64);
    assert_string_equal(pith_dtype_name(PITH_F8_E4M3), "F8_E4M3");
    assert_false(pith_dtype_find("bf16", &found));
    assert_false(pith_dtype_find("", &found));
    assert_int_equal(pith_dtype_bits(PITH_DTYPE_COUNT), 0);
}

/* Bulk conversion equals one by one, at every length and odd address, and stays inside. */
static void bulk_conversion_is_one_by_one(void **state)
{
    (void)state;
    static const enum pith_dtype types[] = {PITH_F32, PITH_F16, PITH_BF16, PITH_F64};
    float x[100];
    random_inputs(x, PITH_COUNT(x));
    for (size_t t = 0; t < PITH_COUNT(types); t++)
        for (size_t n = 0; n <= PITH_COUNT(x); n++) {
            const size_t size = pith_dtype_bits(types[t]) / 8;
            uint8_t *bytes = malloc(n * size + 1); /* an odd address; ends where the data end */
            float *back = malloc(n * sizeof *back + 1);
            if (types[t] == PITH_F64) {
                assert_false(pith_dtype_encode(types[t], x, n, bytes + 1));
                for (size_t i = 0; i < n; i++) {
                    const double d = x[i];
                    memcpy(bytes + 1 + i * size, &d, size);
                }
            } else {
                assert_true(pith_dtype_encode(types[t], x, n, bytes + 1));
            }
            assert_true(pith_dtype_decode(types[t], bytes + 1, n, back));
            for (size_t i = 0; i < n; i++)
                assert_int_equal(canonical(back[i]), canonical(pith_round_to(types[t], x[i])));
            free(bytes);
            free(back);
        }
    assert_false(pith_dtype_decode(PITH_I32, x, 1, x));
    assert_false(pith_dtype_encode(PITH_U8, x, 1, x));
    assert_true(pith_round_to(PITH_I8, 1.7f) == 1.7f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_floats_are_those_of_ml_dtypes),
        cmocka_unit_test(bf16_is_that_of_pytorch),
        cmocka_unit_test(bf16_of_special_values),
        cmocka_unit_test(encode_is_the_nearest_code),
        cmocka_unit_test(every_code_survives),
        cmocka_unit_test(integers_are_twos_complement),
        cmocka_unit_test(registry_is_consistent),
        cmocka_unit_test(dtypes_have_names_and_sizes),
        cmocka_unit_test(bulk_conversion_is_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
