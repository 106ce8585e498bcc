#include "kern/peak.h"

#include <immintrin.h>
#include <string.h>

void pith_peak_bf16_bf16(size_t rounds, const uint16_t x[2], const uint16_t y[2],
                         float acc[PITH_PEAK_LANES])
{
    int32_t x2, y2;
    memcpy(&x2, x, sizeof x2);
    memcpy(&y2, y, sizeof y2);
    const __m512bh a = (__m512bh)_mm512_set1_epi32(x2), b = (__m512bh)_mm512_set1_epi32(y2);
    for (size_t i = 0; i < PITH_PEAK_LANES; i += 192) {
#define LOAD(k) __m512 s##k = _mm512_loadu_ps(acc + i + 16 * k);
        PITH_TWELVE(LOAD)
        for (size_t r = 0; r < rounds * PITH_PEAK_STEPS; r++) {
#define STEP(k) s##k = _mm512_dpbf16_ps(s##k, a, b);
            PITH_TWELVE(STEP)
        }
#define STORE(k) _mm512_storeu_ps(acc + i + 16 * k, s##k);
        PITH_TWELVE(STORE)
    }
}
