/* The pith container, and the code that it holds: what numpy makes of it, matrices that come back,
 * and files that lie. */
#include "num/trellis.h"
#include "pack_and_read.h"

enum { ROWS = 256, COLS = 384 };

static const struct pith_container *container(void)
{
    return pith_container_find("pith");
}

/* With f the factors of the width and s = np.arange(65536, dtype=np.uint16):
 *     b = lambda x: (x & 255).astype(int) + (x >> 8)
 *     v = (b(s * np.uint16(f[0])) + b(s * np.uint16(f[1])) - 510) / 128
 *     [(v * (s // 4096 == k)).sum() for k in (0, 5, 15)], v[[1, 77, 65535]] */
static void windows_say_what_numpy_has(void **state)
{
    static const struct {
        unsigned bits;
        double sums[3];
        float values[3];
    } want[] = {
        {2, {-1.5, 0.5, 0.5}, {-0.765625f, 0.3671875f, 0.78125f}},
        {3, {-0.25, -4.25, -2.25}, {-0.2421875f, 0.46875f, 0.2578125f}},
        {4, {10.75, 4.75, -13.25}, {-0.2578125f, -0.46875f, 0.2734375f}},
    };
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(want); i++) {
        static const uint32_t groups[] = {0, 5, 15}, windows[] = {1, 77, 65535};
        const unsigned bits = want[i].bits;
        for (size_t k = 0; k < 3; k++) {
            double sum = 0;
            for (uint32_t s = 0; s < 4096; s++)
                sum += (double)pith_trellis_value(PITH_TRELLIS_MUL2, bits, groups[k] * 4096 + s);
            assert_true(sum == want[i].sums[k]);
            assert_true(pith_trellis_value(PITH_TRELLIS_MUL2, bits, windows[k]) ==
                        want[i].values[k]);
        }
    }
}

static struct pith_qmat matrix(unsigned bits)
{
    const struct pith_grid grid = {.format = pith_trellis_format(PITH_TRELLIS_MUL2, bits),
                                   .granularity = PITH_PER_CHANNEL};
    struct pith_error err = {0};
    struct pith_qmat q;
    assert_ok(pith_qmat_init(&q, ROWS, COLS, &grid, PITH_F16, &err), err);
    for (size_t i = 0; i < ROWS * q.stride; i++) q.codes[i] = (uint8_t)(i * 37 + i / 251);
    for (size_t i = 0; i < ROWS; i++) q.scales[i] = (float)(1 + i % 7) / 64;
    for (size_t i = 0; i < COLS; i++) q.levels[i] = i % 3 ? 0.5f : -0.25f;
    return q;
}

/* A weight by the definition: its tile's bits one by one, both Hadamard matrices summed up. */
static double weight(const struct pith_qmat *q, size_t row, size_t col)
{
    const unsigned bits = q->format->bits;
    double sum = 0;
    for (size_t r = 0; r < 128; r++)
        for (size_t c = 0; c < 128; c++) {
            const size_t R = row / 128 * 128 + r, C = col / 128 * 128 + c;
            const uint8_t *tile = q->codes + pith_trellis_tile_at(q, R / 16, C / 16);
            const size_t lane = R % 8 * 2 + C % 16 / 8, t = R % 16 / 8 * 8 + C % 8;
            uint32_t s = 0;
            for (size_t k = 0; k < 16; k++) {
                const size_t bit = (lane * 16 * bits + (t + 1) * bits + 256 * bits - 16 + k) %
                                   (256 * bits);
                const size_t of = bit / (16 * bits), at = bit % (16 * bits);
                uint16_t word;
                memcpy(&word, tile + (at / 16 * 16 + of) * 2, 2);
                s = s << 1 | (word >> (15 - at % 16) & 1);
            }
            const bool odd = __builtin_parityll((row % 128 & r) << 7 | (col % 128 & c));
            const double v = (double)pith_trellis_value(PITH_TRELLIS_MUL2, bits, s);
            sum += odd ? -v : v;
        }
    return sum * (double)q->levels[col] / 128 * (double)q->scales[row];
}

static void matrices_are_what_their_definition_says(void **state)
{
    (void)state;
    static float w[ROWS * COLS];
    for (unsigned bits = 1; bits <= 8; bits++) {
        struct pith_qmat q = matrix(bits);
        pith_qmat_decode(&q, 0, ROWS, w);
        for (size_t i = 0; i < 6; i++) {
            const size_t row = i * 47 % ROWS, col = i * 131 % COLS;
            const double want = weight(&q, row, col);
            assert_true(fabs((double)w[row * COLS + col] - want) < 1e-5 * (1 + fabs(want)));
        }
        pith_qmat_free(&q);
    }
}

static void matrices_come_back(void **state)
{
    (void)state;
    for (unsigned bits = 1; bits <= 8; bits++) {
        struct pith_qmat q = matrix(bits);
        const struct pith_grid grid = pith_qmat_grid(&q);
        pack_and_read(container(), &grid, &q,
                      (struct pith_container_opts){.model_dtype = PITH_BF16});
        pith_qmat_free(&q);
    }
}

static void what_it_cannot_hold_is_refused(void **state)
{
    static const char *const grids[] = {"trellis3", "trellis3_mcg", "int4:g128"};
    struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    struct pith_error err = {0};
    struct pith_grid grid;
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        assert_ok(pith_grid_parse(grids[i], &grid, &err), err);
        assert_int_equal(container()->accepts(&grid, 128, 128, &opts, &err), PITH_UNSUPPORTED);
        assert_non_null(strstr(err.text, "holds trellis1_mul2 to trellis8_mul2"));
    }
    assert_ok(pith_grid_parse("trellis3_mul2", &grid, &err), err);
    assert_ok(container()->accepts(&grid, 128, 384, &opts, &err), err);
    assert_int_equal(container()->accepts(&grid, 128, 64, &opts, &err), PITH_UNSUPPORTED);
    assert_int_equal(container()->accepts(&grid, 192, 128, &opts, &err), PITH_UNSUPPORTED);
    opts.acts = grid;
    assert_int_equal(container()->accepts(&grid, 128, 128, &opts, &err), PITH_UNSUPPORTED);
}

/* A checkpoint of one module of 3 bits, whose tensors may be changed. */
struct file {
    struct pith_packed_set set;
    struct pith_tensor tensors[4];
    struct pith_checkpoint c;
    void *state; /* of the container */
};

static void open_file(struct file *f)
{
    static const char *const names[] = {"m.tiles", "m.columns", "m.rows"};
    struct pith_qmat q = matrix(3);
    struct pith_error err = {0};
    *f = (struct file){0};
    assert_ok(pith_container_pack(container(), &q, &(struct pith_container_opts){0}, &f->set, &err),
              err);
    pith_qmat_free(&q);
    for (size_t i = 0; i < 3; i++) {
        const struct pith_packed *p = &f->set.item[i];
        struct pith_tensor *t = &f->tensors[i];
        t->name = (char *)(uintptr_t)names[i];
        t->dtype = p->dtype;
        t->dims = p->dims;
        memcpy(t->shape, p->shape, sizeof t->shape);
        t->data = p->data;
        t->bytes = p->bytes;
    }
    f->c = (struct pith_checkpoint){.dir = (char *)(uintptr_t) "made",
                                    .quantization = json_pack("{s:s}", "code", "mul2"),
                                    .tensors = f->tensors,
                                    .count = 3};
    assert_ok(container()->open(&f->c, &f->state, &err), err);
}

static void files_that_lie_are_refused(void **state)
{
    (void)state;
    for (int lie = 0; lie < 10; lie++) {
        struct file f;
        struct pith_error err = {0};
        struct pith_qmat q;
        bool found = true;
        open_file(&f);
        struct pith_tensor *tiles = &f.tensors[0], *columns = &f.tensors[1];
        if (lie == 0) tiles->shape[2] = 95;
        if (lie == 1) tiles->shape[2] = (uint64_t)9 * 32;
        if (lie == 2) tiles->dims = 2;
        if (lie == 3) tiles->dtype = PITH_I8;
        if (lie == 4) tiles->shape[0]++;
        if (lie == 5) tiles->shape[1]--;
        if (lie == 6) columns->shape[0]--;
        if (lie == 7) ((uint16_t *)(uintptr_t)columns->data)[5] = 0x7e00; /* not a number */
        if (lie == 8) tiles->name = (char *)(uintptr_t) "m.weight";
        if (lie == 9) columns->name = (char *)(uintptr_t) "m.weight";
        const enum pith_status s =
            container()->load(f.state, &f.c, "m", ROWS, COLS, &q, &found, &err);
        if (s != PITH_FORMAT) fail_msg("lie %d: status %d, %s", lie, (int)s, err.text);
        assert_false(found);
        json_decref((json_t *)(uintptr_t)f.c.quantization);
        pith_packed_free(&f.set);
    }
}

static void other_codes_are_refused(void **state)
{
    static const char *const codes[] = {"mul3", NULL};
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(codes); i++) {
        struct pith_error err = {0};
        void *own;
        json_t *config = json_pack("{s:s, s:s*}", "quant_method", "pith", "code", codes[i]);
        const struct pith_checkpoint c = {.dir = (char *)(uintptr_t) "made",
                                          .quantization = config};
        assert_int_equal(container()->open(&c, &own, &err), PITH_UNSUPPORTED);
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_say_what_numpy_has),
        cmocka_unit_test(matrices_are_what_their_definition_says),
        cmocka_unit_test(matrices_come_back),
        cmocka_unit_test(what_it_cannot_hold_is_refused),
        cmocka_unit_test(files_that_lie_are_refused),
        cmocka_unit_test(other_codes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
