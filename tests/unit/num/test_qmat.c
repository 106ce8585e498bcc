/* num/qmat: bit streams and quantized matrices. */
#include "base/mem.h"
#include "base/rng.h"
#include "num/qmat.h"
#include "test.h"

#include <math.h>

/* One bit at a time: slow and plainly right. */
static unsigned naive_get(const uint8_t *s, size_t index, unsigned bits)
{
    unsigned v = 0;
    for (unsigned i = 0; i < bits; i++) {
        const size_t bit = index * bits + i;
        v |= (s[bit / 8] >> (bit % 8) & 1u) << i;
    }
    return v;
}

static void naive_put(uint8_t *s, size_t index, unsigned bits, unsigned v)
{
    for (unsigned i = 0; i < bits; i++) {
        const size_t bit = index * bits + i;
        s[bit / 8] = (uint8_t)((s[bit / 8] & ~(1u << bit % 8)) | (v >> i & 1u) << bit % 8);
    }
}

/* Streams end exactly where their block of memory ends, so that the sanitizer sees a read past
 * it. */
static void bits_of_all_widths_and_offsets(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 1);
    for (unsigned bits = 1; bits <= 8; bits++)
        for (size_t first = 0; first <= 17; first++)
            for (size_t count = 0; count <= 41; count++) {
                const size_t size = ((first + count) * bits + 7) / 8;
                uint8_t *stream = malloc(size ? size : 1), *want = malloc(size ? size : 1);
                uint8_t *codes = malloc(count ? count : 1), *got = malloc(count ? count : 1);
                for (size_t i = 0; i < size; i++) stream[i] = (uint8_t)pith_rng_next(&rng);
                if (size) memcpy(want, stream, size);
                pith_bits_get(stream, first, bits, count, got);
                for (size_t i = 0; i < count; i++)
                    assert_int_equal(got[i], naive_get(stream, first + i, bits));
                for (size_t i = 0; i < count; i++) {
                    codes[i] = (uint8_t)pith_rng_next(&rng);
                    naive_put(want, first + i, bits, codes[i]);
                }
                pith_bits_put(stream, first, bits, count, codes);
                if (size) assert_memory_equal(stream, want, size);
                free(stream);
                free(want);
                free(codes);
                free(got);
            }
}

/* A matrix with random codes, scales and zeros. */
static struct pith_qmat random_qmat(struct pith_rng *rng, uint32_t rows, uint32_t cols,
                                    const struct pith_grid *grid)
{
    struct pith_error err = {0};
    struct pith_qmat q;
    assert_ok(pith_qmat_init(&q, rows, cols, grid, PITH_F32, &err), err);
    uint8_t *codes = malloc(cols);
    const uint32_t top = (1u << grid->format->bits) - 1;
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t c = 0; c < cols; c++) {
            uint8_t code;
            do code = (uint8_t)(pith_rng_next(rng) & top);
            while (!isfinite(grid->format->decode(code)));
            codes[c] = code;
        }
        pith_qmat_set_codes(&q, r, codes);
    }
    free(codes);
    const size_t scales = pith_qmat_scale_count(&q);
    for (size_t i = 0; i < scales; i++) {
        q.scales[i] = (float)pith_rng_normal(rng);
        if (q.zeros) q.zeros[i] = (uint8_t)(pith_rng_next(rng) & top);
    }
    for (size_t i = 0; q.levels && i < (size_t)rows * (top + 1); i++)
        q.levels[i] = (float)pith_rng_normal(rng);
    return q;
}

static double naive_weight(const struct pith_qmat *q, uint32_t r, uint32_t c)
{
    const unsigned code = naive_get(q->codes + r * q->stride, c, q->format->bits);
    const uint32_t g = q->g_idx ? q->g_idx[c] : c / q->group;
    const size_t i = pith_qmat_scale_index(q, r, g);
    double v = code;
    if (q->format->kind == PITH_KIND_INT) v -= q->zeros ? q->zeros[i] : pow(2, q->format->bits - 1);
    else if (q->levels) v = q->levels[((size_t)r << q->format->bits) + code];
    else v = q->format->decode(code);
    return v * q->scales[i];
}

static void assert_decodes(const struct pith_qmat *q)
{
    for (uint32_t row = 0; row < q->rows; row++)
        for (uint32_t n = 0; n <= q->rows - row; n++) {
            float *out = malloc(((size_t)n * q->cols + 1) * sizeof *out);
            out[(size_t)n * q->cols] = 7;
            pith_qmat_decode(q, row, n, out);
            for (uint32_t r = 0; r < n; r++)
                for (uint32_t c = 0; c < q->cols; c++)
                    assert_true(out[(size_t)r * q->cols + c] == (float)naive_weight(q, row + r, c));
            assert_true(out[(size_t)n * q->cols] == 7);
            free(out);
        }
}

/* Every format with codes, every way to share scales, widths around the borders of groups and
 * chunks. */
static void decode_is_the_formula(void **state)
{
    (void)state;
    static const uint32_t widths[] = {1, 2, 7, 15, 16, 33, 64, 129, 513, 1100};
    static const uint32_t groups[] = {1, 3, 16, 32, 64, 128, 5000};
    struct pith_rng rng;
    pith_rng_seed(&rng, 2);
    size_t count;
    const struct pith_format *formats = pith_formats(&count);
    for (size_t f = 0; f < count; f++) {
        if (!formats[f].decode || formats[f].bits > 8) continue;
        for (size_t w = 0; w < PITH_COUNT(widths); w++)
            for (unsigned variant = 0; variant < 2 * (2 + PITH_COUNT(groups)); variant++) {
                struct pith_grid grid = {.format = &formats[f], .asym = variant & 1};
                if (grid.asym && formats[f].kind != PITH_KIND_INT) continue;
                const unsigned v = variant / 2;
                grid.granularity = v == 0   ? PITH_PER_TENSOR
                                   : v == 1 ? PITH_PER_CHANNEL
                                            : PITH_PER_GROUP;
                if (v > 1) grid.group = groups[v - 2];
                struct pith_qmat q = random_qmat(&rng, 3, widths[w], &grid);
                assert_decodes(&q);
                pith_qmat_free(&q);
            }
    }
}


static struct pith_grid grid_of(const char *text)
{
    struct pith_error err = {0};
    struct pith_grid g;
    assert_ok(pith_grid_parse(text, &g, &err), err);
    return g;
}

static void g_idx_scatters_groups(void **state)
{
    (void)state;
    static const char *const grids[] = {"int4:g32", "int3:g16:asym", "nf4:g64", "fp8_e4m3:g128"};
    struct pith_rng rng;
    pith_rng_seed(&rng, 4);
    for (size_t k = 0; k < PITH_COUNT(grids); k++) {
        const struct pith_grid grid = grid_of(grids[k]);
        struct pith_qmat q = random_qmat(&rng, 3, 700, &grid);
        struct pith_error err = {0};
        q.g_idx = pith_alloc(q.cols, sizeof *q.g_idx);
        for (uint32_t c = 0; c < q.cols; c++) q.g_idx[c] = (uint32_t)pith_rng_below(&rng, q.groups);
        assert_ok(pith_qmat_check(&q, &err), err);
        assert_decodes(&q);
        pith_qmat_free(&q);
    }
}

static void rows_of_codes_come_back(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 5);
    for (unsigned bits = 2; bits <= 8; bits++)
        for (uint32_t cols = 1; cols < 70; cols++) {
            char text[24];
            snprintf(text, sizeof text, "int%u:g32", bits);
            const struct pith_grid grid = grid_of(text);
            struct pith_qmat q = random_qmat(&rng, 4, cols, &grid);
            uint8_t rows[4][70], back[70];
            for (uint32_t r = 0; r < 4; r++) pith_qmat_get_codes(&q, r, rows[r]);
            /* Writing one row leaves the others, and the unused bits stay 0. */
            memset(back, 0xff, sizeof back);
            pith_qmat_set_codes(&q, 2, back);
            const unsigned rest = cols * bits % 8;
            if (rest) assert_int_equal(q.codes[3 * q.stride - 1] >> rest, 0);
            pith_qmat_set_codes(&q, 2, rows[2]);
            for (uint32_t r = 0; r < 4; r++) {
                pith_qmat_get_codes(&q, r, back);
                assert_memory_equal(back, rows[r], cols);
            }
            pith_qmat_free(&q);
        }
}

static void sizes_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
        enum pith_dtype scale;
        size_t bytes; /* in memory: scales are floats there */
        double bits;
    } rows[] = {
        {"int4:g128", 64, 1024, PITH_F16, 64 * (512 + 8 * 4), 4.125},
        {"int4:g128:asym", 64, 1024, PITH_F16, 64 * (512 + 8 * 5), 4.15625},
        {"int8", 64, 1024, PITH_BF16, 64 * (1024 + 4), 8 + 16.0 / 1024},
        {"int8:tensor", 64, 1024, PITH_F32, 64 * 1024 + 4, 8 + 32.0 / 65536},
        {"int3:g128", 2, 200, PITH_F32, 2 * (75 + 8), 3 + 2 * 32.0 / 200},
        {"int3:g128", 2, 3, PITH_F32, 2 * (2 + 4), 3 + 32.0 / 3},
        {"nf4:g64", 8, 64, PITH_F32, 8 * (32 + 4), 4.5},
        {"int2:g64:asym", 8, 64, PITH_F16, 8 * (16 + 5), 2 + 18.0 / 64},
    };
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        const struct pith_grid grid = grid_of(rows[i].grid);
        struct pith_error err = {0};
        struct pith_qmat q;
        assert_int_equal(pith_qmat_bytes(rows[i].rows, rows[i].cols, &grid), rows[i].bytes);
        assert_ok(pith_qmat_init(&q, rows[i].rows, rows[i].cols, &grid, rows[i].scale, &err), err);
        assert_true(pith_qmat_bits_per_weight(&q) == rows[i].bits);
        q.g_idx = pith_zalloc(q.cols, sizeof *q.g_idx);
        assert_true(fabs(pith_qmat_bits_per_weight(&q) - rows[i].bits - 32.0 / q.rows) < 1e-12);
        pith_qmat_free(&q);
        assert_null(q.codes);
        pith_qmat_free(&q);
    }
    const struct pith_grid none = grid_of("none"), bf16 = grid_of("bf16"), int8 = grid_of("int8");
    assert_int_equal(pith_qmat_bytes(4, 4, &none), 0);
    assert_int_equal(pith_qmat_bytes(4, 4, &bf16), 0);
    assert_int_equal(pith_qmat_bytes(UINT32_MAX, UINT32_MAX, &int8), SIZE_MAX);
}

static void impossible_matrices_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
        const char *word;
    } rows[] = {
        {"int4:g128", 0, 64, "0 x 64"},
        {"int4:g128", 64, 0, "64 x 0"},
        {"int8", UINT32_MAX, UINT32_MAX, "4294967295 x"},
        {"none", 4, 4, "none has no codes"},
        {"bf16", 4, 4, "bf16 has no codes"},
        {"int8:token", 4, 32, "cannot be by token"},
    };
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        const struct pith_grid grid = grid_of(rows[i].grid);
        struct pith_error err = {0};
        struct pith_qmat q;
        const enum pith_status s =
            pith_qmat_init(&q, rows[i].rows, rows[i].cols, &grid, PITH_F16, &err);
        assert_int_equal(s, PITH_ARG);
        if (!strstr(err.text, rows[i].word)) fail_msg("%s", err.text);
        assert_null(q.codes);
        assert_null(q.scales);
    }
    struct pith_grid grid = grid_of("nf4");
    struct pith_qmat q;
    grid.asym = true;
    assert_int_equal(pith_qmat_init(&q, 4, 4, &grid, PITH_F16, NULL), PITH_ARG);
    grid = grid_of("int4");
    assert_int_equal(pith_qmat_init(&q, 4, 4, &grid, PITH_DTYPE_COUNT, NULL), PITH_ARG);
}

/* What a matrix says of itself is the spec that it was made by. */
static void sizes_are_those_of_the_spec(void **state)
{
    (void)state;
    static const char *const grids[] = {"int3:g16:asym", "int4:g32:asym:hqq",
                                        "int8:tensor",   "fp8_e4m3:block16",
                                        "mxfp4",         "nvfp4",
                                        "nf4:g64:dq",    "codebook3",
                                        "q4_k",          "q6_k"};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        struct pith_error err = {0};
        struct pith_grid grid = grid_of(grids[i]);
        struct pith_qmat q;
        assert_ok(pith_qmat_init(&q, 20, 256, &grid, PITH_F16, &err), err);
        if (grid.double_quant) assert_ok(pith_qmat_nest_scales(&q, &err), err);
        struct pith_qspec spec = pith_qmat_spec(&q);
        assert_true(pith_grid_equal(&spec.grid, &grid));
        const size_t bytes = pith_qspec_bytes(&spec);
        assert_int_equal(bytes, pith_qmat_bytes(20, 256, &grid));
        const double bits = pith_qspec_bits(&spec);
        assert_true(bits == pith_qmat_bits_per_weight(&q));
        q.g_idx = pith_zalloc(q.cols, sizeof *q.g_idx);
        q.sparse = pith_sparse_new(q.rows, 7);
        q.sparse->start[q.rows] = 7;
        spec = pith_qmat_spec(&q);
        assert_int_equal(pith_qspec_bytes(&spec), bytes + 256 * 4 + 21 * 4 + 7 * 8);
        const double more = 32.0 * 256 + 48.0 * 7 + 32.0 * 21;
        if (!q.gguf) assert_true(fabs(pith_qspec_bits(&spec) - bits - more / (20 * 256)) < 1e-12);
        pith_qmat_free(&q);
    }
}

static void assert_check(const struct pith_qmat *q, const char *word)
{
    struct pith_error err = {0};
    assert_int_equal(pith_qmat_check(q, &err), PITH_FORMAT);
    if (!strstr(err.text, word)) fail_msg("%s", err.text);
}

static void hostile_numbers_are_found(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct pith_rng rng;
    pith_rng_seed(&rng, 6);
    struct pith_error err = {0};
    struct pith_grid grid = grid_of("int3:g16:asym");
    struct pith_qmat q = random_qmat(&rng, 3, 50, &grid);
    assert_ok(pith_qmat_check(&q, &err), err);
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        const float was = q.scales[11];
        q.scales[11] = bad[i];
        assert_check(&q, "scale of row 2, group 3");
        q.scales[11] = was;
    }
    q.zeros[5] = 8;
    assert_check(&q, "zero point 8 of row 1, group 1 exceeds 7");
    q.zeros[5] = 7;
    q.g_idx = pith_zalloc(q.cols, sizeof *q.g_idx);
    assert_ok(pith_qmat_check(&q, &err), err);
    q.g_idx[49] = 4;
    assert_check(&q, "column 49 is 4, but there are 4");
    q.g_idx[49] = UINT32_MAX;
    assert_check(&q, "column 49 is 4294967295");
    pith_qmat_free(&q);
    grid = grid_of("fp8_e4m3");
    q = random_qmat(&rng, 3, 1500, &grid);
    assert_ok(pith_qmat_check(&q, &err), err);
    q.codes[2 * 1500 + 1100] = 0xff;
    assert_check(&q, "row 2, column 1100: the code 0xff");
    pith_qmat_free(&q);
    grid = grid_of("fp8_e5m2:tensor");
    q = random_qmat(&rng, 3, 15, &grid);
    q.codes[15] = 0x7c;
    assert_check(&q, "row 1, column 0");
    q.codes[15] = 0;
    q.scales[0] = NAN;
    assert_check(&q, "scale of row 0");
    pith_qmat_free(&q);
}

static struct pith_qmat copy_of(const struct pith_qmat *q, const struct pith_grid *grid)
{
    struct pith_error err = {0};
    struct pith_qmat r;
    assert_ok(pith_qmat_init(&r, q->rows, q->cols, grid, q->scale_dtype, &err), err);
    memcpy(r.codes, q->codes, q->rows * q->stride);
    for (uint32_t row = 0; row < r.rows; row++)
        for (uint32_t g = 0; g < r.groups; g++) {
            const size_t to = pith_qmat_scale_index(&r, row, g);
            const uint32_t from_group = (uint32_t)((uint64_t)g * r.group / q->group);
            const size_t from = pith_qmat_scale_index(q, row, from_group);
            r.scales[to] = q->scales[from];
            if (r.zeros) r.zeros[to] = q->zeros ? q->zeros[from] : 4;
        }
    return r;
}

static void equal_means_the_same_weights(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 7);
    const struct pith_grid g32 = grid_of("int3:g32:asym"), g16 = grid_of("int3:g16:asym");
    const struct pith_grid symmetric = grid_of("int3:g32"), other = grid_of("int5:g32:asym");
    const struct pith_grid tensor = grid_of("int3:tensor"), channel = grid_of("int3:channel");
    struct pith_qmat a = random_qmat(&rng, 3, 75, &g32), b = copy_of(&a, &g32);
    assert_true(pith_qmat_equal(&a, &a) && pith_qmat_equal(&a, &b));
    b.codes[2 * b.stride + 5] ^= 0x10;
    assert_false(pith_qmat_equal(&a, &b));
    b.codes[2 * b.stride + 5] ^= 0x10;
    b.codes[b.stride - 1] ^= 0x80; /* 225 bits: this one is not used */
    assert_true(pith_qmat_equal(&a, &b));
    b.codes[b.stride - 1] ^= 0x01;
    assert_false(pith_qmat_equal(&a, &b));
    b.codes[b.stride - 1] ^= 0x01;
    b.scales[8] = nextafterf(b.scales[8], 1);
    assert_false(pith_qmat_equal(&a, &b));
    b.scales[8] = a.scales[8];
    b.zeros[8] ^= 1;
    assert_false(pith_qmat_equal(&a, &b));
    b.zeros[8] ^= 1;
    b.g_idx = pith_alloc(b.cols, sizeof *b.g_idx);
    for (uint32_t c = 0; c < b.cols; c++) b.g_idx[c] = c / 32;
    assert_true(pith_qmat_equal(&a, &b) && pith_qmat_equal(&b, &a));
    b.g_idx[31] = 1;
    assert_false(pith_qmat_equal(&a, &b));
    pith_qmat_free(&b);
    /* The same scales at a finer grain; another width; another shape. */
    b = copy_of(&a, &g16);
    assert_true(pith_qmat_equal(&a, &b));
    pith_qmat_free(&b);
    b = random_qmat(&rng, 3, 75, &other);
    assert_false(pith_qmat_equal(&a, &b));
    pith_qmat_free(&b);
    b = random_qmat(&rng, 3, 74, &g32);
    assert_false(pith_qmat_equal(&a, &b));
    pith_qmat_free(&b);
    pith_qmat_free(&a);
    /* No zeros equal zeros in the middle; one scale equals the same scale for each row. */
    a = random_qmat(&rng, 3, 75, &symmetric);
    b = copy_of(&a, &g32);
    assert_true(pith_qmat_equal(&a, &b));
    b.zeros[0] = 3;
    assert_false(pith_qmat_equal(&a, &b));
    pith_qmat_free(&a);
    pith_qmat_free(&b);
    a = random_qmat(&rng, 3, 75, &tensor);
    b = copy_of(&a, &channel);
    assert_true(pith_qmat_equal(&a, &b));
    b.scales[2] *= 2;
    assert_false(pith_qmat_equal(&a, &b));
    pith_qmat_free(&a);
    pith_qmat_free(&b);
}

static void weights_decode_in_any_form(void **state)
{
    (void)state;
    static const enum pith_dtype types[] = {PITH_F32, PITH_F16, PITH_BF16};
    enum { ROWS = 5, COLS = 37 };
    struct pith_rng rng;
    pith_rng_seed(&rng, 8);
    float w[ROWS * COLS], out[ROWS * COLS];
    for (size_t i = 0; i < PITH_COUNT(w); i++) w[i] = (float)pith_rng_normal(&rng);
    for (size_t t = 0; t < PITH_COUNT(types); t++) {
        const size_t size = PITH_COUNT(w) * pith_dtype_bits(types[t]) / 8;
        uint8_t *dense = malloc(size + 1); /* an odd address */
        assert_true(pith_dtype_encode(types[t], w, PITH_COUNT(w), dense + 1));
        const struct pith_weight weight = {
            .rows = ROWS, .cols = COLS, .dtype = types[t], .dense = dense + 1};
        pith_weight_decode(&weight, 2, 3, out);
        for (size_t i = 0; i < 3 * COLS; i++)
            assert_true(out[i] == pith_round_to(types[t], w[2 * COLS + i]));
        free(dense);
    }
    const struct pith_grid grid = grid_of("int4:g16:asym");
    struct pith_qmat q = random_qmat(&rng, ROWS, COLS, &grid);
    const struct pith_weight weight = {.rows = ROWS, .cols = COLS, .quant = &q};
    pith_weight_decode(&weight, 1, 2, out);
    for (uint32_t i = 0; i < 2 * COLS; i++)
        assert_true(out[i] == (float)naive_weight(&q, 1 + i / COLS, i % COLS));
    pith_qmat_free(&q);
}

/* Every part of the formula at once, against the formula written out. */
static void offsets_levels_and_sparse_weights_add_up(void **state)
{
    (void)state;
    enum { ROWS = 5, COLS = 12 };
    struct pith_error err = {0};
    struct pith_qmat q, other;
    const struct pith_grid grid = {
        .format = pith_format_find("codebook4"), .granularity = PITH_PER_BLOCK, .group = 4};
    assert_ok(pith_qmat_init(&q, ROWS, COLS, &grid, PITH_F32, &err), err);
    assert_int_equal(pith_qmat_scale_rows(&q), 2);
    assert_int_equal(pith_qmat_scale_count(&q), 6);
    q.offsets = pith_zalloc(6, sizeof *q.offsets);
    q.sparse = pith_sparse_new(ROWS, 3);
    assert_true(q.offsets && q.levels && q.sparse);
    for (size_t i = 0; i < 6; i++) {
        q.scales[i] = (float)(i + 1);
        q.offsets[i] = (float)i * 0.25f;
    }
    for (size_t i = 0; i < ROWS * 16; i++) q.levels[i] = (float)i - 7.5f;
    uint8_t codes[COLS];
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t c = 0; c < COLS; c++) codes[c] = (uint8_t)((r * 5 + c * 3) % 16);
        pith_qmat_set_codes(&q, r, codes);
    }
    static const uint32_t start[] = {0, 0, 2, 2, 2, 3}, col[] = {1, 11, 4};
    memcpy(q.sparse->start, start, sizeof start);
    memcpy(q.sparse->col, col, sizeof col);
    for (int i = 0; i < 3; i++) q.sparse->value[i] = 100.0f * (float)(i + 1);
    assert_ok(pith_qmat_check(&q, &err), err);
    float out[ROWS * COLS], part[5];
    pith_qmat_decode(&q, 0, ROWS, out);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t c = 0; c < COLS; c++) {
            const size_t at = (r / 4) * 3 + c / 4;
            float want = q.levels[r * 16 + (r * 5 + c * 3) % 16] * q.scales[at] + q.offsets[at];
            if (r == 1 && c == 1) want += 100.0f;
            if (r == 1 && c == 11) want += 200.0f;
            if (r == 4 && c == 4) want += 300.0f;
            assert_true(out[r * COLS + c] == want);
        }
    pith_qmat_decode_part(&q, 1, 7, 5, part);
    assert_memory_equal(part, out + COLS + 7, sizeof part);
    assert_true(pith_qmat_equal(&q, &q));
    other = q;
    other.input.threshold = 6.0f;
    assert_false(pith_qmat_equal(&q, &other));
    q.sparse->col[1] = 1;
    assert_check(&q, "out of range or order");
    q.sparse->col[1] = 11;
    q.levels[17] = NAN;
    assert_check(&q, "level 1 of row 1");
    q.levels[17] = 0;
    q.offsets[5] = INFINITY;
    assert_check(&q, "row 4, group 2");
    pith_qmat_free(&q);
}

/* Held as elements in groups, and told from them again. */
static void block_formats_are_elements_and_their_scales(void **state)
{
    (void)state;
    static const char *const formats[] = {"mxfp8", "mxfp6", "mxfp4", "nvfp4", "mxfp8_e5m2"};
    for (size_t i = 0; i < PITH_COUNT(formats); i++) {
        struct pith_error err = {0};
        struct pith_qmat q;
        const struct pith_grid grid = grid_of(formats[i]);
        assert_ok(pith_qmat_init(&q, 3, 96, &grid, PITH_F32, &err), err);
        assert_string_equal(q.format->name, grid.format->element);
        assert_int_equal(q.group, grid.format->block);
        assert_int_equal(q.scale_dtype, i == 3 ? PITH_F8_E4M3 : PITH_F8_E8M0);
        assert_ptr_equal(pith_qmat_grid(&q).format, grid.format);
        assert_true(pith_qmat_bytes(3, 96, &grid) > 0);
        pith_qmat_free(&q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_all_widths_and_offsets),
        cmocka_unit_test(decode_is_the_formula),
        cmocka_unit_test(g_idx_scatters_groups),
        cmocka_unit_test(rows_of_codes_come_back),
        cmocka_unit_test(sizes_are_counted),
        cmocka_unit_test(impossible_matrices_are_refused),
        cmocka_unit_test(offsets_levels_and_sparse_weights_add_up),
        cmocka_unit_test(block_formats_are_elements_and_their_scales),
        cmocka_unit_test(sizes_are_those_of_the_spec),
        cmocka_unit_test(hostile_numbers_are_found),
        cmocka_unit_test(equal_means_the_same_weights),
        cmocka_unit_test(weights_decode_in_any_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
