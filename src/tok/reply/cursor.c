/* Reading a text that is still being written. */
#include "tok/reply/parts.h"

#include <string.h>

void pith_cursor_fail(struct pith_cursor *c, enum pith_cursor_state state)
{
    if (c->state != PITH_CURSOR_GOOD) return;
    c->state = state;
    if (state != PITH_CURSOR_MORE || !c->end) return;
    c->state = PITH_CURSOR_BAD;
    c->at = c->size;
}

enum pith_begins pith_begins(const char *text, size_t size, const char *mark)
{
    const size_t length = strlen(mark), least = length < size ? length : size;
    if (least > 0 && memcmp(text, mark, least) != 0) return PITH_BEGINS_NOT;
    return least == length ? PITH_BEGINS_ALL : PITH_BEGINS_PART;
}

static enum pith_begins here(const struct pith_cursor *c, const char *mark)
{
    return pith_begins(c->text + c->at, c->size - c->at, mark);
}

void pith_cursor_space(struct pith_cursor *c)
{
    while (c->state == PITH_CURSOR_GOOD && c->at < c->size && c->text[c->at] &&
           strchr(" \t\r\n", c->text[c->at]))
        c->at++;
}

char pith_cursor_peek(struct pith_cursor *c)
{
    if (c->state == PITH_CURSOR_GOOD && c->at == c->size) pith_cursor_fail(c, PITH_CURSOR_MORE);
    return c->state == PITH_CURSOR_GOOD ? c->text[c->at] : '\0';
}

bool pith_cursor_take(struct pith_cursor *c, const char *mark)
{
    if (c->state != PITH_CURSOR_GOOD) return false;
    if (!mark) return true;
    const enum pith_begins b = here(c, mark);
    if (b == PITH_BEGINS_ALL) c->at += strlen(mark);
    /* At the end of the answer it is another text. */
    else if (b == PITH_BEGINS_PART && !c->end) pith_cursor_fail(c, PITH_CURSOR_MORE);
    return b == PITH_BEGINS_ALL;
}

bool pith_cursor_need(struct pith_cursor *c, const char *mark)
{
    if (pith_cursor_take(c, mark)) return true;
    pith_cursor_fail(c, PITH_CURSOR_BAD);
    return false;
}

bool pith_cursor_last(struct pith_cursor *c, const char *mark)
{
    if (c->state == PITH_CURSOR_GOOD && mark && c->end && here(c, mark) == PITH_BEGINS_PART) {
        c->at = c->size;
        return true;
    }
    return pith_cursor_need(c, mark);
}

bool pith_cursor_until(struct pith_cursor *c, const char *mark, size_t most,
                       struct pith_passage *out)
{
    if (c->state != PITH_CURSOR_GOOD) return false;
    const char *from = c->text + c->at;
    for (size_t i = 0; i <= c->size - c->at && i <= most; i++) {
        const enum pith_begins b = pith_begins(from + i, c->size - c->at - i, mark);
        if (b == PITH_BEGINS_PART) break;
        if (b == PITH_BEGINS_NOT) continue;
        *out = (struct pith_passage){from, i};
        c->at += i + strlen(mark);
        return true;
    }
    pith_cursor_fail(c, c->size - c->at > most + strlen(mark) ? PITH_CURSOR_BAD : PITH_CURSOR_MORE);
    return false;
}

/* Deeper values are no arguments: the list of open brackets has as many bits. */
enum { DEPTH = 256 };

bool pith_cursor_value(struct pith_cursor *c, struct pith_passage *out)
{
    uint64_t lists[DEPTH / 64] = {0}; /* bit: a list, not an object */
    size_t depth = 0, i = c->at;
    bool string = false;
    if (c->state != PITH_CURSOR_GOOD) return false;
    for (; i < c->size; i++) {
        const char b = c->text[i];
        if (string) {
            if (b == '\\') i++;
            else if (b == '"') string = false;
            continue;
        }
        if (b == '"' && depth > 0) {
            string = true;
        } else if ((b == '{' || b == '[') && depth < DEPTH) {
            const uint64_t bit = (uint64_t)1 << depth % 64;
            lists[depth / 64] = b == '[' ? lists[depth / 64] | bit : lists[depth / 64] & ~bit;
            depth++;
        } else if ((b == '}' || b == ']') && depth > 0 &&
                   (b == ']') == (lists[(depth - 1) / 64] >> (depth - 1) % 64 & 1)) {
            if (--depth > 0) continue;
            *out = (struct pith_passage){c->text + c->at, i + 1 - c->at};
            c->at = i + 1;
            return true;
        } else if (depth == 0 || strchr("{}[]", b)) {
            c->at = i;
            pith_cursor_fail(c, PITH_CURSOR_BAD);
            return false;
        }
    }
    pith_cursor_fail(c, PITH_CURSOR_MORE);
    return false;
}
