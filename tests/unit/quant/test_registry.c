/* Every format with every granularity and flag as a grid of weights: refused with a reason, or each
 * code the nearest level of its scale, and the whole no worse than scales by the largest weight,
 * which are computed here from the formats' values alone. */
#include "num/gguf/kquant.h"
#include "oracle.h"

enum { ROWS = 32, COLS = 256 };

static void fill(float *w)
{
    uint32_t x = 88172645u;
    for (int i = 0; i < ROWS * COLS; i++) {
        int total = -131070;
        for (int k = 0; k < 2; k++) {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            total += (int)(x & 0xffff) + (int)(x >> 16);
        }
        w[i] = ldexpf((float)total, -20 - i / COLS % 3);
    }
}

static float level_of(const struct pith_format *f, uint32_t code)
{
    if (f->kind == PITH_KIND_INT) return (float)code - (float)(1u << (f->bits - 1));
    const float v = f->decode(code);
    return isfinite(v) ? v : 0.0f;
}

static double nearest_error(const struct pith_format *f, double scale, double shift, double w)
{
    double least = INFINITY;
    for (uint32_t code = 0; code < 1u << f->bits; code++) {
        const double d = fabs(level_of(f, code) * scale + shift - w);
        if (d < least) least = d;
    }
    return least;
}

/* Squared error of n weights with the scale that takes the largest to the outermost level, or the
 * ends to both ends. */
static double plain_loss(const struct pith_format *f, bool ends, const float *w, size_t n,
                         size_t stride)
{
    double lo = 0, hi = 0, top = 0, bottom = 0, loss = 0;
    for (size_t i = 0; i < n; i++) {
        lo = fmin(lo, w[i * stride]);
        hi = fmax(hi, w[i * stride]);
    }
    for (uint32_t code = 0; code < 1u << f->bits; code++) {
        top = fmax(top, level_of(f, code));
        bottom = fmin(bottom, level_of(f, code));
    }
    const double scale = ends ? (hi - lo) / (top - bottom) : fmax(hi, -lo) / top;
    for (size_t i = 0; i < n; i++) {
        const double e = nearest_error(f, scale, ends ? lo - bottom * scale : 0, w[i * stride]);
        loss += e * e;
    }
    return loss;
}

static double plain_loss_of(const struct pith_qmat *q, bool ends, const float *w)
{
    const uint32_t tall = q->row_group < ROWS ? q->row_group : ROWS;
    double loss = 0;
    float tile[ROWS * COLS];
    for (uint32_t r = 0; r < ROWS; r += tall)
        for (uint32_t c = 0; c < COLS; c += q->group) {
            const uint32_t wide = COLS - c < q->group ? COLS - c : q->group;
            for (uint32_t i = 0; i < tall; i++)
                memcpy(tile + i * wide, w + (r + i) * COLS + c, wide * sizeof *tile);
            loss += plain_loss(q->format, ends, tile, (size_t)tall * wide, 1);
        }
    return loss;
}

/* How much worse it may be than scales of any precision by the largest weight: powers of two cost
 * most, scales that are small integers some. Levels of a row's own have no such scale. */
static double allowance(const struct pith_grid *g)
{
    const struct pith_kquant *t = pith_kquant_find(g->format->name);
    if (g->format->kind == PITH_KIND_BLOCK) return strcmp(g->format->scale, "e8m0") ? 1.2 : 2.2;
    return t && t->scale_most ? 1.3 : g->format->bits == 2 && g->hqq ? 1.3 : 1.2;
}

/* Codes are the nearest of what q's own scales offer. */
static void assert_nearest(const char *text, const struct pith_qmat *q, const float *w)
{
    float got[COLS];
    for (uint32_t r = 0; r < ROWS; r++) {
        pith_qmat_decode(q, r, 1, got);
        for (uint32_t c = 0; c < COLS; c++) {
            const size_t s = pith_qmat_scale_index(q, r, c / q->group);
            const double scale = q->scales[s];
            double shift = q->offsets ? q->offsets[s] : 0;
            if (q->format->kind == PITH_KIND_INT) {
                const double zero = q->offsets ? 0
                                    : q->zeros ? q->zeros[s]
                                               : 1u << (q->format->bits - 1);
                shift += (double)(1u << (q->format->bits - 1)) * scale - zero * scale;
            }
            const double best = nearest_error(q->format, scale, shift, w[r * COLS + c]);
            const double error = fabs((double)got[c] - w[r * COLS + c]);
            if (error > best + 1e-4 * fabs(scale) * q->format->max + 1e-9)
                fail_msg("%s: weight %g became %g, which is %g off; a level is %g off", text,
                         (double)w[r * COLS + c], (double)got[c], error, best);
        }
    }
}

static double loss_of(const struct pith_qmat *q, const float *w)
{
    float got[COLS];
    double loss = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        pith_qmat_decode(q, r, 1, got);
        for (uint32_t c = 0; c < COLS; c++) {
            const double e = (double)got[c] - w[r * COLS + c];
            loss += e * e;
        }
    }
    return loss;
}

/* False when the grid is refused; the reason must be told. */
static bool quantize(const char *text, struct pith_grid *g, const float *w, struct pith_qmat *q)
{
    struct pith_error err = {0};
    struct pith_round_report report;
    float copy[ROWS * COLS];
    enum pith_status s = pith_grid_parse(text, g, &err);
    if (s == PITH_OK && !pith_gridder_for(g)) return false; /* callers say what can be */
    if (s == PITH_OK) {
        struct machine m = make_machine(1);
        memcpy(copy, w, sizeof copy);
        const struct pith_round_job job = {.backend = m.backend,
                                           .grid = *g,
                                           .scale_dtype = PITH_F32,
                                           .rows = ROWS,
                                           .cols = COLS,
                                           .w = copy};
        s = pith_rounder_run(pith_rounder_find("nearest"), &job, q, &report, &err);
        free_machine(&m);
    }
    if (s != PITH_OK && strlen(err.text) < 20)
        fail_msg("%s is refused with \"%s\"", text, err.text);
    return s == PITH_OK;
}

static void check_one(const char *text, const float *w, size_t *used)
{
    struct pith_grid g;
    struct pith_qmat q;
    if (!quantize(text, &g, w, &q)) return;
    (*used)++;
    const bool ends = g.asym || q.offsets;
    if (!q.levels) {
        const double plain = plain_loss_of(&q, ends, w), loss = loss_of(&q, w);
        if (!(loss <= plain * allowance(&g)))
            fail_msg("%s: squared error %g, by the largest weight %g", text, loss, plain);
        if (!g.double_quant) assert_nearest(text, &q, w);
    } else {
        assert_true(loss_of(&q, w) < 0.05 * ROWS * COLS * 0.01);
    }
    pith_qmat_free(&q);
}

static void every_grid_of_weights(void **state)
{
    static const char *const shapes[] = {"",     ":tensor",  ":channel", ":g32",
                                         ":g96", ":block16", ":token"};
    static const char *const flags[] = {"",      ":asym", ":mse",    ":dq",      ":asym:hqq",
                                        ":even", ":ceil", ":static", ":asym:mse"};
    static float w[ROWS * COLS];
    size_t count, used = 0, all = 0;
    (void)state;
    const struct pith_format *formats = pith_formats(&count);
    fill(w);
    for (size_t f = 0; f < count; f++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (size_t o = 0; o < sizeof flags / sizeof *flags; o++, all++) {
                char text[96];
                snprintf(text, sizeof text, "%s%s%s", formats[f].name, shapes[s], flags[o]);
                check_one(text, w, &used);
            }
    print_message("%zu of %zu grids can be used\n", used, all);
    assert_true(used > 150);
}

/* What means nothing for weights is not passed over. */
static void flags_of_activations_are_refused(void **state)
{
    static const char *const grids[] = {"int8:channel:static", "int4:token",
                                        "fp8_e4m3:tensor:static", "nvfp4:static"};
    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        struct pith_grid g;
        struct pith_error err = {0};
        assert_ok(pith_grid_parse(grids[i], &g, &err), err);
        if (pith_gridder_for(&g)) fail_msg("%s is taken for weights", grids[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_grid_of_weights),
        cmocka_unit_test(flags_of_activations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
