/* quant/split/sparse.c: a few weights in 16 bits off the grid (SqueezeLLM, Kim et al. 2024): mostly
 * the largest, which would stretch the grid, and some of those whose errors would cost most.
 *
 * The paper takes the latter by the loss's second derivative. Here that is w^2 times the mean
 * square of its input: the output's share that the weight makes. */
#include "quant/tables.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double PERCENT_DEFAULT = 0.45, PERCENT_MOST = 50.0;
enum { SENSITIVE = 9 }; /* one weight in nine is taken for its sensitivity, as 0.05 of 0.45 is */

static enum pith_status option(const char *text, double *value, struct pith_error *err)
{
    char *end = NULL;
    const double percent = text[0] ? strtod(text, &end) : PERCENT_DEFAULT;
    const bool plain = strspn(text, "0123456789.") == strlen(text) && (!end || *end == '\0');
    if (!plain || !(percent > 0.0 && percent <= PERCENT_MOST))
        return pith_fail(err, PITH_ARG,
                         "sparse:%.24s: expected the percentage of weights to keep, above 0 and at"
                         " most %g, as in sparse:0.45",
                         text, PERCENT_MOST);
    *value = percent;
    return PITH_OK;
}

/* ---- choosing ---- */

struct choice {
    const struct pith_split_job *job;
    const float *norm; /* [cols]; NULL: magnitude alone counts */
    uint8_t *taken;    /* a bit a weight */
};

static bool is_taken(const struct choice *x, size_t i)
{
    return x->taken[i / 8] >> i % 8 & 1;
}

/* Grows with the score; 0 when the weight is taken already. */
static uint32_t rank_of(const struct choice *x, size_t i, uint32_t c)
{
    const float score = fabsf(x->job->w[i]) * (x->norm ? x->norm[c] : 1.0f);
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return is_taken(x, i) ? 0 : bits + 1;
}

/* The rank of the `count`th of all, from the top; *above receives how many rank higher. Bits are
 * settled from the top, some at a time, by counting. */
static uint32_t find_rank(const struct choice *x, size_t count, size_t *above)
{
    static const unsigned shifts[] = {21, 10, 0};
    uint32_t known = 0, mask = 0;
    *above = 0;
    for (size_t pass = 0; pass < PITH_COUNT(shifts); pass++) {
        size_t bins[2048] = {0}, i = 0;
        const unsigned shift = shifts[pass], width = pass == 2 ? 1024 : 2048;
        for (uint32_t r = 0; r < x->job->rows; r++)
            for (uint32_t c = 0; c < x->job->cols; c++) {
                const uint32_t rank = rank_of(x, i++, c);
                if ((rank & mask) == known) bins[rank >> shift & (width - 1)]++;
            }
        unsigned bin = width - 1;
        while (bin > 0 && *above + bins[bin] < count) *above += bins[bin--];
        known |= (uint32_t)bin << shift;
        mask |= (uint32_t)(width - 1) << shift;
    }
    return known;
}

/* Takes the `count` highest; of equals those that come first. */
static void take(struct choice *x, size_t count)
{
    size_t above;
    if (count == 0) return;
    const uint32_t least = find_rank(x, count, &above);
    size_t equals = count - above, i = 0;
    for (uint32_t r = 0; r < x->job->rows; r++)
        for (uint32_t c = 0; c < x->job->cols; c++, i++) {
            const uint32_t rank = rank_of(x, i, c);
            if (rank < least || (rank == least && equals == 0)) continue;
            if (rank == least) equals--;
            x->taken[i / 8] |= (uint8_t)(1u << i % 8);
        }
}

/* Moves what is taken out of w. */
static void move_out(const struct choice *x, struct pith_sparse *s)
{
    uint32_t at = 0;
    for (uint32_t r = 0; r < x->job->rows; r++) {
        s->start[r] = at;
        for (uint32_t c = 0; c < x->job->cols; c++) {
            const size_t i = (size_t)r * x->job->cols + c;
            if (!is_taken(x, i)) continue;
            s->col[at] = c;
            s->value[at++] = x->job->w[i];
            x->job->w[i] = 0.0f;
        }
    }
    s->start[x->job->rows] = at;
}

static enum pith_status run(const struct pith_split_job *job, struct pith_off_grid *off_grid,
                            struct pith_error *err)
{
    if (!job->stats || !job->stats->squares || job->stats->dim != job->cols)
        return pith_fail(err, PITH_ARG, "the choice of weights to keep needs the inputs' norms");
    const size_t count = pith_sparse_count(job->rows, job->cols, job->value);
    if (count == 0) return PITH_OK;
    struct choice x = {.job = job};
    float *norm = pith_alloc(job->cols, sizeof *norm);
    x.taken = pith_zalloc(job->rows, pith_zeros_stride(job->cols));
    off_grid->sparse = pith_sparse_new(job->rows, count);
    if (norm && x.taken && off_grid->sparse) {
        take(&x, count - count / SENSITIVE);
        for (uint32_t c = 0; c < job->cols; c++) norm[c] = sqrtf(job->stats->squares[c]);
        x.norm = norm;
        take(&x, count / SENSITIVE);
        move_out(&x, off_grid->sparse);
    }
    const bool good = norm && x.taken && off_grid->sparse;
    pith_free(norm);
    pith_free(x.taken);
    return good ? PITH_OK : pith_fail_nomem(err, "the weights off the grid");
}

const struct pith_split pith_split_sparse = {
    .name = "sparse",
    .summary = "some weights in 16 bits off the grid: sparse:PERCENT, 0.45 unless given",
    .needs = PITH_NEED_SQUARES,
    .sparse = true,
    .option = option,
    .run = run,
};
