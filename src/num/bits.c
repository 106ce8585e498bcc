/* Dense little-endian bit streams. Whole groups of eight codes go by words: decoding a matrix
 * spends much of its time here. */
#include "num/qmat.h"

#include <string.h>

/* Any width, and starts and ends within a byte. */
static void get_any(const uint8_t *stream, size_t first, unsigned bits, size_t count,
                    uint8_t *codes)
{
    const unsigned mask = (1u << bits) - 1;
    const uint8_t *p = stream + first / 8 * bits + first % 8 * bits / 8;
    unsigned used = (unsigned)(first % 8) * bits % 8;
    for (size_t i = 0; i < count; i++) {
        unsigned v = (unsigned)*p >> used;
        used += bits;
        if (used >= 8) {
            used -= 8;
            p++;
            if (used) v |= (unsigned)*p << (bits - used);
        }
        codes[i] = (uint8_t)(v & mask);
    }
}

static void put_any(uint8_t *stream, size_t first, unsigned bits, size_t count,
                    const uint8_t *codes)
{
    const unsigned mask = (1u << bits) - 1;
    uint8_t *p = stream + first / 8 * bits + first % 8 * bits / 8;
    unsigned used = (unsigned)(first % 8) * bits % 8;
    for (size_t i = 0; i < count; i++) {
        const unsigned v = (codes[i] & mask) << used, keep = ~(mask << used);
        p[0] = (uint8_t)((p[0] & keep) | v);
        used += bits;
        if (used >= 8) {
            used -= 8;
            p++;
            if (used) p[0] = (uint8_t)((p[0] & keep >> 8) | v >> 8);
        }
    }
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are loaded as they stand");

/* Moves eight codes of `bits` to the eight bytes of a word, halving three times:
 *     hhhhhhhhllllllll -> ....hhhh....llll of the same codes, in lanes of 32, 16 and 8 bits */
static inline uint64_t spread(uint64_t v, unsigned bits)
{
    const uint64_t four = ((uint64_t)1 << 4 * bits) - 1;
    const uint64_t two = (((uint64_t)1 << 2 * bits) - 1) * 0x0000000100000001u;
    const uint64_t one = (((uint64_t)1 << bits) - 1) * 0x0001000100010001u;
    v = (v & four) | (v >> 4 * bits & four) << 32;
    v = (v & two) | (v >> 2 * bits & two) << 16;
    return (v & one) | (v >> bits & one) << 8;
}

/* Eight codes fill exactly `bits` bytes. The last words are read bytewise, to stay in the
 * stream. */
static inline void get_eights(const uint8_t *p, unsigned bits, size_t eights, uint8_t *codes)
{
    for (; eights * bits >= 8; eights--, p += bits, codes += 8) {
        uint64_t v;
        memcpy(&v, p, sizeof v);
        v = spread(v, bits);
        memcpy(codes, &v, sizeof v);
    }
    for (; eights; eights--, p += bits, codes += 8) {
        uint64_t v = 0;
        for (unsigned i = 0; i < bits; i++) v |= (uint64_t)p[i] << (8 * i);
        v = spread(v, bits);
        memcpy(codes, &v, sizeof v);
    }
}

/* The reverse of spread(): the low `bits` of eight bytes, side by side. */
static inline uint64_t gather(uint64_t v, unsigned bits)
{
    const uint64_t four = ((uint64_t)1 << 4 * bits) - 1;
    const uint64_t two = (((uint64_t)1 << 2 * bits) - 1) * 0x0000000100000001u;
    const uint64_t one = (((uint64_t)1 << bits) - 1) * 0x0001000100010001u;
    v = (v & one) | (v >> 8 & one) << bits;
    v = (v & two) | (v >> 16 & two) << 2 * bits;
    return (v & four) | (v >> 32 & four) << 4 * bits;
}

static inline void put_eights(uint8_t *p, unsigned bits, size_t eights, const uint8_t *codes)
{
    for (; eights; eights--, p += bits, codes += 8) {
        uint64_t v;
        memcpy(&v, codes, sizeof v);
        v = gather(v, bits);
        if (bits == 4) memcpy(p, &v, 4);
        else
            for (unsigned i = 0; i < bits; i++) p[i] = (uint8_t)(v >> (8 * i));
    }
}

void pith_bits_get(const uint8_t *stream, size_t first, unsigned bits, size_t count, uint8_t *codes)
{
    if (bits == 8) {
        if (count) memcpy(codes, stream + first, count);
        return;
    }
    size_t head = (8 - first % 8) % 8;
    if (head > count) head = count;
    get_any(stream, first, bits, head, codes);
    first += head;
    codes += head;
    count -= head;
    const size_t eights = count / 8;
    const uint8_t *p = stream + first / 8 * bits;
    /* The width that most matrices have gets separate code. */
    if (bits == 4) get_eights(p, 4, eights, codes);
    else get_eights(p, bits, eights, codes);
    get_any(stream, first + eights * 8, bits, count % 8, codes + eights * 8);
}

void pith_bits_put(uint8_t *stream, size_t first, unsigned bits, size_t count, const uint8_t *codes)
{
    if (bits == 8) {
        if (count) memcpy(stream + first, codes, count);
        return;
    }
    size_t head = (8 - first % 8) % 8;
    if (head > count) head = count;
    put_any(stream, first, bits, head, codes);
    first += head;
    codes += head;
    count -= head;
    const size_t eights = count / 8;
    uint8_t *p = stream + first / 8 * bits;
    if (bits == 4) put_eights(p, 4, eights, codes);
    else put_eights(p, bits, eights, codes);
    put_any(stream, first + eights * 8, bits, count % 8, codes + eights * 8);
}
