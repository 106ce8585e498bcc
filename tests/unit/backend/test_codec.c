/* num/codec, backend/: a codec that this program does not have, whose codes stand for four weights
 * each, is one row: everything that holds a quantized matrix takes it. */
#include "backend/backend.h"
#include "base/mem.h"
#include "base/rng.h"
#include "num/qmat.h"
#include "test.h"

#include <math.h>

enum { ROWS = 5, COLS = 50, SPAN = 4, CODES = (COLS + SPAN - 1) / SPAN, GROUP = 16, GROUPS = 4 };

static void read_vectors(const struct pith_reader *in, uint32_t row, uint32_t col, uint32_t n,
                         float *out)
{
    const struct pith_qmat *q = in->q;
    for (uint32_t c = col; c < col + n; c++) {
        uint8_t code;
        pith_bits_get(q->codes + row * q->stride, c / SPAN, q->format->bits, 1, &code);
        *out++ = q->levels[code * SPAN + c % SPAN];
    }
}

static const struct pith_codec vectors = {
    .name = "vectors", .span = SPAN, .table = PITH_TABLE_MATRIX, .read = read_vectors};
static const struct pith_format format = {
    .name = "vectors", .kind = PITH_KIND_CODEBOOK, .bits = 6, .block = 1, .codec = &vectors};
static const struct pith_grid grid = {
    .format = &format, .granularity = PITH_PER_GROUP, .group = GROUP};

static struct pith_qmat make(uint64_t seed)
{
    struct pith_error err = {0};
    struct pith_rng rng;
    struct pith_qmat q;
    uint8_t codes[CODES];
    pith_rng_seed(&rng, seed);
    assert_ok(pith_qmat_init(&q, ROWS, COLS, &grid, PITH_F16, &err), err);
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t i = 0; i < CODES; i++) codes[i] = (uint8_t)pith_rng_below(&rng, 64);
        pith_qmat_set_codes(&q, r, codes);
    }
    for (size_t i = 0; i < ROWS * GROUPS; i++) q.scales[i] = (float)pith_rng_normal(&rng);
    for (size_t i = 0; i < 64 * SPAN; i++) q.levels[i] = (float)pith_rng_normal(&rng);
    return q;
}

static float weight_of(const struct pith_qmat *q, uint32_t r, uint32_t c)
{
    uint8_t codes[CODES];
    pith_qmat_get_codes(q, r, codes);
    return q->levels[codes[c / SPAN] * SPAN + c % SPAN] * q->scales[r * GROUPS + c / GROUP];
}

static void a_row_of_codes_is_as_long_as_it_needs(void **state)
{
    (void)state;
    struct pith_qmat q = make(1);
    assert_int_equal(pith_qmat_codes(&q), CODES);
    assert_int_equal(q.stride, (CODES * 6 + 7) / 8);
    assert_int_equal(pith_qmat_level_count(&q), 64 * SPAN);
    const double bits = ROWS * (6.0 * CODES + 16.0 * GROUPS) + 16.0 * 64 * SPAN;
    assert_true(fabs(pith_qmat_bits_per_weight(&q) * ROWS * COLS - bits) < 1e-9 * bits);
    pith_qmat_free(&q);
}

static void every_part_of_a_row_decodes(void **state)
{
    (void)state;
    struct pith_qmat q = make(2);
    float part[COLS];
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t col = 0; col < COLS; col++)
            for (uint32_t n = 0; n <= COLS - col; n++) {
                pith_qmat_decode_part(&q, r, col, n, part);
                for (uint32_t i = 0; i < n; i++) assert_true(part[i] == weight_of(&q, r, col + i));
            }
    pith_qmat_free(&q);
}

static void it_is_compared_and_checked(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_qmat q = make(3), other = make(3);
    assert_true(pith_qmat_equal(&q, &other));
    assert_ok(pith_qmat_check(&q, &err), err);
    other.codes[2 * other.stride] ^= 1;
    assert_false(pith_qmat_equal(&q, &other));
    other.codes[2 * other.stride] ^= 1;
    other.levels[255] += 1.0f;
    assert_false(pith_qmat_equal(&q, &other));
    other.levels[255] = NAN;
    assert_int_equal(pith_qmat_check(&other, &err), PITH_FORMAT);
    pith_qmat_free(&q);
    pith_qmat_free(&other);
}

/* What has no form of the backend's own is computed from the codec. */
static void it_is_multiplied(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_backend *b = NULL;
    struct pith_qmat q = make(4);
    const struct pith_weight w = {.rows = ROWS, .cols = COLS, .quant = &q};
    float x[COLS], y[ROWS], decoded[ROWS * COLS], row[COLS];
    for (uint32_t c = 0; c < COLS; c++) x[c] = (float)c / COLS - 0.3f;
    assert_ok(pith_backend_new(NULL, UINT32_MAX, &b, &err), err);
    pith_decode_rows(b, &w, 0, ROWS, decoded);
    pith_linear(b, &w, NULL, x, 1, y);
    for (uint32_t r = 0; r < ROWS; r++) {
        double sum = 0.0;
        pith_qmat_decode(&q, r, 1, row);
        assert_memory_equal(decoded + r * COLS, row, sizeof row);
        for (uint32_t c = 0; c < COLS; c++) sum += (double)row[c] * (double)x[c];
        assert_true(fabs((double)y[r] - sum) < 1e-5);
    }
    pith_backend_free(b);
    pith_qmat_free(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_of_codes_is_as_long_as_it_needs),
        cmocka_unit_test(every_part_of_a_row_decodes),
        cmocka_unit_test(it_is_compared_and_checked),
        cmocka_unit_test(it_is_multiplied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
