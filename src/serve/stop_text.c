#include "serve/stop_text.h"

#include <string.h>

void pith_tail_free(struct pith_tail *t)
{
    pith_str_free(&t->held);
}

/* How many bytes of a stop text stand at `at`, up to the end of what is there. */
static size_t begun(const struct pith_str *held, size_t at, const char *stop, size_t size)
{
    const size_t left = held->len - at, n = left < size ? left : size;
    return memcmp(held->data + at, stop, n) == 0 ? n : 0;
}

/* The first place where one stands or may come to stand; its kind is *found (-1: none). */
static size_t look(const struct pith_str *held, const struct pith_stops *stops, int *found)
{
    *found = -1;
    for (size_t at = 0; at < held->len; at++) {
        bool maybe = false;
        for (size_t i = 0; i < stops->count; i++) {
            const size_t n = begun(held, at, stops->text[i], stops->size[i]);
            if (n == stops->size[i]) {
                *found = (int)i;
                return at;
            }
            maybe |= n > 0;
        }
        if (maybe) return at;
    }
    return held->len;
}

/* Whether a whole one stands behind a place where another may come to stand. */
static bool look_behind(const struct pith_str *held, const struct pith_stops *stops, size_t from,
                        size_t *at, int *found)
{
    for (*at = from + 1; *at < held->len; ++*at)
        for (size_t i = 0; i < stops->count; i++)
            if (begun(held, *at, stops->text[i], stops->size[i]) == stops->size[i]) {
                *found = (int)i;
                return true;
            }
    return false;
}

static void drop(struct pith_str *held, size_t n)
{
    memmove(held->data, held->data + n, held->len - n + 1);
    held->len -= n;
}

int pith_tail_push(struct pith_tail *t, const struct pith_stops *stops, bool keep, const char *text,
                   size_t size, struct pith_str *out)
{
    int found = -1;
    if (stops->count == 0) {
        pith_str_append(out, text, size);
        return -1;
    }
    pith_str_append(&t->held, text, size);
    if (t->held.failed || t->held.len == 0) {
        out->failed |= t->held.failed;
        return -1;
    }
    size_t at = look(&t->held, stops, &found);
    if (found < 0 && at < t->held.len) {
        size_t behind;
        if (look_behind(&t->held, stops, at, &behind, &found)) at = behind;
    }
    pith_str_append(out, t->held.data, at);
    if (found >= 0 && keep) pith_str_append(out, stops->text[found], stops->size[found]);
    if (found >= 0) pith_str_clear(&t->held);
    else drop(&t->held, at);
    return found;
}

void pith_tail_end(struct pith_tail *t, struct pith_str *out)
{
    if (t->held.len > 0) pith_str_append(out, t->held.data, t->held.len);
    pith_str_clear(&t->held);
}
