/* Texts over characters as texts over bytes: UTF-8, and what JSON strings make of it. */
#include "base/mem.h"
#include "serve/grammar/chars.h"

#include <string.h>
#include <utf8proc.h>

/* Nodes from which a target is reached by 1..3 bytes that continue a character, and by what follows
 * a backslash; 0: not made yet. */
struct ways {
    uint32_t tail[3], escape;
};

struct writing {
    struct pith_net *net;
    struct ways *ways; /* [states] */
    uint32_t *node;    /* [states] */
};

static uint32_t tail(struct writing *w, uint32_t state, uint32_t bytes)
{
    if (bytes == 0) return w->node[state];
    uint32_t *known = &w->ways[state].tail[bytes - 1];
    if (*known == 0) {
        *known = pith_net_add(w->net);
        pith_net_bytes(w->net, *known, 0x80, 0xbf, tail(w, state, bytes - 1));
    }
    return *known;
}

static uint32_t encode(uint32_t cp, uint8_t out[4])
{
    return (uint32_t)utf8proc_encode_char((utf8proc_int32_t)cp, out);
}

static bool all_are(const uint8_t *bytes, uint32_t n, uint8_t byte)
{
    for (uint32_t i = 0; i < n; i++)
        if (bytes[i] != byte) return false;
    return true;
}

/* Ways by sequences of n bytes from lo to hi, which have the same length. */
static void write_bytes(struct writing *w, uint32_t from, uint8_t *lo, uint8_t *hi, uint32_t n,
                        uint32_t state)
{
    if (n == 1) {
        pith_net_bytes(w->net, from, lo[0], hi[0], w->node[state]);
        return;
    }
    if (w->net->failed != PITH_OK) return;
    if (lo[0] == hi[0] && !(all_are(lo + 1, n - 1, 0x80) && all_are(hi + 1, n - 1, 0xbf))) {
        const uint32_t mid = pith_net_add(w->net);
        pith_net_bytes(w->net, from, lo[0], lo[0], mid);
        write_bytes(w, mid, lo + 1, hi + 1, n - 1, state);
        return;
    }
    int first = lo[0], last = hi[0];
    if (!all_are(lo + 1, n - 1, 0x80)) {
        uint8_t a[4], b[4];
        memcpy(a, lo, n);
        memset(b, 0xbf, n);
        b[0] = a[0];
        write_bytes(w, from, a, b, n, state);
        first++;
    }
    if (!all_are(hi + 1, n - 1, 0xbf)) {
        uint8_t a[4], b[4];
        memcpy(b, hi, n);
        memset(a, 0x80, n);
        a[0] = b[0];
        write_bytes(w, from, a, b, n, state);
        last--;
    }
    if (first <= last)
        pith_net_bytes(w->net, from, (uint8_t)first, (uint8_t)last, tail(w, state, n - 1));
}

/* Characters as they are, by the ranges in which their bytes are of one length; surrogates are no
 * characters. */
static void write_plain(struct writing *w, uint32_t from, uint32_t lo, uint32_t hi, uint32_t state)
{
    static const uint32_t parts[][2] = {
        {0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, 0x10ffff}};
    for (size_t i = 0; i < PITH_COUNT(parts); i++) {
        const uint32_t a = lo > parts[i][0] ? lo : parts[i][0];
        const uint32_t b = hi < parts[i][1] ? hi : parts[i][1];
        uint8_t first[4], last[4];
        if (a > b) continue;
        encode(a, first);
        write_bytes(w, from, first, last, encode(b, last), state);
    }
}

/* Hexadecimal digits, one of each string, one after the other. */
static void write_hex(struct pith_net *n, uint32_t from, const char *const *digits, size_t count,
                      uint32_t to)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t next = i + 1 == count ? to : pith_net_add(n);
        for (const char *d = digits[i]; *d; d++) {
            pith_net_bytes(n, from, (uint8_t)*d, (uint8_t)*d, next);
            if (*d >= 'a') pith_net_bytes(n, from, (uint8_t)(*d - 32), (uint8_t)(*d - 32), next);
        }
        from = next;
    }
}

#define ANY_HEX "0123456789abcdef"

/* What may follow a backslash where any character may stand: a pair of surrogates is one. NUL is
 * omitted: few parsers of JSON accept it. */
static uint32_t any_escape(struct writing *w, uint32_t state)
{
    static const char *const forms[][4] = {{"123456789abcef", ANY_HEX, ANY_HEX, ANY_HEX},
                                           {"d", "01234567", ANY_HEX, ANY_HEX},
                                           {"0", "123456789abcdef", ANY_HEX, ANY_HEX},
                                           {"0", "0", "123456789abcdef", ANY_HEX},
                                           {"0", "0", "0", "123456789abcdef"}};
    static const char *const high[] = {"d", "89ab", ANY_HEX, ANY_HEX};
    static const char *const low[] = {"d", "cdef", ANY_HEX, ANY_HEX};
    uint32_t *known = &w->ways[state].escape;
    if (*known) return *known;
    *known = pith_net_add(w->net);
    const uint32_t code = pith_net_add(w->net), pair = pith_net_add(w->net),
                   second = pith_net_add(w->net);
    for (const char *c = "\"\\/bfnrt"; *c; c++)
        pith_net_bytes(w->net, *known, (uint8_t)*c, (uint8_t)*c, w->node[state]);
    pith_net_bytes(w->net, *known, 'u', 'u', code);
    for (size_t i = 0; i < PITH_COUNT(forms); i++)
        write_hex(w->net, code, forms[i], 4, w->node[state]);
    write_hex(w->net, code, high, 4, pair);
    pith_net_text(w->net, pair, "\\u", 2, second);
    write_hex(w->net, second, low, 4, w->node[state]);
    return *known;
}

/* A character that JSON does not take as it is, in its shortest form. */
static void write_escape(struct writing *w, uint32_t from, uint32_t cp, uint32_t state)
{
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* character, letter */
    static const char hex[] = ANY_HEX;
    char text[7] = "\\u0000";
    for (size_t i = 0; named[i]; i += 2)
        if ((uint32_t)(uint8_t)named[i] == cp) {
            text[1] = named[i + 1];
            pith_net_text(w->net, from, text, 2, w->node[state]);
            return;
        }
    text[4] = hex[cp >> 4];
    text[5] = hex[cp & 15];
    if (cp) pith_net_text(w->net, from, text, 6, w->node[state]);
}

static void write_json(struct writing *w, uint32_t from, const struct pith_chars_edge *e)
{
    static const uint32_t plain[][2] = {
        {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, PITH_CHARS_LAST}};
    for (size_t i = 0; i < PITH_COUNT(plain); i++) {
        const uint32_t lo = e->lo > plain[i][0] ? e->lo : plain[i][0];
        const uint32_t hi = e->hi < plain[i][1] ? e->hi : plain[i][1];
        if (lo <= hi) write_plain(w, from, lo, hi, e->to);
    }
    if (e->lo == 0 && e->hi == PITH_CHARS_LAST) {
        pith_net_bytes(w->net, from, '\\', '\\', any_escape(w, e->to));
        return;
    }
    for (uint32_t cp = 0; cp <= '\\'; cp++)
        if ((cp < 0x20 || cp == '"' || cp == '\\') && e->lo <= cp && cp <= e->hi)
            write_escape(w, from, cp, e->to);
}

void pith_net_chars(struct pith_net *n, uint32_t from, const struct pith_chars *c, bool json,
                    uint32_t to)
{
    struct writing w = {.net = n};
    w.ways = pith_zalloc(c->states, sizeof *w.ways);
    w.node = pith_alloc(c->states, sizeof *w.node);
    if (!w.ways || !w.node) n->failed = PITH_NOMEM;
    for (uint32_t i = 0; i < c->states && n->failed == PITH_OK; i++) w.node[i] = pith_net_add(n);
    if (c->states && n->failed == PITH_OK) pith_net_empty(n, from, w.node[0]);
    for (uint32_t i = 0; i < c->states && n->failed == PITH_OK; i++) {
        const struct pith_chars_state *s = &c->state[i];
        for (uint32_t k = 0; k < s->count; k++) {
            const struct pith_chars_edge *e = &c->edge[s->first + k];
            if (json) write_json(&w, w.node[i], e);
            else write_plain(&w, w.node[i], e->lo, e->hi, e->to);
        }
        if (s->final) pith_net_empty(n, w.node[i], to);
    }
    pith_free(w.ways);
    pith_free(w.node);
}
