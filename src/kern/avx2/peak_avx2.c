#include "kern/avx2/vec_avx2.h"
#include "kern/template/peak_template.h"

uint64_t pith_read_lines_avx2(size_t lines, const void *data)
{
    enum { STEP = 8 /* registers: four lines */ };
    const char *p = data;
    __m256i s[STEP];
    uint64_t words[4], found = 0;
    for (int i = 0; i < STEP; i++) s[i] = _mm256_setzero_si256();
    for (; lines >= STEP / 2; lines -= STEP / 2, p += STEP * 32)
        for (int i = 0; i < STEP; i++)
            s[i] = _mm256_xor_si256(s[i], _mm256_loadu_si256((const void *)(p + 32 * i)));
    for (; lines > 0; lines--, p += 64)
        for (int i = 0; i < 2; i++)
            s[i] = _mm256_xor_si256(s[i], _mm256_loadu_si256((const void *)(p + 32 * i)));
    for (int i = 1; i < STEP; i++) s[0] = _mm256_xor_si256(s[0], s[i]);
    _mm256_storeu_si256((void *)words, s[0]);
    for (int i = 0; i < 4; i++) found ^= words[i];
    return found;
}

void pith_peak_f32_avx2(size_t rounds, float x, float y, float acc[PITH_PEAK_LANES])
{
    peak_f32(rounds, x, y, acc);
}
