/* kern/template/peak_template.h: float32 multiply-adds without pause. Included after the vec
 * header. */
#include "kern/peak.h"

static inline void peak_f32(size_t rounds, float x, float y, float acc[PITH_PEAK_LANES])
{
    const vn a = vn_set(x), b = vn_set(y);
    for (size_t i = 0; i < PITH_PEAK_LANES; i += 12 * VN_WIDTH) {
#define PEAK_LOAD(k) vn s##k = vn_load(acc + i + k * VN_WIDTH);
        PITH_TWELVE(PEAK_LOAD)
        for (size_t r = 0; r < rounds * PITH_PEAK_STEPS; r++) {
#define PEAK_STEP(k) s##k = vn_fma(a, b, s##k);
            PITH_TWELVE(PEAK_STEP)
        }
#define PEAK_STORE(k) vn_store(acc + i + k * VN_WIDTH, s##k);
        PITH_TWELVE(PEAK_STORE)
#undef PEAK_LOAD
#undef PEAK_STEP
#undef PEAK_STORE
    }
}
