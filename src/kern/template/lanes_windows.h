/* kern/template/lanes_windows.h: the windows of mul2 (kern/trellis.h). One is the end of one word
 * and the beginning of the next of its lane, or of the lane before, the same for all lanes, so that
 * two shifts by a constant find those of a register. A file that includes this has before it
 *
 *     INLINE
 *     reg       sixteen lanes a row of tiles, words of 16 bits
 *     number    what is made of windows
 *
 * and what is declared below behind it. Bits are known where these are inlined. It is what
 * kern/template/lanes_template.h needs. */
#include "kern/trellis.h"

enum { STEP = PITH_LANES_STEP, TILE = PITH_TRELLIS_TILE / 2 };

INLINE reg load(const uint8_t *tile, size_t ld);
/* Lane j's number to lane j + 1, the last's to the first, of each row of tiles. */
INLINE reg rotate_word(reg x);
/* (before << left) | (last >> right), of sixteen bits. */
INLINE reg join(reg before, reg last, int left, int right);
INLINE number number_of(unsigned bits, reg windows);

/* The words of a tile of each row behind the last ones of the lanes before. */
typedef struct {
    reg words[9];
} opened;

INLINE void open_tile(unsigned bits, const uint8_t *at, size_t ld, opened *to)
{
    to->words[0] = rotate_word(load(at + (bits - 1) * 32, ld));
#pragma GCC unroll 8
    for (unsigned i = 0; i < bits; i++) to->words[i + 1] = load(at + i * 32, ld);
}

INLINE reg windows(unsigned bits, const opened *of, unsigned t)
{
    const unsigned end = (t + 1) * bits, last = (end - 1) / 16, right = 16 * (last + 1) - end;
    if (right == 0) return of->words[last + 1];
    return join(of->words[last], of->words[last + 1], (int)(16 - right), (int)right);
}

INLINE number number_at(unsigned bits, const opened *of, unsigned t)
{
    return number_of(bits, windows(bits, of, t));
}

INLINE unsigned word_at(unsigned t)
{
    return t % 8;
}

INLINE bool early(unsigned bits, size_t n)
{
    (void)bits;
    (void)n;
    return false;
}
