#include "num/hadamard.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* --- finite fields ---------------------------------------------------------------------------- */

enum { MAX_DEGREE = 10 };

/* A field of q = p^k elements. An element is a number below q whose digits to base p are the
 * coefficients of a polynomial of degree below k. */
struct field {
    uint32_t p, k, q;
};

/* False when q is no power of an odd prime. */
static bool find_field(uint32_t q, struct field *f)
{
    uint32_t p = 3, rest = q;
    if (q < 3 || q % 2 == 0) return false;
    while (p * p <= q && q % p != 0) p += 2;
    if (q % p != 0) p = q;
    *f = (struct field){.p = p, .q = q};
    for (; rest % p == 0; rest /= p) f->k++;
    return rest == 1;
}

/* x * e, where x^k is the polynomial with these coefficients. */
static uint32_t times_x(const struct field *f, uint32_t e, const uint32_t tail[MAX_DEGREE])
{
    const uint32_t top = e / (f->q / f->p);
    uint32_t low = e % (f->q / f->p) * f->p, out = 0, place = 1;
    for (uint32_t i = 0; i < f->k; i++) {
        out += (low % f->p + top * tail[i]) % f->p * place;
        low /= f->p;
        place *= f->p;
    }
    return out;
}

/* Whether the powers of x run through all elements but 0; then kind[e] is 1 for the squares, which
 * are its even powers, -1 for the others, and 0 for 0. */
static bool try_polynomial(const struct field *f, uint32_t coefficients, int8_t *kind)
{
    uint32_t tail[MAX_DEGREE], e = 1;
    for (uint32_t i = 0; i < f->k; i++) {
        tail[i] = coefficients % f->p;
        coefficients /= f->p;
    }
    memset(kind, 0, f->q);
    for (uint32_t power = 0; power < f->q - 1; power++) {
        if (e == 0 || kind[e] != 0) return false;
        kind[e] = power % 2 == 0 ? 1 : -1;
        e = times_x(f, e, tail);
    }
    return true;
}

/* kind[q] as above: the quadratic character of the field. */
static void find_squares(const struct field *f, int8_t *kind)
{
    uint32_t c = 1;
    while (c < f->q && !try_polynomial(f, c, kind)) c++;
}

static uint32_t minus(const struct field *f, uint32_t a, uint32_t b)
{
    uint32_t out = 0, place = 1;
    for (uint32_t i = 0; i < f->k; i++) {
        out += (a % f->p + f->p - b % f->p) % f->p * place;
        a /= f->p;
        b /= f->p;
        place *= f->p;
    }
    return out;
}

/* --- cores ------------------------------------------------------------------------------------ */

/* The field of the core of order m; *doubled is which of Paley's constructions it is. */
static bool core_field(uint32_t m, struct field *f, bool *doubled)
{
    if (m < 4 || m % 4 != 0 || m > PITH_HADAMARD_CORE) return false;
    *doubled = false;
    if (find_field(m - 1, f)) return true; /* 3 mod 4, as m is a multiple of 4 */
    *doubled = true;
    return (m / 2 - 1) % 4 == 1 && find_field(m / 2 - 1, f);
}

uint32_t pith_hadamard_core(uint32_t n)
{
    struct field f;
    bool doubled;
    if (n == 0) return 0;
    if ((n & (n - 1)) == 0) return 1;
    uint32_t m = n;
    while (m % 8 == 0) m /= 2;
    for (; m <= n && m <= PITH_HADAMARD_CORE; m *= 2)
        if (core_field(m, &f, &doubled)) return m;
    return 0;
}

/* Entry (i, j) of the bordered matrix of differences: 0 on the diagonal, 1 in the first row, `edge`
 * in the first column, and beyond whether the elements' difference is a square. */
static int bordered(const struct field *f, const int8_t *kind, int edge, uint32_t i, uint32_t j)
{
    if (i == 0) return j == 0 ? 0 : 1;
    return j == 0 ? edge : kind[minus(f, i - 1, j - 1)];
}

bool pith_hadamard_fill(uint32_t m, int8_t *entries)
{
    struct field f;
    bool doubled;
    if (m == 1) entries[0] = 1;
    if (m == 1) return true;
    if (!core_field(m, &f, &doubled)) return false;
    int8_t *kind = pith_alloc(f.q, 1);
    if (!kind) return false;
    find_squares(&f, kind);
    const uint32_t half = f.q + 1;
    for (uint32_t i = 0; i < half; i++)
        for (uint32_t j = 0; j < half; j++) {
            const int s = bordered(&f, kind, doubled ? 1 : -1, i, j), one = i == j;
            if (!doubled) {
                entries[(size_t)i * m + j] = (int8_t)(s + one);
                continue;
            }
            /* s [1 1; 1 -1] + one [1 -1; -1 -1] */
            int8_t *at = entries + (size_t)2 * i * m + 2 * j;
            at[0] = (int8_t)(s + one);
            at[1] = at[m] = (int8_t)(s - one);
            at[m + 1] = (int8_t)(-s - one);
        }
    pith_free(kind);
    return true;
}

uint32_t pith_hadamard_divisor(uint32_t dim)
{
    for (uint32_t parts = 1; parts < dim; parts++)
        if (dim % parts == 0 && pith_hadamard_core(dim / parts)) return dim / parts;
    return 1;
}

uint32_t pith_hadamard_power(uint32_t dim, uint32_t limit)
{
    uint32_t n = 1;
    while (n <= limit / 2 && dim % (2 * n) == 0) n *= 2;
    return n;
}

/* --- the online product ----------------------------------------------------------------------- */

void pith_hadamard_rows(float *x, size_t n, size_t dim, uint32_t block)
{
    const float scale = (float)(1 / sqrt((double)block));
    for (size_t at = 0; at < n * dim; at += block) {
        float *v = x + at;
        for (uint32_t half = block / 2; half > 0; half /= 2)
            for (uint32_t first = 0; first < block; first += 2 * half)
                for (uint32_t i = first; i < first + half; i++) {
                    const float a = v[i], b = v[i + half];
                    v[i] = a + b;
                    v[i + half] = a - b;
                }
        for (uint32_t i = 0; i < block; i++) v[i] *= scale;
    }
}
