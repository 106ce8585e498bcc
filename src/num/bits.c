/* Dense little-endian bit streams. Widths that divide a byte have their own loops: they are what
 * decoding a matrix spends its time on. */
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

/* Eight codes fill exactly `bits` bytes. */
static void get_eights(const uint8_t *p, unsigned bits, size_t eights, uint8_t *codes)
{
    const unsigned mask = (1u << bits) - 1;
    for (; eights; eights--, p += bits, codes += 8) {
        uint64_t v = 0;
        for (unsigned i = 0; i < bits; i++) v |= (uint64_t)p[i] << (8 * i);
        for (unsigned i = 0; i < 8; i++) codes[i] = (uint8_t)(v >> (i * bits) & mask);
    }
}

static void get_fours(const uint8_t *p, size_t eights, uint8_t *codes)
{
    for (; eights; eights--, p += 4, codes += 8)
        for (size_t i = 0; i < 4; i++) {
            codes[2 * i] = p[i] & 15;
            codes[2 * i + 1] = p[i] >> 4;
        }
}

static void put_eights(uint8_t *p, unsigned bits, size_t eights, const uint8_t *codes)
{
    const unsigned mask = (1u << bits) - 1;
    for (; eights; eights--, p += bits, codes += 8) {
        uint64_t v = 0;
        for (unsigned i = 0; i < 8; i++) v |= (uint64_t)(codes[i] & mask) << (i * bits);
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
    if (bits == 4) get_fours(p, eights, codes);
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
    put_eights(stream + first / 8 * bits, bits, eights, codes);
    put_any(stream, first + eights * 8, bits, count % 8, codes + eights * 8);
}
