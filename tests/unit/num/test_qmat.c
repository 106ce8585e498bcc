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
    const size_t scales = q.per_tensor ? 1 : (size_t)rows * q.groups;
    for (size_t i = 0; i < scales; i++) {
        q.scales[i] = (float)pith_rng_normal(rng);
        if (q.zeros) q.zeros[i] = (uint8_t)(pith_rng_next(rng) & top);
    }
    return q;
}

static double naive_weight(const struct pith_qmat *q, uint32_t r, uint32_t c)
{
    const unsigned code = naive_get(q->codes + r * q->stride, c, q->format->bits);
    const uint32_t g = q->g_idx ? q->g_idx[c] : c / q->group;
    const size_t i = q->per_tensor ? 0 : (size_t)r * q->groups + g;
    double v = code;
    if (q->format->kind == PITH_KIND_INT) v -= q->zeros ? q->zeros[i] : pow(2, q->format->bits - 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_all_widths_and_offsets),
        cmocka_unit_test(decode_is_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
