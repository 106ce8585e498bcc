/* The definitions of products with packed panels: see kern/panel.h. */
#include "kern/ops.h"
#include "num/elements/elements.h"
#include "num/format.h"

#include <math.h>
#include <string.h>

float pith_panel_scale_at(const struct pith_panels *m, size_t index)
{
    const uint8_t *bytes = m->scales;
    uint16_t h;
    float f;
    switch (m->scale) {
    case PITH_SCALE_F32: memcpy(&f, bytes + index * 4, 4); return f;
    case PITH_SCALE_BF16: memcpy(&h, bytes + index * 2, 2); return pith_bf16_to_f32(h);
    case PITH_SCALE_F16: memcpy(&h, bytes + index * 2, 2); return pith_f16_to_f32(h);
    case PITH_SCALE_E8M0: return pith_e8m0_decode(bytes[index]);
    case PITH_SCALE_E4M3: return pith_fp8_e4m3_decode(bytes[index]) * m->global;
    case PITH_SCALE_PRODUCT:
        memcpy(&h, (const char *)m->outer + pith_panel_outer(m, index) * 2, 2);
        return (float)(int8_t)bytes[index] * pith_f16_to_f32(h);
    }
    return 0.0f;
}

enum { HALF = PITH_PANEL_LINE / 2 };

/* Byte `at` of word k in a plane of 4, 2 and 1 bits. */
static unsigned four_bits(const uint8_t *plane, size_t k, size_t at)
{
    return (unsigned)plane[k / 2 * PITH_PANEL_LINE + at] >> 4 * (k % 2) & 15u;
}
static unsigned two_bits(const uint8_t *plane, size_t k, size_t at)
{
    return plane[at] >> (4 * (k % 2) + 2 * (k / 2)) & 3u;
}
static unsigned one_bit(const uint8_t *plane, size_t k, size_t at)
{
    return (unsigned)plane[at % HALF] >> (k + (at < HALF ? 4 : 0)) & 1u;
}

static unsigned three_bits(const uint8_t *step, size_t k, size_t at)
{
    const size_t shift = 4 * (k % 2);
    unsigned code = 0;
    if (k < 2 || at < HALF) return (unsigned)step[k / 2 * PITH_PANEL_LINE + at] >> shift & 7u;
    for (size_t i = 0; i < 3; i++)
        code |= (step[i * HALF + at - HALF] >> (shift + 3) & 1u) << i;
    return code;
}

/* Byte `at` of word k of a step of planes. */
static unsigned step_code(unsigned bits, const uint8_t *step, size_t k, size_t at)
{
    const uint8_t *upper = step + 2 * PITH_PANEL_LINE;
    switch (bits) {
    case 2: return two_bits(step, k, at);
    case 3: return three_bits(step, k, at);
    case 5: return four_bits(step, k, at) | one_bit(upper, k, at) << 4;
    case 6:
    default: return four_bits(step, k, at) | two_bits(upper, k, at) << 4;
    }
}

/* The same the other way. Bytes from bit `from` of the words on; loops that compilers make vectors
 * of. */
typedef const uint8_t step_words[PITH_PANEL_WORDS][PITH_PANEL_LINE];

static void put_four(step_words w, uint8_t *restrict plane)
{
    for (size_t k = 0; k < PITH_PANEL_WORDS; k += 2, plane += PITH_PANEL_LINE)
        for (size_t at = 0; at < PITH_PANEL_LINE; at++)
            plane[at] = (uint8_t)((w[k][at] & 15) | w[k + 1][at] << 4);
}

static void put_two(step_words w, int from, uint8_t *restrict plane)
{
    for (size_t at = 0; at < PITH_PANEL_LINE; at++)
        plane[at] = (uint8_t)((w[0][at] >> from & 3) | (w[2][at] >> from & 3) << 2 |
                              (w[1][at] >> from & 3) << 4 | (w[3][at] >> from & 3) << 6);
}

static void put_one(step_words w, int from, uint8_t *restrict plane)
{
    memset(plane, 0, HALF);
    for (int k = 0; k < PITH_PANEL_WORDS; k++)
        for (size_t at = 0; at < HALF; at++) {
            const int low = w[k][HALF + at] >> from & 1, high = w[k][at] >> from & 1;
            plane[at] = (uint8_t)(plane[at] | low << k | high << (4 + k));
        }
}

static void put_three(step_words w, uint8_t *restrict step)
{
    for (size_t at = 0; at < HALF; at++) {
        const int over = w[2][HALF + at] | w[3][HALF + at] << 4;
        const int a = w[0][at] | w[1][at] << 4, c = w[2][at] | w[3][at] << 4;
        const int b = w[0][HALF + at] | w[1][HALF + at] << 4;
        step[at] = (uint8_t)((a & 0x77) | (over & 0x11) << 3);
        step[HALF + at] = (uint8_t)((b & 0x77) | (over & 0x22) << 2);
        step[2 * HALF + at] = (uint8_t)((c & 0x77) | (over & 0x44) << 1);
    }
}

void pith_panel_put_step(unsigned bits, const uint8_t words[PITH_PANEL_WORDS][PITH_PANEL_LINE],
                         uint8_t *to)
{
    uint8_t *upper = to + 2 * PITH_PANEL_LINE;
    if (bits == 2) put_two(words, 0, to);
    if (bits == 3) put_three(words, to);
    if (bits > 4) put_four(words, to);
    if (bits == 5) put_one(words, 4, upper);
    if (bits == 6) put_two(words, 4, upper);
}

unsigned pith_panel_code_at(const struct pith_panels *m, size_t panel, size_t r, size_t c)
{
    const size_t step = pith_panel_step(m->bits), k = c % step / 4, at = r * 4 + c % 4;
    const uint8_t *line = pith_panel_at(m, panel, c - c % step);
    if (m->bits == 4) return four_bits(line, k, at);
    return m->bits == 8 ? line[at] : step_code(m->bits, line, k, at);
}

static float zero_at(const struct pith_panels *m, size_t index)
{
    if (m->zeros) return (float)m->zeros[index];
    return m->form == PITH_PANEL_INT8 ? m->zero : 0.0f;
}

float pith_panel_value_at(const struct pith_panels *m, size_t panel, size_t r, size_t c)
{
    const unsigned code = pith_panel_code_at(m, panel, r, c);
    const size_t index = (panel * m->groups + c / m->group) * PITH_PANEL_ROWS + r;
    switch (m->form) {
    case PITH_PANEL_LEVEL4: return m->level[code] - zero_at(m, index);
    case PITH_PANEL_INT8: return (float)code - zero_at(m, index);
    case PITH_PANEL_E4M3: return pith_fp8_e4m3_decode(code);
    case PITH_PANEL_E5M2: return pith_fp8_e5m2_decode(code);
    }
    return 0.0f;
}

static size_t group_end(const struct pith_panels *m, size_t g)
{
    return (g + 1) * m->group < m->cols ? (g + 1) * m->group : m->cols;
}

static float row_chain(const struct pith_panels *m, size_t panel, size_t r, const float *x, float y)
{
    for (size_t c = 0; c < m->cols; c++) {
        const size_t index = (panel * m->groups + c / m->group) * PITH_PANEL_ROWS + r;
        const float w = pith_panel_value_at(m, panel, r, c) * pith_panel_scale_at(m, index);
        y = fmaf(w, x[c], y);
    }
    return y;
}

void pith_panel_dot_scalar(const struct pith_panels *m, size_t first, size_t count, const float *x,
                           float *y)
{
    for (size_t i = 0; i < count; i++)
        for (size_t r = 0; r < PITH_PANEL_ROWS; r++)
            y[i * PITH_PANEL_ROWS + r] = row_chain(m, first + i, r, x, y[i * PITH_PANEL_ROWS + r]);
}

static float row_dot(const struct pith_panels *m, size_t panel, size_t r, const float *x)
{
    float y = 0.0f;
    for (size_t g = 0; g < m->groups; g++) {
        float s[4] = {0};
        for (size_t c = g * m->group; c < group_end(m, g); c++)
            s[c % 4] = fmaf(pith_panel_value_at(m, panel, r, c), x[c], s[c % 4]);
        const float scale = pith_panel_scale_at(m, (panel * m->groups + g) * PITH_PANEL_ROWS + r);
        y = fmaf(scale, (s[0] + s[1]) + (s[2] + s[3]), y);
    }
    return y;
}

void pith_offsets_dot_scalar(const struct pith_panels *m, size_t first, size_t count,
                             const float *x, float *y)
{
    for (size_t i = 0; i < count; i++)
        for (size_t r = 0; r < PITH_PANEL_ROWS; r++)
            y[i * PITH_PANEL_ROWS + r] = row_dot(m, first + i, r, x);
}

/* Columns [c, end) of one block, by one digit of x. */
static int32_t digit_dot(const struct pith_panels *m, size_t panel, size_t r, size_t c, size_t end,
                         const struct pith_bytes *x, size_t digit)
{
    int32_t d = 0;
    const int8_t *q = x->q + digit * x->q_digit;
    const size_t index = (panel * m->groups + c / m->group) * PITH_PANEL_ROWS + r;
    const int32_t zero = (int32_t)(m->zeros ? (float)m->zeros[index] : m->zero);
    const int32_t sum = x->sum[digit * x->sum_digit + c / x->block];
    for (; c < end; c++) {
        const unsigned code = pith_panel_code_at(m, panel, r, c);
        d += (int32_t)(m->factors ? m->factor[code] : code) * q[c];
    }
    return d - zero * sum;
}

static float row_dot_digits(const struct pith_panels *m, size_t panel, size_t r, size_t digits,
                            const struct pith_bytes *x)
{
    float y = 0.0f;
    for (size_t g = 0; g < m->groups; g++) {
        float t = 0.0f;
        const size_t end = group_end(m, g);
        for (size_t c = g * m->group; c < end; c += x->block) {
            const size_t stop = c + x->block < end ? c + x->block : end;
            int64_t d = 0;
            for (size_t i = digits; i-- > 0;) d = 256 * d + digit_dot(m, panel, r, c, stop, x, i);
            t = fmaf((float)d, x->scale[c / x->block], t);
        }
        const float scale = pith_panel_scale_at(m, (panel * m->groups + g) * PITH_PANEL_ROWS + r);
        y = fmaf(m->factors ? scale * m->unit : scale, t, y);
    }
    return y;
}

void pith_panel_dot_bytes_scalar(const struct pith_panels *m, size_t first, size_t count,
                                 const struct pith_bytes *x, float *y)
{
    for (size_t i = 0; i < count; i++)
        for (size_t r = 0; r < PITH_PANEL_ROWS; r++)
            y[i * PITH_PANEL_ROWS + r] = row_dot_digits(m, first + i, r, 1, x);
}

void pith_panel_dot_digits_scalar(const struct pith_panels *m, size_t first, size_t count,
                                  const struct pith_bytes *x, float *y)
{
    for (size_t i = 0; i < count; i++)
        for (size_t r = 0; r < PITH_PANEL_ROWS; r++)
            y[i * PITH_PANEL_ROWS + r] = row_dot_digits(m, first + i, r, PITH_DIGITS, x);
}

void pith_panel_unpack_scalar(const struct pith_panels *m, size_t panel, size_t col, size_t n,
                              float *dst, size_t ld)
{
    for (size_t c = col; c < col + n; c++)
        for (size_t r = 0; r < PITH_PANEL_ROWS; r++) {
            const size_t index = (panel * m->groups + c / m->group) * PITH_PANEL_ROWS + r;
            dst[(c - col) * ld + r] = pith_panel_value_at(m, panel, r, c) *
                                      pith_panel_scale_at(m, index);
        }
}

/* The largest magnitude of a block; NaN when one is not finite. */
static float largest(size_t n, const float *x)
{
    float most = 0.0f;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return (float)NAN;
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    }
    return most;
}

void pith_to_bytes_scalar(size_t n, size_t block, const float *x, int8_t *q, float *scale,
                          int32_t *sum)
{
    for (size_t b = 0, first = 0; first < n; first += block, b++) {
        const size_t end = n - first < block ? n : first + block;
        const float most = largest(end - first, x + first);
        const float inverse = most >= PITH_BYTES_LEAST ? 127.0f / most : 0.0f;
        scale[b] = most / 127.0f;
        sum[b] = 0;
        for (size_t i = first; i < end; i++) {
            q[i] = (int8_t)(inverse > 0.0f ? nearbyintf(x[i] * inverse) : 0.0f);
            sum[b] += q[i];
        }
    }
}

/* The lowest digit of v, from -128 to 127; v becomes what the others make. */
static int8_t take_digit(int32_t *v)
{
    const int32_t digit = ((*v + 128) & 255) - 128;
    *v = (*v - digit) / 256;
    return (int8_t)digit;
}

void pith_to_digits_scalar(size_t n, size_t block, const float *x, int8_t *q, size_t q_digit,
                           float *scale, int32_t *sum, size_t sum_digit)
{
    for (size_t b = 0, first = 0; first < n; first += block, b++) {
        const size_t end = n - first < block ? n : first + block;
        const float most = largest(end - first, x + first);
        const float inverse = most >= PITH_BYTES_LEAST ? PITH_DIGITS_MOST / most : 0.0f;
        scale[b] = most / PITH_DIGITS_MOST;
        for (size_t d = 0; d < PITH_DIGITS; d++) sum[b + d * sum_digit] = 0;
        for (size_t i = first; i < end; i++) {
            int32_t v = inverse > 0.0f ? (int32_t)nearbyintf(x[i] * inverse) : 0;
            for (size_t d = 0; d < PITH_DIGITS; d++) {
                q[i + d * q_digit] = take_digit(&v);
                sum[b + d * sum_digit] += q[i + d * q_digit];
            }
        }
    }
}

void pith_to_nibbles_scalar(size_t n, uint32_t *words)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t low = words[i] & 0xffff, high = words[i] >> 16;
        low = (low | low << 8) & 0x00ff00ff;
        low = (low | low << 4) & 0x0f0f0f0f;
        high = (high | high << 8) & 0x00ff00ff;
        high = (high | high << 4) & 0x0f0f0f0f;
        words[i] = low | high << 4;
    }
}
