/* Every row of kernels.def that this CPU can run, against the scalar row of its operation: the
 * same bits, for all small lengths, in buffers that end, and others that begin, where reading
 * faults. A new row is tested without an edit here. */
#define _DEFAULT_SOURCE
#include "fenced.h"
#include "grid_checks.h"
#include "kern/grid.h"
#include "kern/ops.h"
#include "kern/trellis.h"
#include "num/format.h"

enum { LONGEST = 300 };

static uint8_t *random_bytes(size_t buffer, size_t n)
{
    uint8_t *x = fenced(buffer, n);
    for (size_t i = 0; i < n; i++) x[i] = (uint8_t)pith_rng_next(&rng);
    return x;
}

typedef void check_fn(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                      enum fill kind);

static void check_gemm_tile(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                            enum fill kind)
{
    (void)ref; /* tiles differ in shape: the formula of ops.h itself is the reference */
    const size_t rows = k->tile_rows, cols = k->tile_cols, ldb = cols + n % 3, ldc = cols + n % 5;
    const size_t bn = n ? (n - 1) * ldb + cols : 0, cn = (rows - 1) * ldc + cols;
    assert_true(rows <= PITH_TILE_ROWS_MAX && cols <= PITH_TILE_COLS_MAX);
    const float *a = fresh(0, n * rows, kind), *b = fresh(1, bn, kind);
    for (int mode = PITH_TILE_SET; mode <= PITH_TILE_SCALE; mode++) {
        float *want = fresh(2, cn, kind), *got = same(3, want, cn);
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++) {
                float *c = &want[i * ldc + j], s = mode == PITH_TILE_ADD ? *c : 0.0f;
                for (size_t p = 0; p < n; p++) s = fmaf(a[p * rows + i], b[p * ldb + j], s);
                *c = mode == PITH_TILE_SCALE ? fmaf(0.3f, s, *c) : s;
            }
        ((pith_gemm_tile_fn *)k->fn)(n, a, b, ldb, got, ldc, (enum pith_tile_mode)mode, 0.3f);
        assert_bits(got, want, cn, n);
    }
}

/* transpose and copy_rows */
static void check_move(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                       enum fill kind)
{
    const bool turn = k->op == PITH_OP_transpose;
    for (size_t rows = 0; rows <= 18; rows++) {
        const size_t ls = n + rows % 2, ld = turn ? rows + n % 2 : n + rows % 3;
        const size_t sn = rows && n ? (rows - 1) * ls + n : 0;
        const size_t dn = !rows || !n ? 0 : turn ? (n - 1) * ld + rows : (rows - 1) * ld + n;
        const float *src = fresh(0, sn, kind);
        float *want = fresh(1, dn, kind), *got = same(2, want, dn);
        ((pith_transpose_fn *)ref->fn)(rows, n, src, ls, want, ld);
        ((pith_transpose_fn *)k->fn)(rows, n, src, ls, got, ld);
        assert_bits(got, want, dn, n);
    }
}

static void check_dot_acc(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                          enum fill kind)
{
    const float *x = fresh(0, n, kind), *y = fresh(1, n, kind);
    float *want = fresh(2, PITH_LANES, kind), *got = same(3, want, PITH_LANES);
    ((pith_dot_acc_fn *)ref->fn)(n, x, y, want);
    ((pith_dot_acc_fn *)k->fn)(n, x, y, got);
    assert_bits(got, want, PITH_LANES, n);
}

/* Weights of `bytes` each, at an odd address. */
static const void *weights(size_t n, size_t bytes, int f16, enum fill kind)
{
    char *w = fenced(4, n * bytes + 1);
    for (size_t i = 0; i < n; i++) {
        const float f = value(kind);
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        if (bytes == 4) {
            memcpy(w + i * 4, &f, 4);
            continue;
        }
        const uint16_t h = f16 ? (uint16_t)pith_rng_below(&rng, 0x7c00) : (uint16_t)(u >> 16);
        memcpy(w + i * 2, &h, 2);
    }
    return w;
}

static void check_matvec(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                         enum fill kind)
{
    const size_t bytes = k->op == PITH_OP_matvec_f32 || k->op == PITH_OP_lanes_f32 ? 4 : 2;
    const float *x = fresh(0, n, kind);
    const bool f16 = k->op == PITH_OP_matvec_f16 || k->op == PITH_OP_lanes_f16;
    for (size_t rows = 0; rows <= 80; rows += rows < 9 ? 1 : rows % 16 + 7) {
        const size_t ldw = n + rows % 2, count = rows ? (rows - 1) * ldw + n : 0;
        const void *w = weights(count, bytes, f16, kind);
        float *want = fresh(1, rows, kind), *got = same(2, want, rows);
        ((pith_matvec_f32_fn *)ref->fn)(rows, n, w, ldw, x, want);
        ((pith_matvec_f32_fn *)k->fn)(rows, n, w, ldw, x, got);
        assert_bits(got, want, rows, n);
    }
}

static void check_levels_unpack(const struct pith_kernel *k, const struct pith_kernel *ref,
                                size_t n, enum fill kind)
{
    float *level = fenced(0, 16 * sizeof *level);
    for (unsigned bits = 3; bits <= 4; bits++) {
        const uint8_t *codes = random_bytes(1, (n * bits + 7) / 8);
        for (size_t i = 0; i < 16; i++) level[i] = bits == 3 && i >= 8 ? level[i - 8] : value(kind);
        float *want = fresh(2, n, kind), *got = same(3, want, n);
        ((pith_levels_unpack_fn *)ref->fn)(bits, n, codes, level, want);
        ((pith_levels_unpack_fn *)k->fn)(bits, n, codes, level, got);
        assert_bits(got, want, n, n);
    }
}

static void check_trellis_decode(const struct pith_kernel *k, const struct pith_kernel *ref,
                                 size_t n, enum fill kind)
{
    const enum pith_trellis_code code = (enum pith_trellis_code)(n % PITH_TRELLIS_CODES);
    const unsigned bits = (unsigned)(n / PITH_TRELLIS_CODES % 8 + 1);
    const size_t ld = 16 + n % 5, size = 15 * ld + 16;
    const uint8_t *tile = random_bytes(0, pith_trellis_bytes(bits));
    float *want = fresh(1, size, kind), *got = same(2, want, size);
    ((pith_trellis_decode_fn *)ref->fn)(code, bits, tile, want, ld);
    ((pith_trellis_decode_fn *)k->fn)(code, bits, tile, got, ld);
    assert_bits(got, want, size, n);
}

/* Random words of a kernel's: floats, or bytes each as often as it has them. */
static void fill_words(enum pith_op op, float *x, size_t words, enum fill kind)
{
    for (size_t i = 0; i < words; i++) {
        const uint32_t a = (uint8_t)(pith_rng_below(&rng, 255) - 127),
                       b = (uint8_t)(pith_rng_below(&rng, 255) - 127);
        if (op == PITH_OP_trellis_bytes) ((uint16_t *)(void *)x)[i] = (uint16_t)(0x101 * a);
        else if (op == PITH_OP_trellis_lanes)
            ((uint32_t *)(void *)x)[i] = 0x101 * a + 0x1010000 * b;
        else x[i] = value(kind);
    }
}

static enum pith_trellis_code code_for(enum pith_op op, size_t n)
{
    return op == PITH_OP_trellis_lanes   ? PITH_TRELLIS_MUL2
           : op == PITH_OP_trellis_bytes ? PITH_TRELLIS_MUL1
           : n % 2 == 0                  ? PITH_TRELLIS_3INST
                                         : PITH_TRELLIS_MCG;
}

/* None to two blocks, of all codes and widths. */
static void check_trellis_count(const struct pith_kernel *k, const struct pith_kernel *ref,
                                size_t n, size_t count, enum fill kind)
{
    enum { LDY = 37 };
    const bool lanes = k->op == PITH_OP_trellis_lanes;
    struct pith_trellis_strip m = {.code = code_for(k->op, n),
                                   .bits = (unsigned)(n / 2 % 8 + 1),
                                   .blocks = (n + count) % 3,
                                   .count = count,
                                   .ldy = LDY};
    m.ld = m.blocks * PITH_TRELLIS_SIDE * pith_trellis_bytes(m.bits);
    const size_t parts = m.blocks * m.count;
    const size_t words = parts * (lanes ? PITH_LANES_STEP : PITH_TRELLIS_STEP);
    float *x = fenced(3, words * sizeof *x);
    const float *scale = fresh(4, parts, kind);
    fill_words(k->op, x, words, kind);
    const size_t out = (m.count - 1) * LDY + PITH_TRELLIS_ROWS * PITH_TRELLIS_TILE;
    float *want = fresh(1, out, kind), *got = same(2, want, out);
    m.tiles = random_bytes(0, PITH_TRELLIS_ROWS * m.ld);
    m.x = x;
    m.scale = k->op == PITH_OP_trellis_floats ? NULL : scale;
    m.y = want;
    ((pith_trellis_bytes_fn *)ref->fn)(&m);
    m.y = got;
    ((pith_trellis_bytes_fn *)k->fn)(&m);
    assert_bits(got, want, out, n);
}

static void check_trellis_rows(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                               enum fill kind)
{
    for (size_t count = 1; count <= 5; count++) check_trellis_count(k, ref, n, count, kind);
    check_trellis_count(k, ref, n, n * 5 / 3 % PITH_TRELLIS_VECTORS + 1, kind);
}

/* Costs like those of a search: nodes that are not reached, and equal ones. */
static void check_trellis_step(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                               enum fill kind)
{
    if (n > 16) return;
    const unsigned bits = (unsigned)(n % 8 + 1);
    const size_t nodes = PITH_TRELLIS_STATES >> bits;
    const size_t size = nodes * sizeof(float);
    float *in = fenced(0, size), *want = fenced(1, size), *got = fenced(2, size);
    float *table = fenced(3, PITH_TRELLIS_STATES * sizeof *table);
    uint8_t *want_from = fenced(4, nodes), *got_from = fenced(5, nodes);
    for (size_t i = 0; i < nodes; i++) {
        in[i] = kind == INTEGERS ? (float)(pith_rng_next(&rng) % 3) : fabsf(value(RANDOM));
        if (pith_rng_next(&rng) % 4 == 0) in[i] = INFINITY;
    }
    for (size_t i = 0; i < PITH_TRELLIS_STATES; i++)
        table[i] = value(kind == INTEGERS ? INTEGERS : RANDOM);
    const float x = table[0] / 2;
    ((pith_trellis_step_fn *)ref->fn)(bits, in, table, x, want, want_from);
    ((pith_trellis_step_fn *)k->fn)(bits, in, table, x, got, got_from);
    assert_bits(got, want, nodes, n);
    assert_memory_equal(want_from, got_from, nodes);
}

static void check_widen(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                        enum fill kind)
{
    const bool fp8 = k->op == PITH_OP_widen_e4m3 || k->op == PITH_OP_widen_e5m2;
    const void *w = fp8 ? random_bytes(4, n) : weights(n, 2, k->op == PITH_OP_widen_f16, kind);
    float *want = fresh(1, n, kind), *got = same(2, want, n);
    ((pith_widen_bf16_fn *)ref->fn)(n, w, want);
    ((pith_widen_bf16_fn *)k->fn)(n, w, got);
    assert_bits(got, want, n, n);
}

static void check_dequant(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                          enum fill kind)
{
    const uint8_t *codes = random_bytes(0, k->op == PITH_OP_dequant_u4 ? (n + 1) / 2 : n);
    const float zero = (float)pith_rng_below(&rng, 256), scale = value(kind);
    float *want = fresh(1, n, kind), *got = same(2, want, n);
    ((pith_dequant_u8_fn *)ref->fn)(n, codes, zero, scale, want);
    ((pith_dequant_u8_fn *)k->fn)(n, codes, zero, scale, got);
    assert_bits(got, want, n, n);
}

static void check_max(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                      enum fill kind)
{
    float *x = fresh(0, n, kind);
    for (size_t i = 0; i < n; i += 7) x[i] = NAN;
    const float want = ((pith_max_fn *)ref->fn)(n, x), got = ((pith_max_fn *)k->fn)(n, x);
    assert_true(want == want);
    if (want != 0.0f) assert_bits(&got, &want, 1, n); /* of zeros, either */
    else assert_true(got == 0.0f);
}

static void check_softmax(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                          enum fill kind)
{
    float *want = fresh(0, n, kind), *got = same(1, want, n);
    ((pith_softmax_fn *)ref->fn)(n, want);
    ((pith_softmax_fn *)k->fn)(n, got);
    assert_bits(got, want, n, n);
}

static void check_narrow(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                         enum fill kind)
{
    /* Infinities, NaNs, ties, the largest; then of float16: ties, its largest number and what is
       above it, its least normal number, ties below that and at its least. */
    static const uint32_t odd[] = {0x7f800000, 0xff800000, 0x7f800001, 0xffc00123, 0x3f808000,
                                   0x3f818000, 0x7f7fffff, 0x00008000, 0x00018000, 0x80000001,
                                   0x3f801000, 0x3f803000, 0x477fe000, 0x477fefff, 0xc77ff000,
                                   0x47800000, 0x38800000, 0x387fe000, 0x33000000, 0x33000001,
                                   0xb3c00000, 0x7fa02000, 0xff801fff};
    float *x = fresh(0, n, kind);
    for (size_t i = 0; i < n; i += 3) memcpy(&x[i], &odd[i / 3 % PITH_COUNT(odd)], sizeof *x);
    char *want = fenced(1, n * 2 + 1), *got = fenced(2, n * 2 + 1); /* at an odd address */
    memset(want, 0x5a, n * 2 + 1);
    memset(got, 0x5a, n * 2 + 1);
    ((pith_narrow_bf16_fn *)ref->fn)(n, x, want);
    ((pith_narrow_bf16_fn *)k->fn)(n, x, got);
    if (memcmp(want, got, n * 2 + 1) != 0) fail_msg("%s, size %zu differs", now, n);
}

static void check_exp_sum(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                          enum fill kind)
{
    float *want = fresh(0, n, kind), max = -INFINITY;
    for (size_t i = 0; i < n; i++) max = fmaxf(max, want[i]);
    if (n > 2) want[n / 2] = -INFINITY; /* a masked key */
    float *got = same(1, want, n);
    const float a = ((pith_exp_sum_fn *)ref->fn)(n, want, max);
    const float b = ((pith_exp_sum_fn *)k->fn)(n, got, max);
    assert_bits(got, want, n, n);
    assert_bits(&b, &a, 1, n);
}

/* n is the dimension; rows and blocks of keys vary, so that every tile and every rest is met. */
static void check_attn_scores(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                              enum fill kind)
{
    if (n > 90) return;
    for (size_t rows = 0; rows <= 19; rows += rows < 9 ? 1 : 5) {
        const size_t blocks = (n + rows) % 4, ldq = n + rows % 2;
        const size_t lds = blocks * PITH_KEYS + rows % 3;
        const size_t qn = rows ? (rows - 1) * ldq + n : 0;
        const size_t sn = rows && blocks ? (rows - 1) * lds + blocks * PITH_KEYS : 0;
        const float *q = fresh(0, qn, kind);
        const void *keys = weights(blocks * n * PITH_KEYS, k->op == PITH_OP_attn_scores_f32 ? 4 : 2,
                                   k->op == PITH_OP_attn_scores_f16, kind);
        float *want = fresh(1, sn, kind), *got = same(2, want, sn);
        ((pith_attn_scores_f32_fn *)ref->fn)(rows, n, blocks, q, ldq, keys, want, lds);
        ((pith_attn_scores_f32_fn *)k->fn)(rows, n, blocks, q, ldq, keys, got, lds);
        assert_bits(got, want, sn, n);
    }
}

/* n is the number of keys. */
static void check_attn_values(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                              enum fill kind)
{
    for (size_t rows = 0; rows <= 19; rows += rows < 9 ? 1 : 5) {
        const size_t dim = 16 * ((n + rows) % 8), ldp = n + rows % 2, ldo = dim + rows % 3;
        const size_t pn = rows ? (rows - 1) * ldp + n : 0;
        const size_t on = rows && dim ? (rows - 1) * ldo + dim : 0;
        const size_t bytes = k->op == PITH_OP_attn_values_f32 ? 4 : 2;
        if (n * dim * bytes > 30 * 4096) continue;
        const float *p = fresh(0, pn, kind);
        const void *v = weights(n * dim, bytes, k->op == PITH_OP_attn_values_f16, kind);
        float *want = fresh(1, on, kind), *got = same(2, want, on);
        ((pith_attn_values_f32_fn *)ref->fn)(rows, n, dim, p, ldp, v, want, ldo);
        ((pith_attn_values_f32_fn *)k->fn)(rows, n, dim, p, ldp, v, got, ldo);
        assert_bits(got, want, on, n);
    }
}

static void check_mix(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                      enum fill kind)
{
    const float *x = fresh(0, n, kind), a = value(kind), b = value(kind);
    float *want = fresh(1, n, kind), *got = same(2, want, n);
    ((pith_mix_fn *)ref->fn)(n, a, b, x, want);
    ((pith_mix_fn *)k->fn)(n, a, b, x, got);
    assert_bits(got, want, n, n);
}

static void check_add(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                      enum fill kind)
{
    const float *x = fresh(0, n, kind);
    float *want = fresh(1, n, kind), *got = same(2, want, n);
    ((pith_add_fn *)ref->fn)(n, x, want);
    ((pith_add_fn *)k->fn)(n, x, got);
    assert_bits(got, want, n, n);
}

static void check_rope_pairs(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                             enum fill kind)
{
    const float *c = fresh(0, n, kind), *s = fresh(1, n, kind);
    float *low = fresh(2, n, kind), *high = fresh(3, n, kind);
    float *got_low = same(5, low, n), *got_high = same(6, high, n);
    ((pith_rope_pairs_fn *)ref->fn)(n, c, s, low, high);
    ((pith_rope_pairs_fn *)k->fn)(n, c, s, got_low, got_high);
    assert_bits(got_low, low, n, n);
    assert_bits(got_high, high, n, n);
}

static void check_silu_mul(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                           enum fill kind)
{
    const float *up = fresh(0, n, kind);
    float *want = fresh(1, n, kind), *got = same(2, want, n);
    ((pith_silu_mul_fn *)ref->fn)(n, want, up);
    ((pith_silu_mul_fn *)k->fn)(n, got, up);
    assert_bits(got, want, n, n);
}

static void check_sumsq(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                        enum fill kind)
{
    const float *x = fresh(0, n, kind);
    assert_double(((pith_sumsq_fn *)k->fn)(n, x), ((pith_sumsq_fn *)ref->fn)(n, x), n);
}

static void check_scale_mul(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                            enum fill kind)
{
    const float *w = fresh(1, n, kind);
    float *x = fresh(0, n, kind), *want = fresh(2, n, kind);
    ((pith_scale_mul_fn *)ref->fn)(n, x, 0.37f, w, want);
    ((pith_scale_mul_fn *)k->fn)(n, x, 0.37f, w, x); /* in place */
    assert_bits(x, want, n, n);
}

static void check_sum_exp(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                          enum fill kind)
{
    const float *x = fresh(0, n, kind);
    float max = -INFINITY;
    for (size_t i = 0; i < n; i++) max = fmaxf(max, x[i]);
    for (double scale = 0; scale < 3; scale = scale * 2 + 0.7)
        assert_double(((pith_sum_exp_fn *)k->fn)(n, x, max, scale),
                      ((pith_sum_exp_fn *)ref->fn)(n, x, max, scale), n);
}

static void check_axmy_f64(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                           enum fill kind)
{
    double *x = fenced(0, n * sizeof *x), *want = fenced(1, n * sizeof *x),
           *got = fenced(2, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = (double)value(kind) / 3;
        got[i] = want[i] = (double)value(kind) / 7;
    }
    ((pith_axmy_f64_fn *)ref->fn)(n, 0.7, x, want);
    ((pith_axmy_f64_fn *)k->fn)(n, 0.7, x, got);
    for (size_t i = 0; i < n; i++) assert_double(got[i], want[i], n);
}

static void check_solve_f64(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                            enum fill kind)
{
    if (n > 70) return; /* the triangle outgrows the buffer */
    const size_t ldt = n + n % 2, count = n * PITH_SOLVE_LANES;
    double *t = fenced(0, (n ? (n - 1) * ldt + n : 0) * sizeof *t);
    double *want = fenced(1, count * sizeof *want), *got = fenced(2, count * sizeof *got);
    for (size_t p = 0; p < n; p++)
        for (size_t j = 0; j <= p; j++) t[p * ldt + j] = (double)value(kind) / 3 + (p == j ? 2 : 0);
    for (size_t i = 0; i < count; i++) got[i] = want[i] = (double)value(kind) / 7;
    ((pith_solve_f64_fn *)ref->fn)(n, t, ldt, want);
    ((pith_solve_f64_fn *)k->fn)(n, t, ldt, got);
    for (size_t i = 0; i < count; i++) assert_double(got[i], want[i], n);
}

static void check_read_lines(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                             enum fill kind)
{
    const void *data = fresh(0, n * 16, kind);
    assert_true(((pith_read_lines_fn *)k->fn)(n, data) == ((pith_read_lines_fn *)ref->fn)(n, data));
}

static void check_peak_f32(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                           enum fill kind)
{
    n %= 8; /* rounds */
    const float x = value(kind), y = value(kind);
    float *want = fresh(0, PITH_PEAK_LANES, kind), *got = same(1, want, PITH_PEAK_LANES);
    ((pith_peak_f32_fn *)ref->fn)(n, x, y, want);
    ((pith_peak_f32_fn *)k->fn)(n, x, y, got);
    assert_bits(got, want, PITH_PEAK_LANES, n);
}

static void check_peak_int8(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                            enum fill kind)
{
    n %= 8; /* rounds */
    (void)kind;
    uint8_t *x = fenced(2, 4);
    int8_t *y = fenced(3, 4);
    uint32_t *want = fenced(0, PITH_PEAK_LANES * sizeof *want), *got;
    for (int i = 0; i < 4; i++) x[i] = (uint8_t)pith_rng_below(&rng, 256);
    for (int i = 0; i < 4; i++) y[i] = (int8_t)((int)pith_rng_below(&rng, 256) - 128);
    for (int i = 0; i < PITH_PEAK_LANES; i++) want[i] = (uint32_t)pith_rng_next(&rng);
    got = memcpy(fenced(1, PITH_PEAK_LANES * sizeof *got), want, PITH_PEAK_LANES * sizeof *got);
    ((pith_peak_int8_fn *)ref->fn)(n, x, y, want);
    ((pith_peak_int8_fn *)k->fn)(n, x, y, got);
    assert_memory_equal(got, want, PITH_PEAK_LANES * sizeof *got);
}

static void check_peak_bf16(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                            enum fill kind)
{
    n %= 8;     /* rounds */
    (void)kind; /* exact sums only */
    uint16_t *x = fenced(2, 2 * sizeof *x), *y = fenced(3, 2 * sizeof *y);
    for (int i = 0; i < 2; i++) {
        x[i] = pith_f32_to_bf16(value(INTEGERS));
        y[i] = pith_f32_to_bf16(value(INTEGERS));
    }
    float *want = fresh(0, PITH_PEAK_LANES, INTEGERS), *got = same(1, want, PITH_PEAK_LANES);
    ((pith_peak_bf16_fn *)ref->fn)(n, x, y, want);
    ((pith_peak_bf16_fn *)k->fn)(n, x, y, got);
    for (int i = 0; i < PITH_PEAK_LANES; i++) assert_true(got[i] == want[i]); /* zeros: any sign */
}

static check_fn *const checks[PITH_OP_COUNT] = {
    [PITH_OP_gemm_tile] = check_gemm_tile,
    [PITH_OP_transpose] = check_move,
    [PITH_OP_dot_acc] = check_dot_acc,
    [PITH_OP_matvec_f32] = check_matvec,
    [PITH_OP_matvec_bf16] = check_matvec,
    [PITH_OP_matvec_f16] = check_matvec,
    [PITH_OP_lanes_f32] = check_matvec,
    [PITH_OP_lanes_f16] = check_matvec,
    [PITH_OP_levels_unpack] = check_levels_unpack,
    [PITH_OP_trellis_decode] = check_trellis_decode,
    [PITH_OP_trellis_step] = check_trellis_step,
    [PITH_OP_trellis_bytes] = check_trellis_rows,
    [PITH_OP_trellis_floats] = check_trellis_rows,
    [PITH_OP_trellis_lanes] = check_trellis_rows,
    [PITH_OP_widen_bf16] = check_widen,
    [PITH_OP_widen_f16] = check_widen,
    [PITH_OP_widen_e4m3] = check_widen,
    [PITH_OP_widen_e5m2] = check_widen,
    [PITH_OP_dequant_u8] = check_dequant,
    [PITH_OP_dequant_u4] = check_dequant,
    [PITH_OP_max] = check_max,
    [PITH_OP_softmax] = check_softmax,
    [PITH_OP_narrow_bf16] = check_narrow,
    [PITH_OP_narrow_f16] = check_narrow,
    [PITH_OP_exp_sum] = check_exp_sum,
    [PITH_OP_attn_scores_f32] = check_attn_scores,
    [PITH_OP_attn_scores_bf16] = check_attn_scores,
    [PITH_OP_attn_scores_f16] = check_attn_scores,
    [PITH_OP_attn_values_f32] = check_attn_values,
    [PITH_OP_attn_values_bf16] = check_attn_values,
    [PITH_OP_attn_values_f16] = check_attn_values,
    [PITH_OP_mix] = check_mix,
    [PITH_OP_add] = check_add,
    [PITH_OP_rope_pairs] = check_rope_pairs,
    [PITH_OP_silu_mul] = check_silu_mul,
    [PITH_OP_sumsq] = check_sumsq,
    [PITH_OP_scale_mul] = check_scale_mul,
    [PITH_OP_sum_exp] = check_sum_exp,
    [PITH_OP_axmy_f64] = check_axmy_f64,
    [PITH_OP_solve_f64] = check_solve_f64,
    [PITH_OP_copy_rows] = check_move,
    [PITH_OP_sumsq_diff] = check_sumsq_diff,
    [PITH_OP_range] = check_range,
    [PITH_OP_grid_round] = check_grid_round,
    [PITH_OP_grid_error] = check_grid_error,
    [PITH_OP_grid_squares] = check_grid_squares,
    [PITH_OP_group_max] = check_group_max,
    [PITH_OP_float_round] = check_float_round,
    [PITH_OP_float_trials] = check_float_trials,
    [PITH_OP_book_round] = check_book_round,
    [PITH_OP_read_lines] = check_read_lines,
    [PITH_OP_peak_f32] = check_peak_f32,
    [PITH_OP_peak_int8] = check_peak_int8,
    [PITH_OP_peak_bf16] = check_peak_bf16,
};

static const struct pith_kernel *reference(enum pith_op op)
{
    for (size_t i = 0; i < pith_kernel_count; i++)
        if (pith_kernels[i].op == op && pith_kernels[i].isa == PITH_CPU_SCALAR)
            return &pith_kernels[i];
    fail_msg("operation %d has no scalar kernel", (int)op);
    return NULL;
}

/* Tested by test_panels.c, test_bf16.c, test_coded.c and test_rows.c. */
static bool elsewhere(enum pith_op op)
{
    return (op >= PITH_OP_panel_dot && op <= PITH_OP_bytes_unpack) ||
           (op >= PITH_OP_bf16_tile && op <= PITH_OP_bf16_pairs) || op == PITH_OP_tiles_open ||
           op == PITH_OP_tiles_close || op == PITH_OP_lanes_panel ||
           (op >= PITH_OP_silu && op <= PITH_OP_mul) ||
           (op >= PITH_OP_scale_keys && op <= PITH_OP_attn_values_bytes);
}

static void every_kernel_equals_scalar(void **state)
{
    (void)state;
    const uint32_t cpu = pith_cpu_detect();
    for (size_t i = 0; i < pith_kernel_count; i++) {
        const struct pith_kernel *k = &pith_kernels[i], *ref = reference(k->op);
        if ((k->isa & cpu) != k->isa) continue;
        now = k->name;
        if (elsewhere(k->op)) continue;
        assert_non_null(checks[k->op]);
        /* What is before a buffer does not depend on the values. */
        for (size_t n = 0; n <= LONGEST; n = n < 40 ? n + 1 : n * 2 + 7)
            for (enum fill kind = 0; kind < FILLS; kind++)
                if (kind == RANDOM || !behind_fence) checks[k->op](k, ref, n, kind);
    }
    now = NULL;
}

static void a_mask_selects_its_tier(void **state)
{
    (void)state;
    struct pith_kern k;
    pith_kern_select(PITH_CPU_SCALAR, &k);
    assert_true(k.gemm_tile == pith_gemm_tile_scalar && k.softmax == pith_softmax_scalar);
    for (size_t i = 0; i < pith_kernel_count; i++) {
        const struct pith_kernel *row = &pith_kernels[i];
        if (row->op != PITH_OP_gemm_tile) continue;
        pith_kern_select(row->isa, &k);
        assert_true((pith_any_fn *)k.gemm_tile == row->fn);
        assert_int_equal(k.tile_rows, row->tile_rows);
        assert_int_equal(k.tile_cols, row->tile_cols);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCED_TEST(every_kernel_equals_scalar),
        cmocka_unit_test(a_mask_selects_its_tier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
