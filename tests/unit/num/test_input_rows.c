/* num/input: every format of the registry as a grid of activations, keys and values: what is not
 * refused equals formulas written here, and GGUF's types equal ggml
 * (tests/golden/num/make_rows.py). */
#include "base/json.h"
#include "num/elements/minifloat.h"
#include "num/gguf/kquant.h"
#include "num/input.h"
#include "test.h"

#include <math.h>

enum { COLS = 256, COUNT = 5 * COLS };

static unsigned from_hex(const char *text, size_t digits)
{
    char word[9] = {0};
    memcpy(word, text, digits);
    return (unsigned)strtoul(word, NULL, 16);
}

static json_t *read_golden(const char *path)
{
    struct pith_error err = {0};
    json_t *j;
    assert_ok(pith_json_load(path, 1 << 20, &j, &err), err);
    return j;
}

static void read_values(float *x)
{
    json_t *inputs = read_golden("tests/golden/num/inputs.json");
    const char *words = json_string_value(json_object_get(inputs, "x"));
    for (size_t i = 0; i < COUNT; i++) x[i] = pith_bits_to_float(from_hex(words + 8 * i, 8));
    json_decref(inputs);
}

static void gguf_rows_are_those_of_ggml(void **state)
{
    static float x[COUNT], y[COUNT];
    (void)state;
    json_t *golden = read_golden("tests/golden/num/rows.json"), *blocks;
    const char *name;
    read_values(x);
    assert_int_equal(json_object_size(golden), 6);
    json_object_foreach (golden, name, blocks) {
        const struct pith_kquant *t = pith_kquant_find(name);
        struct pith_error err = {0};
        struct pith_input in = {0};
        const char *hex = json_string_value(blocks);
        assert_ok(pith_grid_parse(name, &in.grid, &err), err);
        assert_ok(pith_input_check(&in, COLS, &err), err);
        pith_input_rows(&in, x, COUNT / COLS, COLS, NULL, y);
        for (size_t i = 0; i < COUNT; i += 32, hex += 2 * t->bytes) {
            uint8_t bytes[64];
            struct pith_kblock b;
            float want[32];
            for (size_t k = 0; k < t->bytes; k++) bytes[k] = (uint8_t)from_hex(hex + 2 * k, 2);
            assert_true(pith_kquant_unpack(t, bytes, &b));
            pith_kquant_values(t, &b, want);
            for (size_t k = 0; k < 32; k++)
                if (want[k] != y[i + k])
                    fail_msg("%s: value %zu is %g, not %g", name, i + k, (double)y[i + k],
                             (double)want[k]);
        }
    }
    json_decref(golden);
}

/* --- formulas ----------------------------------------------------------------------------------
 */

/* Nearest of a float format's values, by looking at all of them; ties to the even code. */
static float nearest(const struct pith_format *f, float t)
{
    float best = 0.0f;
    double least = INFINITY;
    for (uint32_t code = 0; code < 1u << f->bits; code++) {
        const float v = f->decode(code);
        if (!isfinite(v)) continue;
        const double d = fabs((double)v - (double)t);
        if (d < least || (d == least && code % 2 == 0)) {
            least = d;
            best = v;
        }
    }
    return best;
}

static float amax_of(const float *x, size_t n)
{
    float most = 0.0f;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
    return most;
}

static void want_ints(const struct pith_grid *g, const float *x, size_t n, float *y)
{
    const float levels = (float)(1 << g->format->bits), half = levels / 2;
    float lo = 0.0f, hi = 0.0f;
    for (size_t i = 0; i < n; i++) {
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    float scale = g->asym ? (hi - lo) / (levels - 1.0f) : fmaxf(hi, -lo) / (half - 0.5f);
    if (scale == 0.0f) scale = 0x1p-23f;
    float zero = g->asym ? rintf(fminf(fmaxf(-half - lo / scale, -half), half - 1.0f)) : 0.0f;
    if (g->asym && hi == lo) zero = 0.0f;
    for (size_t i = 0; i < n; i++) {
        const float q = rintf(fminf(fmaxf(x[i] / scale + zero, -half), half - 1.0f));
        y[i] = (q - zero) * scale;
    }
}

static void want_floats(const struct pith_format *f, float scale, const float *x, size_t n,
                        float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = nearest(f, x[i] / scale) * scale;
}

/* 2^(E - top), E the exponent of amax after half a unit of a place is added to its digits. */
static void want_mx(const struct pith_format *f, const float *x, size_t n, float *y)
{
    const struct pith_format *element = pith_format_find(f->element);
    const int places = element->bits == 6 ? element->mantissa_bits : 1;
    int e, top;
    const float amax = amax_of(x, n);
    const float digits = amax > 0.0f ? 2.0f * frexpf(amax, &e) : 1.0f; /* 1 <= digits < 2 */
    (void)frexpf(element->max, &top);
    if (!(amax > 0.0f)) e = -126;
    if (digits + ldexpf(1.0f, -1 - places) >= 2.0f) e++;
    const int power = e - top;
    want_floats(element, amax > 0.0f ? ldexpf(1.0f, power) : 0x1p-127f, x, n, y);
}

static void want_nvfp4(const struct pith_input *in, const float *x, size_t n, float *y)
{
    const struct pith_format *element = pith_format_find("fp4_e2m1"),
                             *scales = pith_format_find("fp8_e4m3");
    const float inverse = 1.0f / in->scale;
    float s = nearest(scales, inverse * (amax_of(x, n) / 6.0f));
    if (s == 0.0f) s = 0.125f;
    want_floats(element, s / inverse, x, n, y);
}

/* One run of values that share a scale. GGUF's are held against ggml above. */
static void want_run(const struct pith_input *in, const float *x, size_t n, float *y)
{
    const struct pith_format *f = in->grid.format;
    const float amax = amax_of(x, n);
    if (f->kind == PITH_KIND_INT) want_ints(&in->grid, x, n, y);
    else if (f->kind == PITH_KIND_FLOAT)
        want_floats(f, amax > 0.0f ? amax / f->max : 0x1p-23f, x, n, y);
    else if (strcmp(f->name, "nvfp4") == 0) want_nvfp4(in, x, n, y);
    else if (f->kind == PITH_KIND_BLOCK) want_mx(f, x, n, y);
    else pith_input_row(in, &(struct pith_input_call){0}, x, n, y);
}

static void want_row(const struct pith_input *in, const float *x, float *y)
{
    const struct pith_grid *g = &in->grid;
    const size_t run = g->granularity == PITH_PER_GROUP ? g->group : COLS;
    for (size_t c = 0; c < COLS; c += run) want_run(in, x + c, run, y + c);
}

/* True when the grid can be used; a refusal must say why. */
static bool allowed(const char *text, struct pith_input *in)
{
    struct pith_error err = {0};
    *in = (struct pith_input){.scale = 0.0078125f};
    enum pith_status s = pith_grid_parse(text, &in->grid, &err);
    if (s == PITH_OK && !in->grid.format) return false;
    if (s == PITH_OK) s = pith_input_check(in, COLS, &err);
    if (s != PITH_OK && strlen(err.text) < 20)
        fail_msg("%s is refused with \"%s\"", text, err.text);
    return s == PITH_OK;
}

static void compare_grid(const char *text, const struct pith_input *in, const float *x)
{
    float y[COLS], want[COLS];
    for (size_t r = 0; r < COUNT; r += COLS) {
        pith_input_rows(in, x + r, 1, COLS, NULL, y);
        want_row(in, x + r, want);
        for (size_t c = 0; c < COLS; c++)
            if (y[c] != want[c])
                fail_msg("%s: row %zu, column %zu: %g is %g, not %g", text, r / COLS, c,
                         (double)x[r + c], (double)y[c], (double)want[c]);
    }
}

static void every_grid_is_its_formula_or_refused(void **state)
{
    static const char *const shapes[] = {"", ":token", ":tensor", ":channel", ":g32", ":g64",
                                         ":block32"};
    static const char *const flags[] = {"", ":asym", ":mse", ":dq", ":asym:hqq", ":even", ":ceil"};
    static float x[COUNT];
    size_t count, used = 0, refused = 0;
    (void)state;
    const struct pith_format *formats = pith_formats(&count);
    read_values(x);
    for (size_t f = 0; f < count; f++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (size_t o = 0; o < sizeof flags / sizeof *flags; o++) {
                char text[96];
                struct pith_input in;
                snprintf(text, sizeof text, "%s%s%s", formats[f].name, shapes[s], flags[o]);
                if (!allowed(text, &in)) {
                    refused++;
                    continue;
                }
                compare_grid(text, &in, x);
                used++;
            }
    print_message("%zu grids equal their formulas, %zu are refused\n", used, refused);
    assert_true(used > 60 && refused > used);
}

static void types_of_weights_name_those_that_can(void **state)
{
    static const char *const names[] = {"q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct pith_error err = {0};
        struct pith_input in = {0};
        assert_ok(pith_grid_parse(names[i], &in.grid, &err), err);
        assert_int_equal(pith_input_check(&in, COLS, &err), PITH_UNSUPPORTED);
        assert_non_null(strstr(err.text, "q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl"));
    }
}

static void what_is_not_finite_shows(void **state)
{
    static const char *const names[] = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int kind = 0; kind < 3; kind++) {
            struct pith_error err = {0};
            struct pith_input in = {0};
            float x[64], y[64];
            for (size_t c = 0; c < 64; c++) x[c] = (float)c - 20.0f;
            x[40] = kind == 0 ? NAN : kind == 1 ? INFINITY : 1e30f;
            assert_ok(pith_grid_parse(names[i], &in.grid, &err), err);
            pith_input_rows(&in, x, 1, 64, NULL, y);
            assert_true(!isfinite(y[40])); /* 1e30: its half is infinite */
            assert_true(y[0] <= 0.0f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_rows_are_those_of_ggml),
        cmocka_unit_test(every_grid_is_its_formula_or_refused),
        cmocka_unit_test(types_of_weights_name_those_that_can),
        cmocka_unit_test(what_is_not_finite_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
