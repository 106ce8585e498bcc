#include "kern/avx512/vec_avx512.h"
#include "kern/template/peak_template.h"

uint64_t pith_read_lines_avx512(size_t lines, const void *data)
{
    enum { STEP = 8 /* lines */ };
    const char *p = data;
#define ZERO(i) __m512i s##i = _mm512_setzero_si512();
    PITH_EIGHT(ZERO)
    for (; lines >= STEP; lines -= STEP, p += STEP * 64) {
#define READ(i) s##i = _mm512_xor_si512(s##i, _mm512_loadu_si512(p + 64 * i));
        PITH_EIGHT(READ)
    }
    for (; lines > 0; lines--, p += 64) {
        READ(0)
    }
#define FOLD(i) s7 = _mm512_xor_si512(s7, s##i);
    PITH_SEVEN(FOLD)
#undef ZERO
#undef READ
#undef FOLD
    uint64_t words[8], found = 0;
    _mm512_storeu_si512(words, s7);
    for (int i = 0; i < 8; i++) found ^= words[i];
    return found;
}

void pith_peak_f32_avx512(size_t rounds, float x, float y, float acc[PITH_PEAK_LANES])
{
    peak_f32(rounds, x, y, acc);
}
