#include "num/kvquant.h"

#include "num/format.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { COLS = 1024, STEPS = 254 };

static float half(float x)
{
    const float most = 65504;
    return pith_round_to(PITH_F16, x > most ? most : x < -most ? -most : x);
}

float pith_kvquant_factor(uint8_t step)
{
    static const float quarter[] = {1.0f, 0x1.306fep0f, 0x1.6a09e6p0f, 0x1.ae89fap0f};
    return step == PITH_KVQUANT_NAN ? NAN : ldexpf(quarter[step % 4], step / 4);
}

/* The lower of two as near. */
static uint32_t nearest(const struct pith_kvquant *q, float x)
{
    uint32_t best = 0;
    float least = fabsf(x - q->level[0]);
    for (uint32_t i = 1; i < 1u << q->bits; i++) {
        const float d = fabsf(x - q->level[i]);
        if (d < least) least = d, best = i;
    }
    return best;
}

static bool all_finite(const float *x, uint32_t n)
{
    float sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i] - x[i]; /* 0, or NaN */
    return sum == 0;
}

/* Of harm[n], those above 0 are marked true in apart[n]: all, or the `room` greatest, the first of
 * those alike. How many are. */
static uint32_t choose(const float *harm, uint32_t n, uint32_t room, bool *apart)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) count += apart[i] = harm[i] > 0;
    if (count <= room) return count;
    memset(apart, 0, n * sizeof *apart);
    for (uint32_t k = 0; k < room; k++) {
        uint32_t most = n;
        for (uint32_t i = 0; i < n; i++)
            if (!apart[i] && (most == n || harm[i] > harm[most])) most = i;
        apart[most] = true;
    }
    return room;
}

static void put_apart(const float *x, const bool *apart, uint32_t n, struct pith_kvquant_row *out)
{
    out->outliers = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!apart[i]) continue;
        out->column[out->outliers] = (uint16_t)i;
        out->outlier[out->outliers++] = half(x[i]);
    }
}

/* Codes of z[cols] * 1 / factor, and what they lose, but for what is apart. */
static double code_row(const struct pith_kvquant *q, const float *z, const bool *apart,
                       float factor, uint8_t *code)
{
    double loss = 0;
    for (uint32_t i = 0; i < q->cols; i++) {
        code[i] = (uint8_t)nearest(q, apart[i] ? 0 : z[i] / factor);
        const double error = (z[i] - q->level[code[i]] * factor) * (q->range ? q->range[i] : 1.0f);
        if (!apart[i]) loss += error * error;
    }
    return loss;
}

void pith_kvquant_key(const struct pith_kvquant *q, const float *x, struct pith_kvquant_row *out)
{
    float z[COLS], harm[COLS], most = 0;
    bool apart[COLS];
    uint8_t other[COLS];
    out->outliers = 0;
    out->step = PITH_KVQUANT_NAN;
    memset(out->code, 0, q->cols);
    if (!all_finite(x, q->cols)) return;
    for (uint32_t i = 0; i < q->cols; i++) {
        z[i] = (x[i] - q->middle[i]) / q->range[i];
        harm[i] = (fabsf(z[i]) - 1) * q->range[i];
    }
    (void)choose(harm, q->cols, out->room, apart);
    put_apart(x, apart, q->cols, out);
    out->step = 0;
    double least = code_row(q, z, apart, 1, out->code);
    for (uint32_t i = 0; i < q->cols; i++)
        if (!apart[i] && fabsf(z[i]) > most) most = fabsf(z[i]);
    for (unsigned s = 1; s < STEPS && pith_kvquant_factor((uint8_t)(s - 1)) < most; s++) {
        const double loss = code_row(q, z, apart, pith_kvquant_factor((uint8_t)s), other);
        if (!(loss < least)) continue;
        least = loss;
        out->step = (uint8_t)s;
        memcpy(out->code, other, q->cols);
    }
}

/* Middle and range of what is not apart. */
static void find_range(const float *x, const bool *apart, uint32_t n, struct pith_kvquant_row *out)
{
    float lo = INFINITY, hi = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (apart[i]) continue;
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    out->middle = half((hi + lo) / 2);
    out->range = half((hi - lo) / 2);
}

void pith_kvquant_value(const struct pith_kvquant *q, const float *x, struct pith_kvquant_row *out)
{
    float z[COLS], harm[COLS], sum = 0;
    bool apart[COLS];
    out->outliers = 0;
    out->step = 0;
    memset(out->code, 0, q->cols);
    out->middle = out->range = NAN;
    for (uint32_t i = 0; i < q->cols; i++) sum += fabsf(x[i]);
    if (!all_finite(x, q->cols) || !isfinite(sum)) return;
    const float limit = q->beyond * (sum / (float)q->cols);
    for (uint32_t i = 0; i < q->cols; i++) harm[i] = fabsf(x[i]) - limit;
    if (choose(harm, q->cols, out->room, apart) == q->cols) memset(apart, 0, q->cols);
    put_apart(x, apart, q->cols, out);
    find_range(x, apart, q->cols, out);
    for (uint32_t i = 0; i < q->cols; i++)
        z[i] = out->range > 0 ? (x[i] - out->middle) / out->range : 0;
    const struct pith_kvquant levels = {.bits = q->bits, .cols = q->cols, .level = q->level};
    (void)code_row(&levels, z, apart, 1, out->code);
}
