/* Every kernel of packed panels that this CPU can run against the scalar one: the same bits, for
 * all forms, types of scale, group sizes and tails, on memory that ends, or begins, at a page that
 * may not be touched. */
#define _DEFAULT_SOURCE
#include "fenced.h"
#include "kern/ops.h"
#include "num/format.h"

enum { PANELS = 7, COLS = 264 };

/* A finite code: FP8 has some that are not. */
static uint8_t code(enum pith_panel_form form)
{
    for (;;) {
        const uint8_t c = (uint8_t)pith_rng_next(&rng);
        if (form == PITH_PANEL_E4M3 && (c & 0x7f) == 0x7f) continue;
        if (form == PITH_PANEL_E5M2 && (c & 0x7c) == 0x7c) continue;
        return c;
    }
}

static void fill_scales(enum pith_panel_scale kind, size_t count, char *to)
{
    for (size_t i = 0; i < count; i++) {
        const float f = (float)(pith_rng_normal(&rng) * 0.01);
        const uint16_t bf16 = pith_f32_to_bf16(f), f16 = pith_f32_to_f16(f);
        const uint8_t power = (uint8_t)pith_rng_below(&rng, 255),
                      small = (uint8_t)pith_rng_below(&rng, 0x7f);
        switch (kind) {
        case PITH_SCALE_F32: memcpy(to + i * 4, &f, 4); break;
        case PITH_SCALE_BF16: memcpy(to + i * 2, &bf16, 2); break;
        case PITH_SCALE_F16: memcpy(to + i * 2, &f16, 2); break;
        case PITH_SCALE_E8M0: memcpy(to + i, &power, 1); break;
        case PITH_SCALE_E4M3: memcpy(to + i, &small, 1); break;
        case PITH_SCALE_PRODUCT: to[i] = (char)pith_rng_next(&rng); break;
        }
    }
}

struct shape {
    enum pith_panel_form form;
    unsigned bits;
    enum pith_panel_scale scale;
    size_t cols, group;
    bool zeros;
};

/* The forms and their widths. */
static const struct {
    enum pith_panel_form form;
    unsigned bits;
} forms[] = {{PITH_PANEL_LEVEL4, 4}, {PITH_PANEL_LEVEL4, 3}, {PITH_PANEL_LEVEL4, 2},
             {PITH_PANEL_INT8, 8},   {PITH_PANEL_INT8, 6},   {PITH_PANEL_INT8, 5},
             {PITH_PANEL_E4M3, 8},   {PITH_PANEL_E5M2, 8}};

/* Whether a matrix of that shape has a panel, which group and block divide. */
static bool is_shape(const struct shape *s)
{
    const size_t step = pith_panel_step(s->bits);
    return s->cols % step == 0 && (s->group % step == 0 || s->group == s->cols);
}
static bool is_block(const struct shape *s, size_t block)
{
    if (block > s->group || (s->group < s->cols && s->group % block != 0)) return false;
    return block == s->cols || block % pith_panel_step(s->bits) == 0;
}

static struct pith_panels panels(const struct shape *s)
{
    const unsigned codes_of = 1u << s->bits;
    struct pith_panels m = {.form = s->form,
                            .bits = s->bits,
                            .scale = s->scale,
                            .cols = s->cols,
                            .group = s->group,
                            .groups = (s->cols + s->group - 1) / s->group,
                            .zero = (float)(codes_of / 2),
                            .global = 0.37f};
    const size_t bytes = PANELS * pith_panel_bytes(&m);
    const size_t scales = PANELS * m.groups * PITH_PANEL_ROWS;
    uint8_t *codes = fenced(0, bytes);
    for (size_t i = 0; i < bytes; i++) codes[i] = code(s->form);
    char *scale = fenced(1, scales * pith_panel_scale_bytes(s->scale));
    fill_scales(s->scale, scales, scale);
    m.codes = codes;
    m.scales = scale;
    if (s->scale == PITH_SCALE_PRODUCT) {
        while (m.outer_shift < 4 && m.groups % (2u << m.outer_shift) == 0) m.outer_shift++;
        const size_t halves = scales >> m.outer_shift;
        char *outer = fenced(6, halves * 2);
        fill_scales(PITH_SCALE_F16, halves, outer);
        m.outer = outer;
    }
    if (s->zeros) {
        uint8_t *zeros = fenced(2, scales);
        for (size_t i = 0; i < scales; i++)
            zeros[i] = (uint8_t)pith_rng_below(&rng, codes_of);
        m.zeros = zeros;
    }
    for (unsigned i = 0; i < 16; i++)
        m.level[i] = (float)(i % codes_of) - (s->zeros ? 0.0f : m.zero);
    return m;
}

static void assert_same(const float *got, const float *want, size_t n, const struct shape *s)
{
    const size_t i = first_unlike(got, want, n);
    if (i < n)
        fail_msg(
            "%s, form %d of %u bits, scale %d, %zu columns in groups of %zu: element %zu is "
            "%a, not %a",
            now, (int)s->form, s->bits, (int)s->scale, s->cols, s->group, i, (double)got[i],
            (double)want[i]);
}

static float *floats(size_t buffer, size_t n)
{
    float *x = fenced(buffer, n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (float)pith_rng_normal(&rng);
    return x;
}

static void check_dot(pith_any_fn *fn, const struct shape *s)
{
    struct pith_panels m = panels(s);
    const float *x = floats(3, s->cols);
    const bool half = s->scale == PITH_SCALE_BF16 || s->scale == PITH_SCALE_F16;
    for (size_t i = 0; i <= 2 * PANELS; i++) {
        const size_t count = i / 2, n = count * PITH_PANEL_ROWS, first = PANELS - count;
        float *want = floats(4, n), *got = fenced(5, n * sizeof *got);
        m.fold = i % 2 && s->form <= PITH_PANEL_E4M3 &&
                 (half || (s->scale == PITH_SCALE_F32 && !s->zeros));
        memcpy(got, want, n * sizeof *got);
        pith_panel_dot_scalar(&m, first, count, x, want);
        ((pith_panel_dot_fn *)fn)(&m, first, count, x, got);
        assert_same(got, want, n, s);
    }
}

/* Levels of FP4 and others, scales near one another and not, x and y over the whole range of
 * floats: where a kernel has a shorter way for what is usual, it must know what is not. */
static void check_dot_levels(pith_any_fn *fn, const struct shape *s)
{
    static const float fp4[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    static const int centers[] = {120, 118, 2, 34, 240, 251, 100, 160};
    static const float sizes[] = {1.0f, 0x1p-70f, 0x1p-110f, 0x1p70f, 0x1p-126f, 0x1p100f};
    struct pith_panels m = panels(s);
    if (s->zeros || s->form == PITH_PANEL_INT8 || s->cols == 8 || s->cols == COLS) return;
    if (s->form == PITH_PANEL_LEVEL4 && s->bits < 4) return; /* integers only */
    const size_t count = PANELS * m.groups * PITH_PANEL_ROWS, n = PANELS * PITH_PANEL_ROWS;
    for (int i = 0; i < 16; i++)
        m.level[i] = pith_rng_below(&rng, 2) ? (i < 8 ? fp4[i] : -fp4[i - 8]) : fp4[i / 2] * 0.3f;
    for (unsigned k = 0; k < 16; k++) {
        float *x = floats(3, s->cols), *want = floats(4, n), *got = fenced(5, n * sizeof *got);
        for (int i = 0; k % 4 && i < 16; i++) m.level[i] = i < 8 ? fp4[i] : -fp4[i - 8];
        for (size_t i = 0; i < count; i++) {
            const int e = centers[k % 8] + (int)pith_rng_below(&rng, k % 3 ? 4 : 12);
            const float f = sizes[k % 6] * (float)pith_rng_normal(&rng);
            if (s->scale == PITH_SCALE_E8M0) ((uint8_t *)(uintptr_t)m.scales)[i] = (uint8_t)e;
            if (s->scale == PITH_SCALE_F32) ((float *)(uintptr_t)m.scales)[i] = f;
        }
        for (size_t i = 0; i < s->cols; i++)
            x[i] = pith_rng_below(&rng, 5) ? x[i] * sizes[k * 5 / 8 % 6] : 0.0f;
        if (k == 9) x[s->cols - 1] = NAN;
        if (k == 10) x[0] = INFINITY;
        if (k % 5) memset(want, 0, n * sizeof *want);
        memcpy(got, want, n * sizeof *got);
        pith_panel_dot_scalar(&m, 0, PANELS, x, want);
        ((pith_panel_dot_fn *)fn)(&m, 0, PANELS, x, got);
        assert_same(got, want, n, s);
    }
}

static void check_offsets_dot(pith_any_fn *fn, const struct shape *s)
{
    if (s->form != PITH_PANEL_INT8 || s->bits != 8) return;
    if (s->scale != PITH_SCALE_F16 || s->zeros) return;
    struct pith_panels m = panels(s);
    m.zero = 0.0f;
    const float *x = floats(3, s->cols);
    for (size_t count = 0; count <= PANELS; count++) {
        const size_t n = count * PITH_PANEL_ROWS, first = PANELS - count;
        float *want = floats(4, n), *got = floats(5, n);
        pith_offsets_dot_scalar(&m, first, count, x, want);
        ((pith_offsets_dot_fn *)fn)(&m, first, count, x, got);
        assert_same(got, want, n, s);
    }
}

static void check_unpack(pith_any_fn *fn, const struct shape *s)
{
    const struct pith_panels m = panels(s);
    const size_t step = pith_panel_step(s->bits);
    for (size_t col = 0; col < s->cols; col += 3 * step) {
        const size_t n = s->cols - col < 5 * step ? s->cols - col : 5 * step, ld = 16 + col % 5;
        float *want = floats(4, (n - 1) * ld + 16), *got = fenced(5, ((n - 1) * ld + 16) * 4);
        memcpy(got, want, ((n - 1) * ld + 16) * 4);
        pith_panel_unpack_scalar(&m, 1, col, n, want, ld);
        ((pith_panel_unpack_fn *)fn)(&m, 1, col, n, got, ld);
        assert_same(got, want, (n - 1) * ld + 16, s);
    }
}

static void compare_dot(pith_any_fn *fn, pith_panel_dot_bytes_fn *ref, const struct pith_panels *m,
                        const struct pith_bytes *x, const struct shape *s)
{
    for (size_t count = 0; count <= PANELS; count++) {
        const size_t n = count * PITH_PANEL_ROWS, first = PANELS - count;
        float *want = floats(4, n), *got = floats(5, n);
        ref(m, first, count, x, want);
        ((pith_panel_dot_bytes_fn *)fn)(m, first, count, x, got);
        assert_same(got, want, n, s);
    }
}

/* All codes those of the greatest integers. */
static void fill_codes(const struct pith_panels *m)
{
    const size_t bytes = PANELS * pith_panel_bytes(m);
    memset(fenced(0, bytes), m->factors ? 0x77 : 0xff, bytes);
}

/* As FP4 is multiplied, or by large factors, code 7 having the greatest. */
static void make_factors(enum pith_panel_factors kind, struct pith_panels *m)
{
    static const uint8_t fp4[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    const bool small = kind == PITH_FACTORS_SMALL;
    m->factors = kind;
    m->zero = small ? PITH_FACTORS_SMALL_ZERO : PITH_FACTORS_LARGE_ZERO;
    m->unit = small ? 0.5f : 1.0f / 112;
    for (int i = 0; i < 16; i++) {
        m->factor[i] = small ? fp4[i] : (uint8_t)pith_rng_below(&rng, 255);
        if (!small && i % 8 == 7) m->factor[i] = i < 8 ? 254 : 0;
        m->level[i] = ((float)m->factor[i] - m->zero) * m->unit;
    }
}

/* The i-th way of reading that a shape has as integers: its own, or by small or large factors. */
enum { WAYS = 3 };
static bool read_as(const struct shape *s, int i, struct pith_panels *m)
{
    if (i == 0) return s->form <= PITH_PANEL_INT8 && pith_panel_scale_wide(s->scale);
    if (s->form != PITH_PANEL_LEVEL4 || s->bits != 4 || s->zeros) return false;
    make_factors(i == 1 ? PITH_FACTORS_SMALL : PITH_FACTORS_LARGE, m);
    return true;
}

static void check_dot_bytes(pith_any_fn *fn, const struct shape *s)
{
    struct pith_panels m = panels(s);
    const size_t sizes[] = {32, 8, s->cols};
    for (int i = 0; i < WAYS * 6; i++) {
        if (i % 6 == 0 && !read_as(s, i / 6, &m)) {
            i += 5;
            continue;
        }
        const size_t block = sizes[i % 3];
        if (!is_block(s, block)) continue;
        const size_t blocks = (s->cols + block - 1) / block;
        float *scale = fenced(7, blocks * sizeof *scale), *values = floats(4, s->cols);
        int32_t *sum = fenced(8, blocks * sizeof *sum);
        int8_t *q = fenced(3, s->cols);
        if (i % 6 == 3) fill_codes(&m);
        for (size_t c = 0; i % 6 >= 3 && c < s->cols; c++) values[c] = s->zeros ? 1.0f : -1.0f;
        pith_to_bytes_scalar(s->cols, block, values, q, scale, sum);
        const struct pith_bytes x = {.block = block, .q = q, .scale = scale, .sum = sum};
        compare_dot(fn, pith_panel_dot_bytes_scalar, &m, &x, s);
    }
}

static void check_dot_digits(pith_any_fn *fn, const struct shape *s)
{
    static const size_t sizes[] = {32, 128, 64, PITH_DIGITS_BLOCK};
    if (s->form > PITH_PANEL_INT8 || !pith_panel_scale_wide(s->scale)) return;
    const struct pith_panels m = panels(s);
    int8_t *q = fenced(3, PITH_DIGITS * s->cols);
    for (size_t i = 0; i < PITH_COUNT(sizes); i++) {
        const size_t block = sizes[i], blocks = (s->cols + block - 1) / block;
        float *scale = fenced(7, blocks * sizeof *scale);
        int32_t *sum = fenced(8, PITH_DIGITS * blocks * sizeof *sum);
        if (s->group % block != 0 && m.groups > 1) continue;
        pith_to_digits_scalar(s->cols, block, floats(4, s->cols), q, s->cols, scale, sum, blocks);
        const struct pith_bytes x = {block, q, scale, sum, s->cols, blocks};
        compare_dot(fn, pith_panel_dot_digits_scalar, &m, &x, s);
        fill_codes(&m);
        for (size_t d = 0; d < PITH_DIGITS; d++) {
            const int least = d < 2 ? -128 : -127;
            memset(q + d * s->cols, least, s->cols);
            for (size_t c = 0; c < s->cols; c += block)
                sum[d * blocks + c / block] = least *
                                              (int32_t)(s->cols - c < block ? s->cols - c : block);
        }
        compare_dot(fn, pith_panel_dot_digits_scalar, &m, &x, s);
    }
}

/* Some of x are as odd[kind - 1] says; kind 0: none. Of the last three only 32 in 128 are odd. */
enum { ODD = 8 };
static float *odd_floats(size_t buffer, size_t n, int kind)
{
    static const float odd[ODD] = {0.0f,  1e-35f, INFINITY,   (float)NAN,
                                   3e38f, 0.0f,   (float)NAN, 1e-31f};
    float *x = floats(buffer, n);
    for (size_t i = 0; kind && i < n; i++) {
        const bool is = kind > 5 ? i / 32 % 4 == (size_t)kind % 3 + 1 : i % 11 == 3 || kind < 3;
        if (is) x[i] = odd[kind - 1] * (i % 2 ? -1.0f : 1.0f);
    }
    return x;
}

static void check_to_digits(pith_any_fn *fn, const struct shape *s)
{
    const size_t n = s->cols + s->group % 7, block = s->group, blocks = (n + block - 1) / block;
    for (int kind = 0; kind <= ODD; kind++) {
        const float *x = odd_floats(3, n, kind);
        float *scale = fenced(7, blocks * sizeof *scale), other_scale[COLS * 2];
        const size_t sums = PITH_DIGITS * blocks * sizeof(int32_t);
        int32_t *sum = fenced(8, sums), other_sum[PITH_DIGITS * COLS * 2];
        int8_t *want = fenced(4, PITH_DIGITS * n), *got = fenced(5, PITH_DIGITS * n);
        pith_to_digits_scalar(n, block, x, want, n, other_scale, other_sum, blocks);
        ((pith_to_digits_fn *)fn)(n, block, x, got, n, scale, sum, blocks);
        assert_memory_equal(got, want, PITH_DIGITS * n);
        assert_memory_equal(sum, other_sum, sums);
        assert_same(scale, other_scale, blocks, s);
    }
}

static void check_to_bytes(pith_any_fn *fn, const struct shape *s)
{
    const size_t n = s->cols + s->group % 7, block = s->group, blocks = (n + block - 1) / block;
    for (int kind = 0; kind <= ODD; kind++) {
        const float *x = odd_floats(3, n, kind);
        float *scale = fenced(7, blocks * sizeof *scale), other_scale[COLS * 2];
        int32_t *sum = fenced(8, blocks * sizeof *sum), other_sum[COLS * 2];
        int8_t *want = fenced(4, n), *got = fenced(5, n);
        pith_to_bytes_scalar(n, block, x, want, other_scale, other_sum);
        ((pith_to_bytes_fn *)fn)(n, block, x, got, scale, sum);
        assert_memory_equal(got, want, n);
        assert_memory_equal(sum, other_sum, blocks * sizeof *sum);
        assert_same(scale, other_scale, blocks, s);
    }
}

/* The columns of a word end up where the layout wants them. */
static void check_to_nibbles(pith_any_fn *fn, const struct shape *s)
{
    const size_t n = s->cols + s->group % 9;
    uint32_t *words = fenced(3, n * sizeof *words), before[COLS + 9];
    for (size_t i = 0; i < n; i++) before[i] = words[i] = (uint32_t)pith_rng_next(&rng);
    ((pith_to_nibbles_fn *)fn)(n, words);
    for (size_t i = 0; i < n; i++)
        for (unsigned c = 0; c < 8; c++)
            assert_int_equal(words[i] >> (c % 4 * 8 + c / 4 * 4) & 15, before[i] >> c * 4 & 15);
}

/* The tile of a tier with its own unpacking, columns in pieces, against the definition of the
 * product of one vector. */
enum { MOST_ROWS = PITH_BYTES_ROWS_MAX, MOST_PANELS = PITH_BYTES_COLS_MAX / PITH_PANEL_ROWS };

struct tile_case {
    const struct pith_kernel *k;
    const struct pith_kern *tier;
    struct pith_panels m;
    size_t block, blocks;
    size_t digits; /* 1: bytes */
    size_t count;  /* vectors that are wanted */
    bool few;      /* tiles, as its unpacking is told */
    int8_t q[MOST_ROWS][PITH_DIGITS][COLS];
    float scale[MOST_ROWS][COLS];
    int32_t sum[MOST_ROWS][PITH_DIGITS][COLS];
    /* All between fences. */
    uint32_t *x;
    uint8_t *codes;
    float *w_scale, *x_scale, *y, *t;
    int32_t *w_zero, *x_less, *d;
};

/* Vector r as bytes or digits; greatest: as great as can be. */
static void tile_row(struct tile_case *c, size_t r, bool greatest)
{
    const size_t rows = c->k->tile_rows, cols = c->m.cols;
    float *x = floats(4, cols);
    for (size_t i = 0; greatest && i < cols; i++) x[i] = r % 2 ? 1.0f : -1.0f;
    if (r % 5 == 4) x[cols / 2] = r % 2 ? INFINITY : (float)NAN;
    if (c->digits == 1)
        pith_to_bytes_scalar(cols, c->block, x, c->q[r][0], c->scale[r], c->sum[r][0]);
    else
        pith_to_digits_scalar(cols, c->block, x, c->q[r][0], COLS, c->scale[r], c->sum[r][0], COLS);
    for (size_t b = 0; b < c->blocks; b++) {
        c->x_scale[b * rows + r] = c->scale[r][b];
        for (size_t k = 0; k < c->digits; k++)
            c->x_less[(b * rows + r) * c->digits + k] = -c->sum[r][k][b] *
                                                        (c->m.zeros ? 1 : (int32_t)c->m.zero);
    }
}

static void tile_fill(struct tile_case *c, bool greatest)
{
    const size_t rows = c->k->tile_rows, cols = c->m.cols;
    if (greatest) fill_codes(&c->m);
    const size_t sums = rows * c->k->tile_cols * 4;
    c->x = fenced(5, rows * cols * (c->digits == 1 ? 1 : PITH_DIGITS_WORDS));
    c->x_scale = fenced(9, c->blocks * rows * sizeof *c->x_scale);
    c->x_less = fenced(10, c->blocks * rows * c->digits * sizeof *c->x_less);
    c->y = fenced(14, sums);
    c->t = fenced(15, sums);
    c->d = fenced(16, sums);
    for (size_t r = 0; r < rows; r++) tile_row(c, r, greatest);
    for (size_t r = 0, n; r < rows; r += n) {
        n = rows - r < 3 ? rows - r : 3;
        int8_t *q = fenced(3, n * c->digits * cols), *to = q;
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < c->digits; k++, to += cols) memcpy(to, c->q[r + i][k], cols);
        if (c->digits == 1) c->tier->bytes_words(cols / 4, r, n, q, c->x);
        else c->tier->digits_words(cols / 4, r, n, q, c->x);
    }
}

static float scale_of(const struct pith_panels *m, size_t index)
{
    return pith_panel_scale_at(m, index) * (m->factors ? m->unit : 1.0f);
}

/* Columns [col, col + n) of the first panels. */
static void tile_step(struct tile_case *c, size_t col, size_t n)
{
    const struct pith_panels *m = &c->m;
    const size_t panels = c->k->tile_cols / PITH_PANEL_ROWS, first = col / m->group;
    const size_t last = (col + n - 1) / m->group, codes = n / 4 * PITH_BYTES_LINE,
                 each = (last - first + 1) * PITH_PANEL_ROWS;
    const uint8_t *w[PITH_TILE_PANELS] = {NULL};
    c->codes = fenced(11, panels * codes);
    c->w_scale = fenced(12, panels * each * sizeof *c->w_scale);
    c->w_zero = fenced(13, panels * each * sizeof *c->w_zero);
    for (size_t p = 0; p < panels; p++) {
        w[p] = (c->digits == 1 ? c->tier->bytes_unpack : c->tier->digits_unpack)(
            m, p, col, n, c->few, c->codes + p * codes);
        for (size_t g = first; g <= last; g++)
            for (size_t r = 0; r < PITH_PANEL_ROWS; r++) {
                const size_t from = (p * m->groups + g) * PITH_PANEL_ROWS + r;
                const size_t to = p * each + (g - first) * PITH_PANEL_ROWS + r;
                c->w_scale[to] = scale_of(m, from);
                c->w_zero[to] = m->zeros ? m->zeros[from] : 0;
            }
    }
    const struct pith_byte_tile a = {.form = pith_panel_tile_form(m),
                                     .factors = m->factors,
                                     .cols = m->cols,
                                     .group = m->group,
                                     .block = c->block,
                                     .col = col,
                                     .n = n,
                                     .count = c->count,
                                     .adjacent = PITH_TILE_PANELS,
                                     .w = {w[0], w[1]},
                                     .stored = w[0] != c->codes,
                                     .factor = m->factor,
                                     .middle = (int32_t)m->zero,
                                     .scale = c->w_scale,
                                     .zero = m->zeros ? c->w_zero : NULL,
                                     .scale_panel = each,
                                     .x = c->x,
                                     .x_scale = c->x_scale,
                                     .x_less = c->x_less,
                                     .y = c->y,
                                     .t = c->t,
                                     .d = c->d};
    ((pith_bytes_tile_fn *)c->k->fn)(&a);
}

static void tile_check(struct tile_case *c, const struct shape *s)
{
    float want[PITH_BYTES_COLS_MAX];
    for (size_t r = 0; r < c->count; r++) {
        const struct pith_bytes x = {.block = c->block,
                                     .q = c->q[r][0],
                                     .scale = c->scale[r],
                                     .sum = c->sum[r][0],
                                     .q_digit = COLS,
                                     .sum_digit = COLS};
        const size_t panels = c->k->tile_cols / PITH_PANEL_ROWS;
        if (c->digits == 1) pith_panel_dot_bytes_scalar(&c->m, 0, panels, &x, want);
        else pith_panel_dot_digits_scalar(&c->m, 0, panels, &x, want);
        assert_same(c->y + r * c->k->tile_cols, want, c->k->tile_cols, s);
    }
}

/* All columns, `step` at a time. */
static void tile_run(struct tile_case *c, const struct shape *s, size_t step)
{
    for (size_t e = 0; e < c->k->tile_rows * c->k->tile_cols; e++) {
        c->y[e] = c->t[e] = (float)NAN;
        c->d[e] = -7;
    }
    for (size_t col = 0; col < s->cols; col += step)
        tile_step(c, col, s->cols - col < step ? s->cols - col : step);
    tile_check(c, s);
}

static void check_tile(const struct pith_kernel *k, const struct pith_kern *tier, bool digits,
                       const struct shape *s, int how)
{
    const size_t sizes[] = {32, 64, 8, 128, s->cols, s->cols}; /* the last by the greatest */
    struct tile_case *c = pith_zalloc(1, sizeof *c);
    assert_non_null(c);
    *c = (struct tile_case){.k = k, .tier = tier, .m = panels(s), .digits = digits ? 3 : 1};
    for (int i = 0; i < 6 && read_as(s, how, &c->m); i++) {
        const size_t block = digits && sizes[i] > PITH_DIGITS_BLOCK ? PITH_DIGITS_BLOCK : sizes[i];
        const size_t least = pith_panel_has_planes(s->bits) ? PITH_PANEL_STEP : 8;
        const size_t steps[] = {s->cols, digits ? 2 * block : 5 * least, digits ? block : least};
        c->block = block;
        c->blocks = (s->cols + block - 1) / block;
        if (!is_block(s, block)) continue;
        tile_fill(c, i == 5);
        const size_t most = i / 2 % 2 ? (k->tile_rows + 1) / 2 : k->tile_rows;
        c->count = most - (size_t)i % most;
        c->few = i % 2;
        tier->tiles_open(pith_bytes_step(block));
        for (int j = 0; j < 3; j++) tile_run(c, s, steps[j]);
        tier->tiles_close();
    }
    pith_free(c);
}

/* All shapes if thorough; else one in seven, which no count of forms, scales, columns or groups
 * divides, or, behind a fence, in thirteen. */
static bool is_wanted(unsigned *shape)
{
    return (*shape)++ % (behind_fence ? 13 : 7) == 0 || test_thorough();
}

/* Tiles are checked with the unpacking of the same row of the table's tier. */
static void tiles_equal_the_product_of_one_vector(void **state)
{
    (void)state;
    static const size_t cols[] = {8, 64, 144, 136, COLS}, groups[] = {8, 16, 32, 64, 128, COLS};
    for (size_t i = 0; i < pith_kernel_count; i++) {
        const struct pith_kernel *k = &pith_kernels[i];
        const bool digits = k->op == PITH_OP_digits_tile;
        struct pith_kern tier;
        unsigned shape = 0;
        if (k->op != PITH_OP_bytes_tile && !digits) continue;
        if ((k->isa & pith_cpu_detect()) != k->isa) continue;
        now = k->name;
        pith_kern_select(k->isa, &tier);
        assert_true((digits ? (pith_any_fn *)tier.digits_tile : (pith_any_fn *)tier.bytes_tile) ==
                    k->fn);
        assert_int_equal(digits ? tier.digits_rows : tier.bytes_rows, k->tile_rows);
        assert_int_equal(digits ? tier.digits_cols : tier.bytes_cols, k->tile_cols);
        assert_true(k->tile_rows <= MOST_ROWS && k->tile_cols <= PITH_BYTES_COLS_MAX);
        for (size_t form = 0; forms[form].form <= PITH_PANEL_INT8; form++)
            for (int scale = 0; scale <= PITH_SCALE_E4M3; scale++)
                for (int c = 0; c < 5; c++)
                    for (int g = 0; g < 6; g++)
                        for (int how = 0; how <= WAYS; how++) {
                            const struct shape s = {
                                forms[form].form, forms[form].bits, (enum pith_panel_scale)scale,
                                cols[c], groups[g] < cols[c] ? groups[g] : cols[c], how == WAYS};
                            if (!is_shape(&s) || (how % WAYS > 0 && digits)) continue;
                            if (!is_wanted(&shape)) continue;
                            check_tile(k, &tier, digits, &s, how % WAYS);
                        }
    }
    now = NULL;
}

typedef void check_fn(pith_any_fn *fn, const struct shape *s);

static void every_shape(check_fn *check, pith_any_fn *fn)
{
    static const size_t cols[] = {8, 16, 64, 144, 136, COLS}, groups[] = {8, 16, 32, 64, 128, COLS};
    struct shape s;
    unsigned shape = 0;
    for (size_t form = 0; form < PITH_COUNT(forms); form++)
        for (int scale = 0; scale <= PITH_SCALE_PRODUCT; scale++)
            for (int c = 0; c < 6; c++)
                for (int g = 0; g < 6; g++)
                    for (int zeros = 0; zeros <= (forms[form].form <= PITH_PANEL_INT8); zeros++) {
                        s = (struct shape){forms[form].form, forms[form].bits,
                                           (enum pith_panel_scale)scale, cols[c],
                                           groups[g] < cols[c] ? groups[g] : cols[c], zeros != 0};
                        if (is_shape(&s) && is_wanted(&shape)) check(fn, &s);
                    }
}

static void every_kernel_equals_scalar(void **state)
{
    (void)state;
    static const struct {
        enum pith_op op;
        check_fn *check;
    } checks[] = {{PITH_OP_panel_dot, check_dot},
                  {PITH_OP_panel_dot, check_dot_levels},
                  {PITH_OP_offsets_dot, check_offsets_dot},
                  {PITH_OP_panel_dot_bytes, check_dot_bytes},
                  {PITH_OP_panel_unpack, check_unpack},
                  {PITH_OP_to_bytes, check_to_bytes},
                  {PITH_OP_panel_dot_digits, check_dot_digits},
                  {PITH_OP_to_digits, check_to_digits},
                  {PITH_OP_to_nibbles, check_to_nibbles}};
    for (size_t i = 0; i < pith_kernel_count; i++) {
        const struct pith_kernel *k = &pith_kernels[i];
        if ((k->isa & pith_cpu_detect()) != k->isa) continue;
        now = k->name;
        for (size_t j = 0; j < PITH_COUNT(checks); j++)
            if (checks[j].op == k->op) every_shape(checks[j].check, k->fn);
    }
    now = NULL;
}

/* The definition itself against sums in double of decoded weights. */
static void check_definition(const struct shape s, enum pith_panel_factors factors)
{
    struct pith_panels m = panels(&s);
    if (factors) make_factors(factors, &m);
    const float *x = floats(3, s.cols);
    float w[256 * 16], exact[16] = {0}, digits[16], fast[16], scale[8];
    int32_t sum[PITH_DIGITS * 8];
    int8_t q[PITH_DIGITS * 256];
    pith_panel_unpack_scalar(&m, 2, 0, 256, w, 16);
    pith_panel_dot_scalar(&m, 2, 1, x, exact);
    const struct pith_bytes bytes = {32, q, scale, sum, 256, 8},
                            whole = {64, q, scale, sum, 256, 8};
    pith_to_digits_scalar(256, 64, x, q, 256, scale, sum, 8);
    if (!factors) pith_panel_dot_digits_scalar(&m, 2, 1, &whole, digits);
    pith_to_bytes_scalar(256, 32, x, q, scale, sum);
    pith_panel_dot_bytes_scalar(&m, 2, 1, &bytes, fast);
    for (size_t r = 0; r < 16; r++) {
        double want = 0, rounded = 0, size = 0;
        for (size_t c = 0; c < 256; c++) {
            want += (double)w[c * 16 + r] * (double)x[c];
            rounded += (double)w[c * 16 + r] * (double)q[c] * (double)scale[c / 32];
            size += fabs((double)w[c * 16 + r] * (double)x[c]);
        }
        assert_true(fabs((double)exact[r] - want) <= 1e-6 * size);
        if (!factors) assert_true(fabs((double)digits[r] - want) <= 1e-6 * size);
        assert_true(fabs((double)fast[r] - rounded) <= 1e-6 * size);
        assert_true(fabs(rounded - want) <= 0.01 * size);
    }
}

/* Words of random codes, packed, are what they were, and take the bytes that the width tells. */
static void a_step_of_planes_holds_its_codes(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(forms); i++) {
        const unsigned bits = forms[i].bits;
        if (!pith_panel_has_planes(bits)) continue;
        uint8_t words[PITH_PANEL_WORDS][PITH_PANEL_LINE];
        const size_t bytes = pith_panel_span(bits, PITH_PANEL_STEP);
        assert_int_equal(bytes, 32 * bits);
        uint8_t *to = fenced(0, bytes);
        for (size_t k = 0; k < PITH_PANEL_WORDS; k++)
            for (size_t at = 0; at < PITH_PANEL_LINE; at++)
                words[k][at] = (uint8_t)pith_rng_below(&rng, 1u << bits);
        pith_panel_put_step(bits, (const uint8_t(*)[PITH_PANEL_LINE])words, to);
        const struct pith_panels m = {.bits = bits, .cols = PITH_PANEL_STEP, .codes = to};
        for (size_t r = 0; r < PITH_PANEL_ROWS; r++)
            for (size_t c = 0; c < PITH_PANEL_STEP; c++)
                assert_int_equal(pith_panel_code_at(&m, 0, r, c), words[c / 4][r * 4 + c % 4]);
    }
}

static void the_definition_is_a_product(void **state)
{
    (void)state;
    check_definition((struct shape){PITH_PANEL_LEVEL4, 4, PITH_SCALE_BF16, 256, 64, true},
                     PITH_FACTORS_NONE);
    check_definition((struct shape){PITH_PANEL_LEVEL4, 4, PITH_SCALE_E4M3, 256, 32, false},
                     PITH_FACTORS_SMALL);
    check_definition((struct shape){PITH_PANEL_LEVEL4, 4, PITH_SCALE_BF16, 256, 64, false},
                     PITH_FACTORS_LARGE);
    for (size_t i = 0; i < PITH_COUNT(forms); i++)
        if (pith_panel_has_planes(forms[i].bits))
            check_definition(
                (struct shape){forms[i].form, forms[i].bits, PITH_SCALE_F16, 256, 64, i % 2 != 0},
                PITH_FACTORS_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCED_TEST(every_kernel_equals_scalar),
        FENCED_TEST(tiles_equal_the_product_of_one_vector),
        FENCED_TEST(a_step_of_planes_holds_its_codes),
        FENCED_TEST(the_definition_is_a_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
