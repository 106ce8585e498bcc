#include "kern/peak.h"

#include <immintrin.h>
#include <string.h>

void pith_peak_int8_vnni(size_t rounds, const uint8_t x[4], const int8_t y[4],
                         uint32_t acc[PITH_PEAK_LANES])
{
    int32_t x4, y4;
    memcpy(&x4, x, sizeof x4);
    memcpy(&y4, y, sizeof y4);
    const __m512i a = _mm512_set1_epi32(x4), b = _mm512_set1_epi32(y4);
    for (size_t i = 0; i < PITH_PEAK_LANES; i += 192) {
#define LOAD(k) __m512i s##k = _mm512_loadu_si512(acc + i + 16 * k);
        PITH_TWELVE(LOAD)
        for (size_t r = 0; r < rounds * PITH_PEAK_STEPS; r++) {
#define STEP(k) s##k = _mm512_dpbusd_epi32(s##k, a, b);
            PITH_TWELVE(STEP)
        }
#define STORE(k) _mm512_storeu_si512(acc + i + 16 * k, s##k);
        PITH_TWELVE(STORE)
    }
}
