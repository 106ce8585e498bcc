/* Packed matrices: products have the bits of the unpacked matrix (unless they are of act-order
 * groups, whose columns are summed in another order, or of digits), in the fast mode they are close
 * to them; they are the same on every setup and for any number of rows. */
#include "backend/input.h"
#include "backend/pack.h"
#include "num/gguf/kmat.h"
#include "setups.h"
#include "shuffled.h"

enum { MOST = 9 };

struct packed {
    struct pith_qmat q;
    struct pith_pack pack;
    struct pith_weight plain, w;
    void *memory;
};

static void make_qmat(struct pith_qmat *q, const char *text, uint32_t rows, uint32_t cols,
                      enum pith_dtype scales)
{
    struct pith_error err = {0};
    struct pith_grid grid;
    assert_ok(pith_grid_parse(text, &grid, &err), err);
    assert_ok(pith_qmat_init(q, rows, cols, &grid, scales, &err), err);
    fill_qmat(q, false);
}

/* What its spec tells alone. */
static size_t spec_bytes(const struct pith_qmat *q)
{
    const struct pith_qspec spec = pith_qmat_spec(q);
    return pith_pack_spec_bytes(&spec, &q->input.grid);
}

static void pack_qmat(struct packed *p, struct pith_backend *b)
{
    const uint32_t rows = p->q.rows, cols = p->q.cols;
    const size_t bytes = pith_pack_bytes(&p->q);
    assert_true(bytes > 0);
    assert_int_equal(spec_bytes(&p->q), bytes);
    p->memory = pith_alloc_aligned(bytes, 1);
    assert_non_null(p->memory);
    pith_pack_init(b, &p->q, p->memory, &p->pack);
    assert_int_equal(p->pack.bytes, bytes);
    const struct pith_qspec spec = pith_qmat_spec(&p->q);
    assert_int_equal(pith_pack_spec_digits(&spec), p->pack.digits > 0);
    assert_int_equal(pith_pack_spec_prepared(&spec, 1) > 0, p->pack.offsets != NULL);
    p->plain = (struct pith_weight){.rows = rows, .cols = cols, .quant = &p->q};
    p->w = (struct pith_weight){.rows = rows, .cols = cols, .pack = &p->pack};
}

static void open_packed(struct packed *p, struct pith_backend *b, const char *text, uint32_t rows,
                        uint32_t cols, enum pith_dtype scales)
{
    make_qmat(&p->q, text, rows, cols, scales);
    pack_qmat(p, b);
}

static void close_packed(struct packed *p)
{
    pith_qmat_free(&p->q);
    pith_free(p->memory);
}

/* y[n][rows] within `share` of the sizes of the sums, which is 0 for float's own rounding. */
static void check_close(const struct packed *p, const float *bias, const float *x, size_t n,
                        const float *y, double share)
{
    const size_t rows = p->q.rows, cols = p->q.cols;
    float *w = floats(rows * cols);
    pith_qmat_decode(&p->q, 0, p->q.rows, w);
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < rows; r++) {
            double want = (double)bias[r], size = fabs(want);
            for (size_t c = 0; c < cols; c++) {
                const double term = (double)w[r * cols + c] * (double)x[i * cols + c];
                want += term;
                size += fabs(term);
            }
            const double bound = size * (share + 1e-6);
            if (!(fabs((double)y[i * rows + r] - want) <= bound))
                fail_msg("row %zu, element %zu: %g, expected %g", i, r, (double)y[i * rows + r],
                         want);
        }
    pith_free(w);
}

static void set_mode(struct pith_backend *b, enum pith_mode mode)
{
    struct pith_error err = {0};
    assert_ok(pith_backend_set_mode(b, mode, &err), err);
    assert_int_equal(pith_backend_mode(b), mode);
}

/* Each row alone. */
static void one_by_one(struct pith_backend *b, enum pith_mode mode, const struct packed *p,
                       const float *bias, const float *x, size_t n, float *y)
{
    set_mode(b, mode);
    for (size_t i = 0; i < n; i++)
        pith_linear(b, &p->w, bias, x + i * p->q.cols, 1, y + i * p->q.rows);
    set_mode(b, PITH_MODE_EXACT);
}

static void check_modes(struct setups *s, struct packed *p, const char *what)
{
    static const size_t counts[] = {1, 2, 3, 4, MOST};
    const size_t rows = p->q.rows;
    float *x = normals(MOST * (size_t)p->q.cols, 5), *bias = normals(rows, 6);
    float *exact = floats(MOST * rows), *fast = floats(MOST * rows);
    const struct pith_weight *w = pith_pack_prepares(&p->pack) ? &p->w : &p->plain;
    if (p->pack.digits) one_by_one(s->backend[0], PITH_MODE_EXACT, p, bias, x, MOST, exact);
    else pith_linear(s->backend[0], w, bias, x, MOST, exact);
    check_close(p, bias, x, MOST, exact, 0);
    one_by_one(s->backend[0], PITH_MODE_FAST, p, bias, x, MOST, fast);
    check_close(p, bias, x, MOST, fast, 0.01);
    if (!p->pack.block) assert_same(fast, exact, MOST * rows, what, 0);
    else assert_true(memcmp(fast, exact, MOST * rows * sizeof *fast) != 0);
    for (size_t i = 0; i < s->count; i++)
        for (size_t c = 0; c < PITH_COUNT(counts); c++) {
            const size_t n = counts[c];
            float *y = floats(n * rows);
            pith_linear(s->backend[i], &p->w, bias, x, n, y);
            assert_same(y, exact, n * rows, what, i);
            set_mode(s->backend[i], PITH_MODE_FAST);
            pith_linear(s->backend[i], &p->w, bias, x, n, y);
            assert_same(y, fast, n * rows, what, i);
            set_mode(s->backend[i], PITH_MODE_EXACT);
            pith_free(y);
        }
    pith_free(fast);
    pith_free(exact);
    pith_free(bias);
    pith_free(x);
}

/* Rows of the packed matrix against those of the matrix. */
static void check_rows(const struct packed *p)
{
    float *want = floats(p->q.cols), *got = floats(p->q.cols);
    for (uint32_t r = 0; r < p->q.rows; r++) {
        pith_qmat_decode(&p->q, r, 1, want);
        pith_pack_row(&p->pack, r, got);
        for (uint32_t c = 0; c < p->q.cols; c++) assert_true(got[c] == want[c]);
    }
    pith_free(got);
    pith_free(want);
}

static void packed_products(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
        enum pith_dtype scales;
    } cases[] = {
        {"int4:g128", 48, 384, PITH_BF16},      {"int4:g32:asym", 37, 96, PITH_F16},
        {"int4:g128:asym", 21, 304, PITH_BF16}, {"int4:channel", 16, 8, PITH_F32},
        {"int4:tensor", 5, 64, PITH_F32},       {"int4:g16", 70, 48, PITH_F16},
        {"int8:channel", 35, 292, PITH_BF16},   {"int8:g64:asym", 33, 256, PITH_F16},
        {"int3:g32:asym", 18, 96, PITH_F16},    {"int2:channel", 7, 72, PITH_F32},
        {"int6:g32", 40, 96, PITH_BF16},        {"nf4:g64", 33, 192, PITH_BF16},
        {"int2:g128:asym", 21, 256, PITH_F16},  {"int3:g128", 37, 384, PITH_BF16},
        {"int3:channel", 70, 304, PITH_F32},    {"int3:channel", 17, 40, PITH_F32},
        {"int5:channel", 20, 272, PITH_BF16},   {"int5:g128:asym", 50, 256, PITH_F16},
        {"int6:g128", 33, 384, PITH_F16},       {"int7:g64", 33, 128, PITH_F16},
        {"fp4_e2m1:g16", 20, 64, PITH_F32},     {"fp8_e4m3:channel", 20, 40, PITH_F32},
        {"fp8_e5m2:g32", 17, 100, PITH_F16},    {"bnb_fp4:g64", 1100, 64, PITH_F16},
    };
    struct setups s;
    setups_open(&s);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct packed p;
        open_packed(&p, s.backend[i % s.count], cases[i].grid, cases[i].rows, cases[i].cols,
                    cases[i].scales);
        check_rows(&p);
        check_modes(&s, &p, cases[i].grid);
        close_packed(&p);
    }
    setups_close(&s);
}

/* GGUF's types: scales, and offsets where there are any, as blocks have them. */
static void fill_blocks(struct pith_qmat *q)
{
    const struct pith_kquant *t = q->gguf;
    struct pith_rng r;
    pith_rng_seed(&r, q->rows);
    for (uint32_t row = 0; row < q->rows; row++)
        for (uint32_t at = 0; at < q->cols / t->elements; at++) {
            struct pith_kblock k = {.d = 0.0f};
            const bool two = t->scale_most != 0, some = (row + at) % 7 != 0;
            const float d = pith_round_to(PITH_F16, (float)pith_rng_normal(&r) * 0.01f);
            const float least = pith_round_to(PITH_F16, (float)pith_rng_unit(&r) * 0.01f);
            if (two && some) k.d = d;
            if (two && some && t->min_most) k.dmin = least;
            for (uint32_t i = 0; i < (uint32_t)(t->elements / t->sub); i++) {
                const uint64_t range = (uint64_t)(t->scale_most - t->scale_least + 1);
                const int by = (int)pith_rng_below(&r, range) + t->scale_least;
                const uint64_t less = pith_rng_below(&r, (uint64_t)t->min_most + 1);
                k.scale[i] = two ? k.d * (float)by : d;
                k.offset[i] = two ? -k.dmin * (float)less : least;
            }
            pith_kmat_set_scales(q, row, at, &k);
        }
}

static void take_prepared(struct setups *s)
{
    struct pith_error err = {0};
    for (size_t i = 0; i < s->count; i++)
        for (int twice = 0; twice < 2; twice++)
            assert_ok(pith_backend_take_prepared(s->backend[i], &err), err);
}

/* Act-order: columns of a group are side by side in the panels, and x is put in that order. */
static void products_in_another_order(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
        enum pith_dtype scales;
    } cases[] = {
        {"int4:g128", 48, 384, PITH_F16},      {"int4:g32:asym", 37, 1184, PITH_F16},
        {"int8:g64:asym", 33, 256, PITH_BF16}, {"int3:g32:asym", 18, 96, PITH_F16},
        {"int2:g16", 21, 64, PITH_F32},        {"int5:g32", 20, 96, PITH_F32},
        {"nf4:g8", 9, 8 * 1100, PITH_F32},     {"fp8_e4m3:g32", 17, 96, PITH_BF16},
    };
    struct setups s;
    setups_open(&s);
    take_prepared(&s);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct packed p;
        make_qmat(&p.q, cases[i].grid, cases[i].rows, cases[i].cols, cases[i].scales);
        shuffle_groups(&p.q);
        pack_qmat(&p, s.backend[i % s.count]);
        assert_true(pith_pack_prepares(&p.pack));
        check_rows(&p);
        check_modes(&s, &p, cases[i].grid);
        close_packed(&p);
    }
    setups_close(&s);
}

/* Zero points that are any numbers. */
static void fill_offsets(struct pith_qmat *q)
{
    for (size_t i = 0; i < pith_qmat_scale_count(q); i++)
        q->offsets[i] = -(1.5f + (float)(i % 37) / 4.0f) * q->scales[i];
}

/* GGUF's types: scales in two levels, and offsets, whose product is one of its own. */
static void products_with_offsets(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
        double bits; /* a weight, packed; rows are whole panels */
    } cases[] = {
        {"q4_k", 37, 1280, 0},
        {"q4_k", 128, 2048, 4.625},
        {"q5_k", 20, 768, 0},
        {"q5_k", 64, 2048, 5.625},
        {"q2_k", 18, 256, 0},
        {"q2_k", 64, 2048, 3.125},
        {"q3_k", 300, 512, 0},
        {"q3_k", 64, 2048, 3.5625},
        {"q6_k", 64, 2048, 6.5625},
        {"iq4_xs", 33, 256, 0},
        {"q4_1", 33, 96, 0},
        {"q5_1", 150, 64, 0},
        {"q8_0", 16, 64, 0},
        {"int4:g32:asym:hqq", 33, 96, 0},
        {"int3:g64:asym:hqq", 150, 128, 0},
        {"int4:g128:asym:hqq", 133, 384, 0},
    };
    struct setups s;
    setups_open(&s);
    take_prepared(&s);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct packed p;
        make_qmat(&p.q, cases[i].grid, cases[i].rows, cases[i].cols, PITH_F16);
        if (p.q.gguf) fill_blocks(&p.q);
        else fill_offsets(&p.q);
        pack_qmat(&p, s.backend[i % s.count]);
        assert_true(pith_pack_prepares(&p.pack) == (p.q.offsets != NULL));
        const double weights = (double)cases[i].rows * cases[i].cols;
        if (cases[i].bits > 0)
            assert_true(8.0 * (double)p.pack.bytes <= cases[i].bits * weights + 8 * 1024);
        check_rows(&p);
        check_modes(&s, &p, cases[i].grid);
        close_packed(&p);
    }
    setups_close(&s);
}

/* Offsets of more rows of x than a slab has, which are added where the sums of integers are stored:
 * what one row gets. */
static void offsets_of_many_rows(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
        size_t n;
    } cases[] = {
        {"q4_1", 33, 96, 1100},  {"q5_1", 300, 64, 140}, {"q4_1", 150, 576, 129},
        {"q4_k", 150, 768, 140}, {"q2_k", 18, 256, 530}, {"int4:g32:asym:hqq", 133, 96, 257},
    };
    struct setups s;
    setups_open(&s);
    take_prepared(&s);
    for (size_t c = 0; c < PITH_COUNT(cases); c++) {
        const size_t n = cases[c].n, rows = cases[c].rows;
        struct packed p;
        make_qmat(&p.q, cases[c].grid, cases[c].rows, cases[c].cols, PITH_F16);
        if (p.q.gguf) fill_blocks(&p.q);
        else fill_offsets(&p.q);
        pack_qmat(&p, s.backend[0]);
        assert_non_null(p.pack.offsets);
        float *x = normals(n * p.q.cols, 25), *bias = normals(rows, 26), *want = floats(n * rows);
        one_by_one(s.backend[0], PITH_MODE_FAST, &p, bias, x, n, want);
        check_close(&p, bias, x, n, want, 0.02);
        for (size_t i = 0; i < 2 * s.count; i++) {
            float *y = floats(n * rows);
            struct pith_backend *b = s.backend[i / 2];
            set_mode(b, PITH_MODE_FAST);
            pith_linear(b, &p.w, i % 2 ? bias : NULL, x, n, y);
            for (size_t e = 0; i % 2 == 0 && e < n * rows; e++) y[e] += bias[e % rows];
            assert_same(y, want, n * rows, cases[c].grid, i / 2);
            pith_free(y);
            set_mode(b, PITH_MODE_EXACT);
        }
        pith_free(want);
        pith_free(bias);
        pith_free(x);
        close_packed(&p);
    }
    setups_close(&s);
}

/* Linears of one site share what is made of x: each gets what it gets alone, whatever the others
 * made of it, and another x at the same place is made anew. */
static void products_of_a_site(void **state)
{
    (void)state;
    enum { COLS = 256, ROWS = 40, KINDS = 8, N = 513 };
    static const char *const grids[KINDS] = {"q4_1", "q5_1",           "q4_k",     "int4:g32",
                                             "q8_0", "int4:g32:asym", "int4:g32", "q4_1"};
    static const int order[] = {0, 7, 1, 0, 3, 3, 4, 5, 2, 2, 7, 6, 0, 6, 1, 2, 0};
    static const size_t counts[] = {1, 3, 10, N};
    struct setups s;
    struct packed p[KINDS];
    setups_open(&s);
    take_prepared(&s);
    for (int i = 0; i < KINDS; i++) {
        make_qmat(&p[i].q, grids[i], ROWS, COLS, PITH_F16);
        if (p[i].q.gguf) fill_blocks(&p[i].q);
        if (i == 6) shuffle_groups(&p[i].q);
        pack_qmat(&p[i], s.backend[0]);
    }
    float *x = normals((size_t)N * COLS, 31), *other = normals((size_t)N * COLS, 32);
    float *got = floats((size_t)N * ROWS), *want = floats((size_t)N * ROWS);
    for (size_t i = 0; i < 2 * s.count * PITH_COUNT(counts); i++) {
        struct pith_backend *b = s.backend[i / 2 % s.count];
        struct pith_backend *judge = s.backend[(i / 2 + 1) % s.count];
        const size_t n = counts[i / 2 / s.count];
        struct pith_site_input site = {.x = x, .n = n, .cols = COLS};
        set_mode(b, i % 2 ? PITH_MODE_FAST : PITH_MODE_EXACT);
        set_mode(judge, i % 2 ? PITH_MODE_FAST : PITH_MODE_EXACT);
        for (size_t o = 0; o < PITH_COUNT(order); o++) {
            const struct pith_weight *w = &p[order[o]].w;
            pith_linear_site(b, w, NULL, &site, got);
            pith_linear(judge, w, NULL, x, n, want);
            assert_same(got, want, n * ROWS, grids[order[o]], i);
            if (o % 5 == 2) pith_linear(b, &p[o % KINDS].w, NULL, other, n, got);
        }
        for (size_t e = 0; e < n * COLS; e++) x[e] = 0.25f - 0.9f * x[e];
        set_mode(b, PITH_MODE_EXACT);
        set_mode(judge, PITH_MODE_EXACT);
    }
    pith_free(other);
    pith_free(want);
    pith_free(got);
    pith_free(x);
    for (int i = 0; i < KINDS; i++) close_packed(&p[i]);
    setups_close(&s);
}

/* More rows of x than are put in order at once: none is computed as one of few. */
static void slabs_in_another_order(void **state)
{
    (void)state;
    enum { ROWS = 3, COLS = 64 * 1024, N = 2 * (2 << 20) / COLS + 1 };
    struct setups s;
    struct packed p;
    setups_open(&s);
    take_prepared(&s);
    make_qmat(&p.q, "int4:g128", ROWS, COLS, PITH_F16);
    shuffle_groups(&p.q);
    pack_qmat(&p, s.backend[0]);
    float *x = normals((size_t)N * COLS, 21), *bias = normals(ROWS, 22);
    float *all = floats((size_t)N * ROWS), *some = floats((size_t)N * ROWS);
    struct pith_backend *b = s.backend[s.count - 1];
    pith_linear(b, &p.w, bias, x, N, all);
    for (size_t i = 0; i < N; i += 5) pith_linear(b, &p.w, bias, x + i * COLS, 5, some + i * ROWS);
    assert_same(some, all, (size_t)N * ROWS, "slabs", s.count - 1);
    pith_free(some);
    pith_free(all);
    pith_free(bias);
    pith_free(x);
    close_packed(&p);
    setups_close(&s);
}

/* Both modes over more rows than a slab and more columns than a chunk, with groups and blocks of x
 * that end within chunks or span them; in the fast mode a block may be the whole row. */
static void integer_products_of_many_rows(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
        size_t block; /* 0: as packed */
        size_t n;
    } cases[] = {
        {"int4:g128", 70, 1184, 0, 40},       {"int4:g96:asym", 33, 1160, 0, 17},
        {"int3:g128", 70, 1184, 0, 40},       {"int2:g96:asym", 33, 1168, 0, 17},
        {"int5:g128:asym", 37, 1200, 0, 9},   {"int6:g640", 64, 1936, 640, 14},
        {"int3:g64", 50, 1088, 32, 21},
        {"int8:channel", 50, 1100, 0, 30},    {"int8:channel", 97, 1556, 1556, 21},
        {"int8:g768:asym", 20, 1540, 768, 9}, {"int4:g640", 64, 1928, 640, 14},
        {"int4:g128", 16, 128, 0, 1100},      {"fp4_e2m1:g32", 70, 1184, 0, 40},
        {"fp4_e2m1:g16", 33, 1168, 0, 17},    {"nf4:g64", 70, 1216, 0, 40},
        {"bnb_fp4:g32", 33, 1184, 0, 17},
    };
    struct setups s;
    setups_open(&s);
    for (size_t c = 0; c < PITH_COUNT(cases); c++) {
        const size_t n = cases[c].n, rows = cases[c].rows;
        struct packed p;
        open_packed(&p, s.backend[0], cases[c].grid, cases[c].rows, cases[c].cols, PITH_BF16);
        assert_true(p.pack.block > 0);
        if (cases[c].block) p.pack.block = cases[c].block;
        float *x = normals(n * p.q.cols, 15), *bias = normals(rows, 16), *want = floats(n * rows);
        for (int fast = 0; fast <= 1; fast++) {
            const enum pith_mode mode = fast ? PITH_MODE_FAST : PITH_MODE_EXACT;
            if (!fast && !p.pack.digits) continue;
            one_by_one(s.backend[0], mode, &p, bias, x, n, want);
            check_close(&p, bias, x, n, want, fast ? 0.02 : 0);
            for (size_t i = 0; i < s.count; i++) {
                float *y = floats(n * rows);
                set_mode(s.backend[i], mode);
                pith_linear(s.backend[i], &p.w, bias, x, n, y);
                assert_same(y, want, n * rows, cases[c].grid, i);
                pith_free(y);
                set_mode(s.backend[i], PITH_MODE_EXACT);
            }
        }
        pith_free(want);
        pith_free(bias);
        pith_free(x);
        close_packed(&p);
    }
    setups_close(&s);
}

/* Scales of one byte: powers of two (MX), and E4M3 with a factor for all (NVFP4). */
static void byte_scales(void **state)
{
    (void)state;
    struct setups s;
    struct pith_error err = {0};
    setups_open(&s);
    for (int nv = 0; nv <= 1; nv++) {
        struct packed p;
        struct pith_grid grid;
        assert_ok(pith_grid_parse(nv ? "fp4_e2m1:g16" : "fp4_e2m1:g32", &grid, &err), err);
        const enum pith_dtype dtype = nv ? PITH_F8_E4M3 : PITH_F8_E8M0;
        assert_ok(pith_qmat_init(&p.q, 40, 128, &grid, dtype, &err), err);
        fill_qmat(&p.q, false);
        p.q.global = nv ? 0.00123f : 1.0f;
        struct pith_rng r;
        pith_rng_seed(&r, 9);
        for (size_t i = 0; i < (size_t)p.q.rows * p.q.groups; i++)
            p.q.scales[i] =
                nv ? pith_format_find("fp8_e4m3")->decode((uint32_t)pith_rng_below(&r, 0x7f)) *
                         p.q.global
                   : ldexpf(1.0f, (int)pith_rng_below(&r, 20) - 10);
        const size_t bytes = pith_pack_bytes(&p.q);
        assert_int_equal(bytes, spec_bytes(&p.q));
        /* 48 rows of 128 half bytes and a byte a group. */
        assert_int_equal(bytes, 48 * 64 + 48 * p.q.groups);
        p.memory = pith_alloc_aligned(bytes, 1);
        assert_non_null(p.memory);
        pith_pack_init(s.backend[0], &p.q, p.memory, &p.pack);
        p.plain = (struct pith_weight){.rows = 40, .cols = 128, .quant = &p.q};
        p.w = (struct pith_weight){.rows = 40, .cols = 128, .pack = &p.pack};
        check_modes(&s, &p, nv ? "nvfp4" : "mxfp4");
        close_packed(&p);
    }
    setups_close(&s);
}

/* Levels as the integer products take them: the nearest of 1/unit numbers a whole. */
static void levels_as_factors(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        int units; /* 0: no factors */
        enum pith_panel_factors factors;
        double most; /* that a level moves */
    } cases[] = {
        {"fp4_e2m1:g32", 2, PITH_FACTORS_SMALL, 0},
        {"nf4:g64", 112, PITH_FACTORS_LARGE, 0.5 / 112},
        {"bnb_fp4:g64", 120, PITH_FACTORS_LARGE, 0.0032},
        {"int4:g64", 0, PITH_FACTORS_NONE, 0},
    };
    struct setups s;
    setups_open(&s);
    for (size_t c = 0; c < PITH_COUNT(cases); c++) {
        struct packed p;
        open_packed(&p, s.backend[0], cases[c].grid, 16, 64, PITH_BF16);
        const struct pith_panels *m = &p.pack.m;
        assert_int_equal(m->factors, cases[c].factors);
        for (int i = 0; m->factors && i < 16; i++) {
            const double level = (double)((float)m->factor[i] - m->zero) / cases[c].units;
            assert_true(m->factor[i] <= 2 * (int)m->zero);
            assert_true(fabs(level - (double)m->level[i]) <= cases[c].most + 1e-7);
        }
        if (m->factors) assert_true(m->unit == 1.0f / (float)cases[c].units);
        close_packed(&p);
    }
    setups_close(&s);
}

/* Work space that products take, told by the spec alone. */
static void what_products_take(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        bool digits;
        size_t rows, pages; /* huge ones, of sums for the offsets */
    } cases[] = {
        {"int4:g128", true, 256, 0}, {"int8:channel", true, 256, 0}, {"int4:g32", false, 256, 0},
        {"q4_k", false, 256, 1},     {"q4_k", false, 16000, 2},      {"q4_k", false, 1 << 24, 4},
        {"q6_k", false, 256, 0},
    };
    struct pith_error err = {0};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_qspec spec = {.rows = 64, .cols = 2048, .scale_dtype = PITH_F16};
        assert_ok(pith_grid_parse(cases[i].grid, &spec.grid, &err), err);
        assert_int_equal(pith_pack_spec_digits(&spec), cases[i].digits);
        assert_int_equal(pith_pack_spec_prepared(&spec, cases[i].rows),
                         cases[i].pages * PITH_HUGE_PAGE);
    }
}

static void what_cannot_be_packed(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t cols, group;
        bool shuffled;
    } cases[] = {
        {"int4:g32", 96, 32, true},      {"int4:g32", 95, 32, false},
        {"int4:g32", 96, 12, false},     {"int8:channel", 90, 90, false},
        {"fp6_e2m3:g32", 96, 32, false},
    };
    struct pith_error err = {0};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_grid grid;
        struct pith_qmat q;
        assert_ok(pith_grid_parse(cases[i].grid, &grid, &err), err);
        if (grid.granularity == PITH_PER_GROUP) grid.group = cases[i].group;
        assert_ok(pith_qmat_init(&q, 5, cases[i].cols, &grid, PITH_F16, &err), err);
        fill_qmat(&q, cases[i].shuffled);
        assert_int_equal(pith_pack_bytes(&q), 0);
        if (!cases[i].shuffled) assert_int_equal(spec_bytes(&q), 0); /* groups of unequal size */
        pith_qmat_free(&q);
    }
}

/* Of every format that weights have, as stored: by its spec as by itself, packed or not. */
static void told_by_the_spec(void **state)
{
    (void)state;
    static const char *const by[] = {"", ":g64", ":channel", ":tensor", ":block64", ":g64:asym"};
    struct pith_error err = {0};
    size_t count, packed = 0;
    const struct pith_format *f = pith_formats(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < PITH_COUNT(by); k++) {
            struct pith_grid grid;
            struct pith_qmat q;
            char text[PITH_GRID_TEXT];
            (void)snprintf(text, sizeof text, "%s%s", f[i].name, by[k]);
            if (pith_grid_parse(text, &grid, &err) != PITH_OK ||
                pith_qmat_init(&q, 37, 512, &grid, PITH_F16, &err) != PITH_OK)
                continue;
            struct pith_qspec spec = {.rows = 37, .cols = 512, .grid = grid};
            spec.scale_dtype = PITH_F16;
            assert_int_equal(pith_pack_spec_bytes(&spec, NULL), pith_pack_bytes(&q));
            packed += pith_pack_bytes(&q) > 0;
            pith_qmat_free(&q);
        }
    assert_true(packed >= 40);
}

/* Codes in memory have the width that they have in a file; where groups are no whole steps, 4 or 8
 * bits. */
static void integers_keep_their_width(void **state)
{
    (void)state;
    enum { ROWS = 64, COLS = 2048 };
    static const struct {
        const char *grid;
        size_t bits;
    } cases[] = {{"int2:g128", 2}, {"int3:g128", 3}, {"int4:g128", 4}, {"int5:g128", 5},
                 {"int6:g128", 6}, {"int7:g128", 8}, {"int8:g128", 8}, {"int3:g8", 4},
                 {"int6:g8", 8}};
    struct pith_error err = {0};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_grid grid;
        assert_ok(pith_grid_parse(cases[i].grid, &grid, &err), err);
        const struct pith_qspec spec = {
            .rows = ROWS, .cols = COLS, .grid = grid, .scale_dtype = PITH_F16};
        const size_t scales = ROWS * (COLS / grid.group) * sizeof(uint16_t);
        assert_int_equal(pith_pack_spec_bytes(&spec, NULL),
                         ROWS * COLS / 8 * cases[i].bits + scales);
    }
}

/* Half a step of a row at most, on every setup alike; a row that is not finite is refused. */
static void rounding_to_bytes(void **state)
{
    (void)state;
    enum { ROWS = 37, COLS = 100 };
    struct setups s;
    struct pith_error err = {0};
    setups_open(&s);
    float *w = normals(ROWS * COLS, 8), got[COLS];
    memset(w + 3 * COLS, 0, COLS * sizeof *w);
    const struct pith_weight weight = {.rows = ROWS, .cols = COLS, .dtype = PITH_F32, .dense = w};
    struct pith_qmat first, q;
    assert_ok(pith_round_to_bytes(s.backend[0], &weight, &first, &err), err);
    for (size_t i = 1; i < s.count; i++) {
        assert_ok(pith_round_to_bytes(s.backend[i], &weight, &q, &err), err);
        assert_true(pith_qmat_equal(&q, &first));
        pith_qmat_free(&q);
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        float most = 0;
        for (size_t c = 0; c < COLS; c++) most = fmaxf(most, fabsf(w[r * COLS + c]));
        assert_true(first.scales[r] == most / 127.0f);
        pith_qmat_decode(&first, r, 1, got);
        for (size_t c = 0; c < COLS; c++)
            assert_true(fabsf(got[c] - w[r * COLS + c]) <= first.scales[r] * 0.5001f);
    }
    pith_qmat_free(&first);
    w[5 * COLS + 7] = INFINITY;
    assert_int_equal(pith_round_to_bytes(s.backend[0], &weight, &q, &err), PITH_NUMERIC);
    pith_free(w);
    setups_close(&s);
}

/* More than are run at a time, whose bytes do not fit at once, with and without bias, some with x
 * in common, some of matrices that are not packed, some with offsets. */
static void products_side_by_side(void **state)
{
    enum { KINDS = 7, COUNT = 70, MOST_COLS = 16128, MOST_ROWS = 50 };
    static const struct {
        const char *grid;
        uint32_t rows, cols;
    } kinds[KINDS] = {{"int4:g128", 50, 256},
                      {"int4:g128", 3, MOST_COLS},
                      {"nf4:g64", 17, 256},
                      {"int8:channel", 33, 128},
                      {"mxfp4", 16, MOST_COLS},
                      {"q4_1", 50, 256},
                      {"q4_k", 19, 256}};
    (void)state;
    struct setups s;
    struct packed p[KINDS];
    struct pith_product all[COUNT];
    setups_open(&s);
    take_prepared(&s);
    for (size_t k = 0; k < KINDS; k++)
        open_packed(&p[k], s.backend[0], kinds[k].grid, kinds[k].rows, kinds[k].cols, PITH_F16);
    float *x = normals(MOST_COLS + COUNT, 7), *bias = normals(MOST_ROWS, 8);
    float *want = floats(COUNT * MOST_ROWS), *got = floats(COUNT * MOST_ROWS);
    for (size_t i = 0; i < COUNT; i++) {
        const struct packed *of = &p[i * 5 % 11 % KINDS];
        all[i] = (struct pith_product){i % 13 == 12 ? &of->plain : &of->w, i % 3 ? bias : NULL,
                                       x + i / 2 % 9, got + i * MOST_ROWS};
    }
    for (size_t b = 0; b < s.count; b++)
        for (int fast = 0; fast <= 1; fast++) {
            set_mode(s.backend[b], fast ? PITH_MODE_FAST : PITH_MODE_EXACT);
            for (size_t i = 0; i < COUNT; i++)
                pith_linear(s.backend[b], all[i].w, all[i].bias, all[i].x, 1, want + i * MOST_ROWS);
            memset(got, 0, COUNT * MOST_ROWS * sizeof *got);
            pith_linear_products(s.backend[b], all, COUNT);
            assert_same(got, want, COUNT * MOST_ROWS, "side by side", b);
            pith_linear_products(s.backend[b], all, 0);
        }
    for (size_t k = 0; k < KINDS; k++) close_packed(&p[k]);
    pith_free(x);
    pith_free(bias);
    pith_free(want);
    pith_free(got);
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_products),
        cmocka_unit_test(integer_products_of_many_rows),
        cmocka_unit_test(byte_scales),
        cmocka_unit_test(integers_keep_their_width),
        cmocka_unit_test(rounding_to_bytes),
        cmocka_unit_test(products_with_offsets),
        cmocka_unit_test(offsets_of_many_rows),
        cmocka_unit_test(products_of_a_site),
        cmocka_unit_test(products_in_another_order),
        cmocka_unit_test(slabs_in_another_order),
        cmocka_unit_test(levels_as_factors),
        cmocka_unit_test(what_products_take),
        cmocka_unit_test(what_cannot_be_packed),
        cmocka_unit_test(told_by_the_spec),
        cmocka_unit_test(products_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
