#include "kern/avx512/vec_avx512.h"
#include "kern/template/peak_template.h"

uint64_t pith_read_lines_avx512(size_t lines, const void *data)
{
    enum { STEP = 8 };
    const char *p = data;
    __m512i s[STEP];
    uint64_t words[8], found = 0;
    for (int i = 0; i < STEP; i++) s[i] = _mm512_setzero_si512();
    for (; lines >= STEP; lines -= STEP, p += STEP * 64)
        for (int i = 0; i < STEP; i++)
            s[i] = _mm512_xor_si512(s[i], _mm512_loadu_si512(p + 64 * i));
    for (; lines > 0; lines--, p += 64) s[0] = _mm512_xor_si512(s[0], _mm512_loadu_si512(p));
    for (int i = 1; i < STEP; i++) s[0] = _mm512_xor_si512(s[0], s[i]);
    _mm512_storeu_si512(words, s[0]);
    for (int i = 0; i < 8; i++) found ^= words[i];
    return found;
}

void pith_peak_f32_avx512(size_t rounds, float x, float y, float acc[PITH_PEAK_LANES])
{
    peak_f32(rounds, x, y, acc);
}
