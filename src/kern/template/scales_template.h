/* kern/template/scales_template.h: scales and zero points of packed panels as floats, for files
 * that define what panel_template.h needs, without the levels. */
#include "kern/ops.h"

#define INLINE static inline __attribute__((always_inline))

/* FP8 E4M3 in the top byte of each field: the exponent and mantissa are put where a float has
 * them, and the difference in bias is a factor, exact also for subnormal ones. */
INLINE v16 from_e4m3(v16i top)
{
    const v16i bits = v16i_and(v16_arithmetic_shift(top, 4), (int)0x87f00000);
    return v16_mul(v16_from_bits(bits), v16_set(0x1p120f));
}

INLINE v16 from_e5m2(v16i top)
{
    const v16i bits = v16i_and(v16_arithmetic_shift(top, 3), (int)0x8fe00000);
    return v16_mul(v16_from_bits(bits), v16_set(0x1p112f));
}

/* Powers of two: 2^-127 is a subnormal float. */
INLINE v16 from_e8m0(v16i code)
{
    const v16 normal = v16_from_bits(v16i_shift_left(code, 23));
    return v16_max(normal, v16_set(0x1p-127f));
}

INLINE v16 products(const struct pith_panels *m, v16i bytes, size_t group)
{
    const v16i inner = v16_arithmetic_shift(v16i_shift_left(bytes, 24), 24);
    const char *outer = (const char *)m->outer + (group >> m->outer_shift) * 32;
    return v16_mul(v16_from_int(inner), v16_load_f16(outer));
}

INLINE v16 load_scales(const struct pith_panels *m, enum pith_panel_scale kind, size_t group)
{
    const char *at = (const char *)m->scales;
    switch (kind) {
    case PITH_SCALE_F32: return v16_load((const float *)(const void *)(at + group * 64));
    case PITH_SCALE_BF16: return v16_load_bf16(at + group * 32);
    case PITH_SCALE_F16: return v16_load_f16(at + group * 32);
    case PITH_SCALE_E8M0: return from_e8m0(v16i_load_bytes(at + group * 16));
    case PITH_SCALE_PRODUCT: return products(m, v16i_load_bytes(at + group * 16), group);
    case PITH_SCALE_E4M3:
    default: return v16_mul(v16_load_e4m3(at + group * 16), v16_set(m->global));
    }
}

INLINE v16 load_zeros(const struct pith_panels *m, size_t group)
{
    if (m->zeros) return v16_from_int(v16i_load_bytes(m->zeros + group * PITH_PANEL_ROWS));
    return v16_set(m->form == PITH_PANEL_INT8 ? m->zero : 0.0f);
}
