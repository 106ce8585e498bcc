#include "quant/rotation.h"

#include "base/mem.h"
#include "num/hadamard.h"

#include <math.h>
#include <string.h>

/* Vectors that are rotated together: as many doubles as a cache line has. */
enum { WIDTH = 8 };

enum pith_status pith_rotation_init(struct pith_rotation *r, uint32_t dim, uint32_t block,
                                    struct pith_rng *rng, struct pith_error *err)
{
    const uint32_t core = pith_hadamard_core(block);
    *r = (struct pith_rotation){0};
    if (core == 0 || dim == 0 || dim % block != 0)
        return pith_fail(err, PITH_ARG, "vectors of %u cannot be rotated in blocks of %u", dim,
                         block);
    *r = (struct pith_rotation){.dim = dim, .block = block, .core = core};
    r->matrix = pith_alloc((size_t)core * core, 1);
    if (rng) r->signs = pith_alloc(dim, 1);
    if (!r->matrix || (rng && !r->signs) || !pith_hadamard_fill(core, r->matrix)) {
        pith_rotation_free(r);
        return pith_fail_nomem(err, "a rotation");
    }
    for (uint32_t i = 0; rng && i < dim; i++) r->signs[i] = pith_rng_next(rng) & 1 ? 1 : -1;
    return PITH_OK;
}

void pith_rotation_free(struct pith_rotation *r)
{
    pith_free(r->matrix);
    pith_free(r->signs);
    *r = (struct pith_rotation){0};
}

/* A run of vectors on its way. */
struct rotation_job {
    const struct pith_rotation *r;
    float *w;
    size_t rows, cols;
    double *memory; /* for each thread, [2][block][WIDTH] */
};

/* Butterflies over x[n][WIDTH], n a power of two. */
static void sylvester(double *x, size_t n)
{
    for (size_t half = n / 2 * WIDTH; half >= WIDTH; half /= 2)
        for (size_t first = 0; first < n * WIDTH; first += 2 * half)
            for (size_t i = first; i < first + half; i++) {
                const double a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
}

/* WIDTH columns of a row of the core's product: eight sums that stay in registers, which compilers
 * do not make of an array. */
static void multiply_row(const int8_t *row, size_t core, const double *x, size_t size, double *out)
{
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
    for (size_t c = 0; c < core; c++, x += size) {
        const double s = row[c];
        s0 += s * x[0];
        s1 += s * x[1];
        s2 += s * x[2];
        s3 += s * x[3];
        s4 += s * x[4];
        s5 += s * x[5];
        s6 += s * x[6];
        s7 += s * x[7];
    }
    memcpy(out, (double[WIDTH]){s0, s1, s2, s3, s4, s5, s6, s7}, WIDTH * sizeof *out);
}

/* The core's product over pieces x[core][size]; size is a multiple of WIDTH, and out does not
 * overlap x. */
static void multiply_core(const struct pith_rotation *r, const double *x, size_t size, double *out)
{
    for (size_t i = 0; i < size; i += WIDTH)
        for (size_t a = 0; a < r->core; a++)
            multiply_row(r->matrix + a * r->core, r->core, x + i, size, out + a * size + i);
}

/* H x of one block x[block][WIDTH]; the result, which may be the scratch. */
static const double *rotate_block(const struct pith_rotation *r, double *x, double *scratch)
{
    const size_t size = r->block / r->core;
    for (size_t c = 0; c < r->core; c++) sylvester(x + c * size * WIDTH, size);
    if (r->core == 1) return x;
    multiply_core(r, x, size * WIDTH, scratch);
    return scratch;
}

/* Rotates `count` vectors at once, element i of vector k at w[i * step + k * apart]; `at` is where
 * in the whole vector the block begins. */
static void rotate_vectors(const struct rotation_job *t, unsigned thread, size_t at, float *w,
                           size_t count, size_t step, size_t apart)
{
    const struct pith_rotation *r = t->r;
    const int8_t *signs = r->signs ? r->signs + at % r->dim : NULL;
    const double scale = sqrt((double)r->block);
    double *x = t->memory + thread * 2 * r->block * WIDTH;
    if (count < WIDTH) memset(x, 0, r->block * WIDTH * sizeof *x);
    for (size_t i = 0; i < r->block; i++)
        for (size_t k = 0; k < count; k++) x[i * WIDTH + k] = (double)w[i * step + k * apart];
    for (size_t i = 0; signs && i < r->block; i++)
        for (size_t k = 0; k < WIDTH; k++) x[i * WIDTH + k] *= signs[i];
    const double *y = rotate_block(r, x, x + r->block * WIDTH);
    for (size_t i = 0; i < r->block; i++)
        for (size_t k = 0; k < count; k++)
            w[i * step + k * apart] = (float)(y[i * WIDTH + k] / scale);
}

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

static void rotate_rows(void *ctx, size_t task, unsigned thread)
{
    const struct rotation_job *t = ctx;
    const size_t row = task * WIDTH, count = at_most(t->rows - row, WIDTH);
    for (size_t at = 0; at < t->cols; at += t->r->block)
        rotate_vectors(t, thread, at, t->w + row * t->cols + at, count, 1, t->cols);
}

static void rotate_columns(void *ctx, size_t task, unsigned thread)
{
    const struct rotation_job *t = ctx;
    const size_t col = task * WIDTH, count = at_most(t->cols - col, WIDTH);
    for (size_t at = 0; at < t->rows; at += t->r->block)
        rotate_vectors(t, thread, at, t->w + at * t->cols + col, count, t->cols, 1);
}

uint64_t pith_rotation_scratch(const struct pith_rotation *r, unsigned threads)
{
    return (uint64_t)threads * 2 * r->block * WIDTH * sizeof(double);
}

static enum pith_status run(struct pith_pool *pool, struct rotation_job *t, bool outputs,
                            struct pith_error *err)
{
    const unsigned threads = pith_pool_threads(pool);
    if (t->r->dim == 0) return PITH_OK;
    if ((outputs ? t->rows : t->cols) % t->r->dim != 0)
        return pith_fail(err, PITH_ARG, "a matrix of %zu x %zu does not meet vectors of %u",
                         t->rows, t->cols, t->r->dim);
    t->memory = pith_alloc_aligned(pith_rotation_scratch(t->r, threads), 1);
    if (!t->memory) return pith_fail_nomem(err, "a rotation");
    if (outputs) pith_pool_run(pool, (t->cols + WIDTH - 1) / WIDTH, rotate_columns, t);
    else pith_pool_run(pool, (t->rows + WIDTH - 1) / WIDTH, rotate_rows, t);
    pith_free(t->memory);
    return PITH_OK;
}

enum pith_status pith_rotate_inputs(struct pith_pool *pool, const struct pith_rotation *r, float *w,
                                    size_t rows, size_t cols, struct pith_error *err)
{
    struct rotation_job t = {.r = r, .w = w, .rows = rows, .cols = cols};
    return run(pool, &t, false, err);
}

enum pith_status pith_rotate_outputs(struct pith_pool *pool, const struct pith_rotation *r,
                                     float *w, size_t rows, size_t cols, struct pith_error *err)
{
    struct rotation_job t = {.r = r, .w = w, .rows = rows, .cols = cols};
    return run(pool, &t, true, err);
}
