/* The search for the scales of GGUF's blocks. A block's error is that of its sub-blocks, each with
 * a scale s and in some types an offset o, which in types of two levels are integers times d and
 * -dmin. The steps:
 *
 *   1. each sub-block alone, s and o free: from many starting points, codes to the nearest, then s
 *      and o by least squares for those codes; the best is taken;
 *   2. for several d and dmin around those that the largest s and o give: each sub-block takes the
 *      best of the integers next to its own optimum, judged by the error with nearest codes; then d
 *      and dmin by least squares for those integers and codes, as long as that helps.
 *
 * llama.cpp has the first step along one line of starting points, and of the second the rounding of
 * the integers. All of it is arithmetic in a fixed order, products and sums rounded one by one, so
 * that the result depends on nothing else. */
#include "quant/grid/kfit.h"

#include "num/codebook.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { SUB = 32, LANES = 16, TRIES = 2, STARTS = 3, ROUNDS = 4, CHUNK = 64 };

/* How codes are rounded to. */
struct codes {
    const struct pith_kern *kern;
    const struct pith_codebook *book; /* codes are its levels; NULL: integers */
    float top;                        /* integers: the largest */
};

/* What is alike for all sub-blocks of a block. */
struct kind {
    const struct pith_kquant *t;
    struct codes codes;
    unsigned n, subs;  /* weights of a sub-block, sub-blocks */
    float zero;        /* integers: as in a quantized matrix */
    float least, most; /* values of the end codes; least <= 0 */
    float shrink;      /* how much of the range the search cuts off at most */
};

struct sub {
    const float *w, *h;
    float s, o;         /* where step 1 ends */
    int scale, minimum; /* where step 2 stands */
    float error;
};

/* Weighted sums over a sub-block's values y (without the offset), which least squares need. */
struct sums {
    double yy, y, one, wy, w;
};

static struct codes codes_of(const struct pith_format *f, const struct pith_kern *kern)
{
    const bool book = f->kind == PITH_KIND_CODEBOOK;
    return (struct codes){kern, book ? pith_codebook_of(f) : NULL, (float)((1u << f->bits) - 1)};
}

static struct kind kind_of(const struct pith_kquant *t, const struct pith_kern *kern)
{
    const struct pith_format *f = pith_format_find(t->element);
    struct kind k = {.t = t, .n = t->sub, .subs = t->elements / t->sub};
    k.codes = codes_of(f, kern);
    k.zero = t->minimums ? 0.0f : (float)pith_format_middle(f);
    k.least = -k.zero;
    k.most = k.codes.top - k.zero;
    if (k.codes.book) {
        k.least = k.codes.book->level[0];
        k.most = k.codes.book->level[PITH_BOOK_LEVELS - 1];
    }
    k.shrink = 1.4f / (float)(1u << (f->bits - 1));
    return k;
}

/* --- rounding --------------------------------------------------------------------------------- */

/* A negative scale is the positive one for the weights' negatives. */
static void round_book(const struct codes *c, size_t n, const float *x, const float *scale,
                       size_t step, uint8_t *codes, float *values)
{
    pith_book_round_fn *round = c->kern ? c->kern->book_round : pith_book_round_scalar;
    float y[CHUNK] = {0}, s[CHUNK] = {0};
    for (size_t i = 0; i < n; i++) {
        s[i] = fabsf(scale[i * step]);
        y[i] = copysignf(1.0f, scale[i * step]) * x[i];
    }
    round(n, y, s, 1, c->book, codes, y);
    for (size_t i = 0; i < n; i++) values[i] = copysignf(1.0f, scale[i * step]) * y[i];
}

/* x[n], n up to CHUNK, to values without offset. */
static void round_some(const struct codes *c, size_t n, const float *x, const float *scale,
                       const float *zero, size_t step, uint8_t *codes, float *values)
{
    if (c->book) {
        round_book(c, n, x, scale, step, codes, values);
        return;
    }
    pith_grid_round_fn *round = c->kern ? c->kern->grid_round : pith_grid_round_scalar;
    round(n, x, scale, zero, step, c->top, codes, values);
}

void pith_kfit_round(const struct pith_format *f, const struct pith_grid_line *line)
{
    const struct codes c = codes_of(f, line->kern);
    const size_t step = line->step;
    for (size_t at = 0; at < line->n; at += CHUNK) {
        const size_t m = line->n - at < CHUNK ? line->n - at : CHUNK;
        const float *w = line->w + at, *o = line->offset ? line->offset + at * step : NULL;
        float x[CHUNK] = {0};
        for (size_t i = 0; i < m; i++) x[i] = o ? w[i] - o[i * step] : w[i];
        round_some(&c, m, x, line->scale + at * step, line->zero + at * step, step,
                   line->codes ? line->codes + at : NULL, x);
        for (size_t i = 0; line->values && i < m; i++)
            line->values[at + i] = o ? x[i] + o[i * step] : x[i];
    }
}

static inline float fold_lanes(const float acc[LANES])
{
    float t[4];
    for (int l = 0; l < 4; l++) t[l] = (acc[l] + acc[l + 4]) + (acc[l + 8] + acc[l + 12]);
    return (t[0] + t[1]) + (t[2] + t[3]);
}

/* Loops of a fixed length without aliasing are what compilers vectorize. */
static inline void subtract_lanes(const float *restrict w, float o, float *restrict x)
{
    for (int l = 0; l < LANES; l++) x[l] = w[l] - o;
}

static inline void square_lanes(const float *restrict h, const float *restrict x,
                                const float *restrict y, float *restrict acc)
{
    for (int l = 0; l < LANES; l++) {
        const float d = x[l] - y[l];
        acc[l] += h[l] * d * d;
    }
}

/* The error of a sub-block with nearest codes under s and o; y[n] receives their values, without
 * the offset. */
static float attempt(const struct kind *k, const struct sub *b, float s, float o, float y[SUB])
{
    float x[SUB], acc[LANES] = {0};
    for (unsigned i = 0; i < k->n; i += LANES) subtract_lanes(b->w + i, o, x + i);
    round_some(&k->codes, k->n, x, &s, &k->zero, 0, NULL, y);
    for (unsigned i = 0; i < k->n; i += LANES) square_lanes(b->h + i, x + i, y + i, acc);
    return fold_lanes(acc);
}

struct lanes {
    float yy[LANES], y[LANES], one[LANES], wy[LANES], w[LANES];
};

static inline void sum_lanes(const float *restrict h, const float *restrict w,
                             const float *restrict y, struct lanes *restrict acc)
{
    for (int l = 0; l < LANES; l++) {
        const float hy = h[l] * y[l];
        acc->yy[l] += hy * y[l];
        acc->y[l] += hy;
        acc->one[l] += h[l];
        acc->wy[l] += hy * w[l];
        acc->w[l] += h[l] * w[l];
    }
}

static struct sums sums_of(const struct kind *k, const struct sub *b, const float y[SUB])
{
    struct lanes a = {{0}, {0}, {0}, {0}, {0}};
    for (unsigned i = 0; i < k->n; i += LANES) sum_lanes(b->h + i, b->w + i, y + i, &a);
    return (struct sums){(double)fold_lanes(a.yy), (double)fold_lanes(a.y),
                         (double)fold_lanes(a.one), (double)fold_lanes(a.wy),
                         (double)fold_lanes(a.w)};
}

/* --- step 1 ----------------------------------------------------------------------------------- */

/* s and o by least squares for the codes whose values under *s are y. False when these say nothing.
 */
static bool least_squares(const struct kind *k, const struct sub *b, const float y[SUB], float *s,
                          float *o)
{
    const struct sums m = sums_of(k, b, y);
    const double det = m.yy * m.one - m.y * m.y;
    double by = 0.0, offset = 0.0;
    if (k->t->minimums && det > 1e-12 * m.yy * m.one) {
        by = (m.wy * m.one - m.w * m.y) / det;
        offset = (m.w - by * m.y) / m.one;
    }
    /* The minimums of two levels are subtracted, and not negative. */
    if (by <= 0.0 || (k->t->min_most && offset > 0.0)) {
        if (!(m.yy > 0.0)) return false;
        by = m.wy / m.yy;
        offset = 0.0;
    }
    *s = (float)(*s * by);
    *o = (float)offset;
    return isfinite(*s) && *s != 0.0f;
}

/* Descends from a starting point; the best so far is in b. */
static void descend(const struct kind *k, struct sub *b, float s, float o)
{
    float y[SUB];
    for (int i = 0; i <= TRIES; i++) {
        const float e = attempt(k, b, s, o, y);
        if (e < b->error) {
            b->error = e;
            b->s = s;
            b->o = o;
        } else if (i > 0) {
            return;
        }
        if (i < TRIES && !least_squares(k, b, y, &s, &o)) return;
    }
}

/* The best few starting points, best first. */
struct starts {
    struct {
        float s, o, error;
    } found[STARTS];
};

static struct starts no_starts(void)
{
    struct starts all;
    memset(&all, 0, sizeof all);
    for (int i = 0; i < STARTS; i++) all.found[i].error = INFINITY;
    return all;
}

static void try_start(const struct kind *k, const struct sub *b, float s, float o,
                      struct starts *all)
{
    float y[SUB];
    const float error = attempt(k, b, s, o, y);
    int i = STARTS - 1;
    if (!(error < all->found[i].error)) return;
    for (; i > 0 && error < all->found[i - 1].error; i--) all->found[i] = all->found[i - 1];
    all->found[i].s = s;
    all->found[i].o = o;
    all->found[i].error = error;
}

static void descend_all(const struct kind *k, struct sub *b, const struct starts *all)
{
    for (int i = 0; i < STARTS && all->found[i].error < INFINITY; i++)
        descend(k, b, all->found[i].s, all->found[i].o);
}

static void fit_pair(const struct kind *k, struct sub *b, float lo, float hi)
{
    enum { STEPS = 7 };
    struct starts all = no_starts();
    if (k->t->min_most && lo > 0.0f) lo = 0.0f;
    const float range = hi - lo;
    b->s = range / k->codes.top;
    b->o = lo;
    if (range == 0.0f) {
        b->error = 0.0f;
        return;
    }
    for (int i = 0; i < STEPS; i++)
        for (int j = 0; j < STEPS; j++) {
            const float up = k->shrink * (float)(i - 1) / STEPS,
                        down = k->shrink * (float)(j - 1) / STEPS;
            const float o = lo + down * range * 0.5f;
            const float s = (hi - up * range * 0.5f - o) / k->codes.top;
            if (s > 0.0f) try_start(k, b, s, k->t->min_most && o > 0.0f ? 0.0f : o, &all);
        }
    descend_all(k, b, &all);
}

static void fit_single(const struct kind *k, struct sub *b, float lo, float hi)
{
    enum { STEPS = 20 };
    struct starts all = no_starts();
    const float most = -lo > hi ? -lo : hi;
    b->s = most / -k->least;
    if (most == 0.0f) {
        b->error = 0.0f;
        return;
    }
    /* From the largest weight beyond the longer end to it at the shorter end. */
    const float first = most / -k->least * (1.0f - k->shrink), last = most / k->most * 1.01f;
    for (int i = 0; i <= STEPS; i++) {
        const float s = first + (last - first) * (float)i / STEPS;
        try_start(k, b, s, 0.0f, &all);
        try_start(k, b, -s, 0.0f, &all);
    }
    descend_all(k, b, &all);
}

static void fit_alone(const struct kind *k, struct sub *b)
{
    float lo = b->w[0], hi = b->w[0];
    for (unsigned i = 1; i < k->n; i++) {
        lo = b->w[i] < lo ? b->w[i] : lo;
        hi = b->w[i] > hi ? b->w[i] : hi;
    }
    b->error = INFINITY;
    b->o = 0.0f;
    if (k->t->minimums) fit_pair(k, b, lo, hi);
    else fit_single(k, b, lo, hi);
}

/* --- step 2 ----------------------------------------------------------------------------------- */

struct outer {
    float d, dmin;
};

static int clamp_int(float x, int least, int most)
{
    if (!(x > (float)least)) return least;
    return x < (float)most ? (int)lrintf(x) : most;
}

/* The best integers of a sub-block next to its own optimum. */
static void choose(const struct kind *k, struct sub *b, struct outer u)
{
    const struct pith_kquant *t = k->t;
    float y[SUB];
    const int scale = u.d != 0.0f ? clamp_int(b->s / u.d, t->scale_least, t->scale_most) : 0;
    (void)attempt(k, b, b->s, b->o, y);
    const struct sums m = sums_of(k, b, y);
    b->error = INFINITY;
    for (int i = scale - 1; i <= scale + 1; i++) {
        if (i < t->scale_least || i > t->scale_most) continue;
        const float s = u.d * (float)i;
        /* The offset that goes with this scale, for the codes of the optimum. */
        const double by = b->s != 0.0f ? (double)s / (double)b->s : 0.0;
        const float o = m.one > 0.0 ? (float)((m.w - by * m.y) / m.one) : 0.0f;
        const int near = u.dmin > 0.0f ? clamp_int(-o / u.dmin, 0, t->min_most) : 0;
        for (int j = near - 1; j <= near + 1; j++) {
            if (j < 0 || j > t->min_most) continue;
            const float e = attempt(k, b, s, -(u.dmin * (float)j), y);
            if (!(e < b->error)) continue;
            b->error = e;
            b->scale = i;
            b->minimum = j;
        }
    }
}

static float total(const struct kind *k, const struct sub *subs)
{
    float e = 0.0f;
    for (unsigned i = 0; i < k->subs; i++) e += subs[i].error;
    return e;
}

static float choose_all(const struct kind *k, struct sub *subs, struct outer u)
{
    for (unsigned i = 0; i < k->subs; i++) choose(k, &subs[i], u);
    return total(k, subs);
}

static float half(double x)
{
    return pith_f16_to_f32(pith_f32_to_f16((float)x));
}

/* d and dmin by least squares for the present integers and the codes under u. */
static struct outer solve_outer(const struct kind *k, const struct sub *subs, struct outer u)
{
    double aa = 0, ab = 0, bb = 0, wa = 0, wb = 0;
    for (unsigned i = 0; i < k->subs; i++) {
        const struct sub *b = &subs[i];
        float y[SUB];
        (void)attempt(k, b, u.d * (float)b->scale, -(u.dmin * (float)b->minimum), y);
        const struct sums m = sums_of(k, b, y);
        const double minimum = -b->minimum;
        aa += m.yy;
        ab += m.y * minimum;
        bb += m.one * minimum * minimum;
        wa += m.wy;
        wb += m.w * minimum;
    }
    const double det = aa * bb - ab * ab;
    struct outer v = u;
    if (det > 1e-12 * aa * bb) {
        v.d = half(u.d * ((wa * bb - wb * ab) / det));
        v.dmin = half((wb * aa - wa * ab) / det);
    } else if (aa > 0.0) {
        v.d = half(u.d * ((wa - u.dmin * ab) / aa));
    }
    if (!(v.dmin >= 0.0f)) v.dmin = 0.0f;
    return v;
}

struct best {
    float error;
    struct outer u;
    int scale[PITH_KSUBS], minimum[PITH_KSUBS];
};

static bool keep(const struct kind *k, const struct sub *subs, struct outer u, struct best *best)
{
    const float e = total(k, subs);
    if (!(e < best->error)) return false;
    best->error = e;
    best->u = u;
    for (unsigned i = 0; i < k->subs; i++) {
        best->scale[i] = subs[i].scale;
        best->minimum[i] = subs[i].minimum;
    }
    return true;
}

/* From d and dmin downhill. */
static void settle(const struct kind *k, struct sub *subs, struct outer u, struct best *best)
{
    float before = INFINITY;
    for (int i = 0; i < ROUNDS; i++) {
        const float e = choose_all(k, subs, u);
        (void)keep(k, subs, u, best);
        if (!(e < before)) return;
        before = e;
        const struct outer v = solve_outer(k, subs, u);
        if (v.d == u.d && v.dmin == u.dmin) return;
        u = v;
    }
}

/* The scale of largest magnitude becomes the end of the integers: of signed ones the lower. */
static struct outer ends_of(const struct kind *k, const struct sub *subs)
{
    float scale = 0.0f, minimum = 0.0f;
    for (unsigned i = 0; i < k->subs; i++) {
        if (fabsf(subs[i].s) > fabsf(scale)) scale = subs[i].s;
        if (-subs[i].o > minimum) minimum = -subs[i].o;
    }
    const int end = k->t->scale_least ? k->t->scale_least : k->t->scale_most;
    return (struct outer){scale / (float)end, k->t->min_most ? minimum / (float)k->t->min_most : 0};
}

/* d and dmin with the largest scale i below its end and the largest minimum j below. */
static struct outer lower(const struct kind *k, struct outer ends, int i, int j)
{
    const int top = k->t->scale_least ? -k->t->scale_least : k->t->scale_most,
              bottom = k->t->min_most;
    const float by = (float)top / (float)(top - i),
                bymin = bottom ? (float)bottom / (float)(bottom - j) : 0.0f;
    return (struct outer){half((double)(ends.d * by)), half((double)(ends.dmin * bymin))};
}

/* The error with each sub-block's own optimum rounded to integers. */
static float glance(const struct kind *k, const struct sub *subs, struct outer u)
{
    const struct pith_kquant *t = k->t;
    float y[SUB], e = 0.0f;
    for (unsigned i = 0; i < k->subs; i++) {
        const int scale = clamp_int(subs[i].s / u.d, t->scale_least, t->scale_most),
                  minimum = u.dmin > 0.0f ? clamp_int(-subs[i].o / u.dmin, 0, t->min_most) : 0;
        e += attempt(k, &subs[i], u.d * (float)scale, -(u.dmin * (float)minimum), y);
    }
    return e;
}

/* The best few of the candidates for d and dmin are followed downhill. */
static void fit_outer(const struct kind *k, struct sub *subs, struct best *best)
{
    enum { FOUND = 2 };
    const struct outer ends = ends_of(k, subs);
    struct outer found[FOUND] = {{0}};
    float error[FOUND];
    for (int n = 0; n < FOUND; n++) error[n] = INFINITY;
    for (int i = -1; i < 5; i++)
        for (int j = k->t->min_most ? -1 : 0; j < (k->t->min_most ? 3 : 1); j++) {
            const struct outer u = lower(k, ends, i, j);
            const float e = glance(k, subs, u);
            const int n = e < error[0] ? 0 : 1;
            if (!(e < error[n])) continue;
            if (n == 0) {
                found[1] = found[0];
                error[1] = error[0];
            }
            found[n] = u;
            error[n] = e;
        }
    for (int n = 0; n < FOUND; n++)
        if (error[n] < INFINITY) settle(k, subs, found[n], best);
}

static void fit_two_levels(const struct kind *k, struct sub *subs, struct pith_kblock *out)
{
    struct best best = {.error = INFINITY};
    fit_outer(k, subs, &best);
    if (best.error == INFINITY) best.u.d = INFINITY; /* nothing was a number */
    const bool none = best.u.d == 0.0f;              /* weights of zero: of one sign too */
    out->d = none ? 0.0f : best.u.d;
    out->dmin = best.u.dmin;
    for (unsigned i = 0; i < k->subs; i++) {
        out->scale[i] = none ? 0.0f : out->d * (float)best.scale[i];
        if (k->t->minimums) out->offset[i] = -(out->dmin * (float)best.minimum[i]);
    }
}

/* --- one level -------------------------------------------------------------------------------- */

/* A half next to the optimum, and the other half of a pair anew for it. */
static void fit_one_level(const struct kind *k, struct sub *b, struct pith_kblock *out)
{
    float y[SUB], best = INFINITY;
    const float s = half(b->s), o = half(b->o);
    out->scale[0] = s;
    out->offset[0] = o;
    for (int i = -1; i <= 1; i++)
        for (int j = k->t->minimums ? -1 : 0; j <= (k->t->minimums ? 1 : 0); j++) {
            const float ss = half(s * (1.0f + 0x1p-10f * (float)i)),
                        oo = half(o * (1.0f + 0x1p-10f * (float)j));
            const float e = attempt(k, b, ss, oo, y);
            if (!(e < best)) continue;
            best = e;
            out->scale[0] = ss;
            out->offset[0] = oo;
        }
    if (best == INFINITY) out->scale[0] = INFINITY; /* nothing was a number */
}

void pith_kfit(const struct pith_kquant *t, const struct pith_kern *kern, const float *w,
               const float *importance, struct pith_kblock *out)
{
    const struct kind k = kind_of(t, kern);
    struct sub subs[PITH_KSUBS];
    float ones[SUB];
    for (unsigned i = 0; i < SUB; i++) ones[i] = 1.0f;
    *out = (struct pith_kblock){.d = 0.0f};
    for (unsigned i = 0; i < k.subs; i++) {
        subs[i] = (struct sub){.w = w + i * k.n, .h = importance ? importance + i * k.n : ones};
        fit_alone(&k, &subs[i]);
    }
    if (t->scale_most) fit_two_levels(&k, subs, out);
    else fit_one_level(&k, &subs[0], out);
}
