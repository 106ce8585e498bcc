#include "kern/avx2/vec_avx2.h"
#include "kern/template/peak_template.h"

uint64_t pith_read_lines_avx2(size_t lines, const void *data)
{
    enum { STEP = 4 /* lines */ };
    const char *p = data;
#define ZERO(i) __m256i s##i = _mm256_setzero_si256();
    PITH_EIGHT(ZERO)
    for (; lines >= STEP; lines -= STEP, p += STEP * 64) {
#define READ(i) s##i = _mm256_xor_si256(s##i, _mm256_loadu_si256((const void *)(p + 32 * i)));
        PITH_EIGHT(READ)
    }
    for (; lines > 0; lines--, p += 64) {
        READ(0)
        READ(1)
    }
#define FOLD(i) s7 = _mm256_xor_si256(s7, s##i);
    PITH_SEVEN(FOLD)
#undef ZERO
#undef READ
#undef FOLD
    uint64_t words[4], found = 0;
    _mm256_storeu_si256((void *)words, s7);
    for (int i = 0; i < 4; i++) found ^= words[i];
    return found;
}

void pith_peak_f32_avx2(size_t rounds, float x, float y, float acc[PITH_PEAK_LANES])
{
    peak_f32(rounds, x, y, acc);
}
