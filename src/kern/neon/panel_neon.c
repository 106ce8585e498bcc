/* Products with packed panels: a line is four registers of four rows. */
#include "kern/neon/planes_neon.h"
#include "kern/neon/vec_neon.h"
#include "kern/ops.h"

typedef struct {
    uint32x4_t a, b, c, d;
} v16i;
typedef uint8x16x4_t v16_table; /* the bytes of sixteen floats */

/* One operation on every register of x, with a further argument. */
#define V16I(op, x, arg)                                                                           \
    {                                                                                              \
        op(x.a, arg), op(x.b, arg), op(x.c, arg), op(x.d, arg)                                     \
    }

static inline v16i v16i_load(const void *p)
{
    const uint8_t *c = p;
    return (v16i){vreinterpretq_u32_u8(vld1q_u8(c)), vreinterpretq_u32_u8(vld1q_u8(c + 16)),
                  vreinterpretq_u32_u8(vld1q_u8(c + 32)), vreinterpretq_u32_u8(vld1q_u8(c + 48))};
}
static inline v16i v16i_load_bytes(const void *p)
{
    const uint8x16_t bytes = vld1q_u8(p);
    const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
    return (v16i){vmovl_u16(vget_low_u16(low)), vmovl_high_u16(low), vmovl_u16(vget_low_u16(high)),
                  vmovl_high_u16(high)};
}
/* A shift by a vector, negative to the right, since n need not be a literal. */
static inline v16i v16i_shift_left(v16i x, int n)
{
    return (v16i)V16I(vshlq_u32, x, vdupq_n_s32(n));
}
static inline v16i v16i_shift_right(v16i x, int n)
{
    return (v16i)V16I(vshlq_u32, x, vdupq_n_s32(-n));
}
static inline uint32x4_t shift_signed(uint32x4_t x, int32x4_t n)
{
    return vreinterpretq_u32_s32(vshlq_s32(vreinterpretq_s32_u32(x), n));
}
static inline v16i v16_arithmetic_shift(v16i x, int n)
{
    return (v16i)V16I(shift_signed, x, vdupq_n_s32(-n));
}
static inline v16i v16i_and(v16i x, int bits)
{
    return (v16i)V16I(vandq_u32, x, vdupq_n_u32((uint32_t)bits));
}
static inline float32x4_t from_signed(uint32x4_t x)
{
    return vcvtq_f32_s32(vreinterpretq_s32_u32(x));
}
static inline v16 v16_from_int(v16i x)
{
    return (v16){from_signed(x.a), from_signed(x.b), from_signed(x.c), from_signed(x.d)};
}
static inline v16 v16_from_bits(v16i x)
{
    return (v16){vreinterpretq_f32_u32(x.a), vreinterpretq_f32_u32(x.b), vreinterpretq_f32_u32(x.c),
                 vreinterpretq_f32_u32(x.d)};
}
static inline v16_table v16_table_load(const float *p)
{
    const uint8_t *c = (const uint8_t *)p;
    return (v16_table){{vld1q_u8(c), vld1q_u8(c + 16), vld1q_u8(c + 32), vld1q_u8(c + 48)}};
}
/* The table is looked up by bytes: float i is its bytes 4i .. 4i + 3. */
static inline float32x4_t lookup_4(uint32x4_t x, v16_table t)
{
    const uint32x4_t code = vandq_u32(x, vdupq_n_u32(15)), four = vdupq_n_u32(0x04040404);
    const uint32x4_t bytes = vmlaq_u32(vdupq_n_u32(0x03020100), code, four);
    return vreinterpretq_f32_u8(vqtbl4q_u8(t, vreinterpretq_u8_u32(bytes)));
}
static inline v16 v16_lookup(v16i x, v16_table t)
{
    return (v16)V16I(lookup_4, x, t);
}

/* As half precision, whose exponent has a bit more, the value is 2^8 too small. */
static inline float32x4_t e4m3_4(int16x4_t half)
{
    const int16x4_t bits = vand_s16(half, vdup_n_s16((int16_t)0xbfff));
    return vmulq_f32(vcvt_f32_f16(vreinterpret_f16_s16(bits)), vdupq_n_f32(0x1p8f));
}
static inline v16 v16_load_e4m3(const void *p)
{
    const int8x16_t bytes = vld1q_s8(p);
    const int16x8_t low = vshll_n_s8(vget_low_s8(bytes), 7), high = vshll_high_n_s8(bytes, 7);
    return (v16){e4m3_4(vget_low_s16(low)), e4m3_4(vget_high_s16(low)), e4m3_4(vget_low_s16(high)),
                 e4m3_4(vget_high_s16(high))};
}

static inline v16i v16i_byte(v16i x, int i)
{
    return v16i_and(i ? v16i_shift_right(x, 8 * i) : x, 255);
}

/* A function of the quarters of a step. */
#define V16I_PLANES(op, bits, at, i)                                                               \
    {                                                                                              \
        vreinterpretq_u32_u8(op(bits, at, 0, i)), vreinterpretq_u32_u8(op(bits, at, 1, i)),        \
            vreinterpretq_u32_u8(op(bits, at, 2, i)), vreinterpretq_u32_u8(op(bits, at, 3, i))     \
    }
PLANES_INLINE v16i v16i_line(unsigned bits, const uint8_t *at, int j)
{
    return (v16i)V16I_PLANES(planes_line, bits, at, j);
}
PLANES_INLINE v16i v16i_word(unsigned bits, const uint8_t *at, int k)
{
    return (v16i)V16I_PLANES(planes_word, bits, at, k);
}

enum { PANELS_AT_ONCE = 1, LOOKUP_IS_FAST = 0 };
#define E4M3_UNIT 1.0f
#define v16_line_e4m3(line, i) from_e4m3(top_of(line, i))
#define v16_line_e5m2(line, i) from_e5m2(top_of(line, i))
#include "kern/template/panel_template.h"

static inline uint32x4_t spread4(uint8x16_t v, const int32_t *bytes, const int32_t *shift)
{
    const uint8x16_t at = vreinterpretq_u8_s32(vld1q_s32(bytes));
    return vshlq_u32(vreinterpretq_u32_u8(vqtbl1q_u8(v, at)), vnegq_s32(vld1q_s32(shift)));
}
static inline v16i v16i_spread(const void *p, const int32_t *bytes, const int32_t *shift)
{
    const uint8x8_t v = vld1_u8(p);
    const uint8x16_t all = vcombine_u8(v, v);
    return (v16i){spread4(all, bytes, shift), spread4(all, bytes + 4, shift + 4),
                  spread4(all, bytes + 8, shift + 8), spread4(all, bytes + 12, shift + 12)};
}
#include "kern/template/levels_template.h"

void pith_panel_dot_neon(const struct pith_panels *m, size_t first, size_t count, const float *x,
                         float *y)
{
    panel_dot(m, first, count, x, y);
}

void pith_offsets_dot_neon(const struct pith_panels *m, size_t first, size_t count, const float *x,
                           float *y)
{
    offsets_dot(m, first, count, x, y);
}

void pith_panel_unpack_neon(const struct pith_panels *m, size_t panel, size_t col, size_t n,
                            float *dst, size_t ld)
{
    panel_unpack(m, panel, col, n, dst, ld);
}

void pith_levels_unpack_neon(unsigned bits, size_t n, const uint8_t *codes, const float level[16],
                             float *dst)
{
    levels_unpack(bits, n, codes, level, dst);
}
