#include "serve/stop_text.h"

#include <string.h>

void pith_tail_free(struct pith_tail *t)
{
    pith_str_free(&t->pending);
}

/* How many bytes of a stop text stand at `at`, up to the end of what is there. */
static size_t begun(const struct pith_str *pending, size_t at, const char *stop, size_t size)
{
    const size_t left = pending->len - at, n = left < size ? left : size;
    return memcmp(pending->data + at, stop, n) == 0 ? n : 0;
}

/* The first place where one stands or may come to stand; its kind is *found (-1: none). */
static size_t look(const struct pith_str *pending, const struct pith_stops *stops, int *found)
{
    *found = -1;
    for (size_t at = 0; at < pending->len; at++) {
        bool maybe = false;
        for (size_t i = 0; i < stops->count; i++) {
            const size_t n = begun(pending, at, stops->text[i], stops->size[i]);
            if (n == stops->size[i]) {
                *found = (int)i;
                return at;
            }
            maybe |= n > 0;
        }
        if (maybe) return at;
    }
    return pending->len;
}

/* Whether a whole one stands behind a place where another may come to stand. */
static bool look_behind(const struct pith_str *pending, const struct pith_stops *stops, size_t from,
                        size_t *at, int *found)
{
    for (*at = from + 1; *at < pending->len; ++*at)
        for (size_t i = 0; i < stops->count; i++)
            if (begun(pending, *at, stops->text[i], stops->size[i]) == stops->size[i]) {
                *found = (int)i;
                return true;
            }
    return false;
}

static void drop(struct pith_str *pending, size_t n)
{
    memmove(pending->data, pending->data + n, pending->len - n + 1);
    pending->len -= n;
}

int pith_tail_push(struct pith_tail *t, const struct pith_stops *stops, bool keep, const char *text,
                   size_t size, struct pith_str *out)
{
    int found = -1;
    if (stops->count == 0) {
        pith_str_append(out, text, size);
        return -1;
    }
    pith_str_append(&t->pending, text, size);
    if (t->pending.failed || t->pending.len == 0) {
        out->failed |= t->pending.failed;
        return -1;
    }
    size_t at = look(&t->pending, stops, &found);
    if (found < 0 && at < t->pending.len) {
        size_t behind;
        if (look_behind(&t->pending, stops, at, &behind, &found)) at = behind;
    }
    pith_str_append(out, t->pending.data, at);
    if (found >= 0 && keep) pith_str_append(out, stops->text[found], stops->size[found]);
    if (found >= 0) pith_str_clear(&t->pending);
    else drop(&t->pending, at);
    return found;
}

void pith_tail_end(struct pith_tail *t, struct pith_str *out)
{
    if (t->pending.len > 0) pith_str_append(out, t->pending.data, t->pending.len);
    pith_str_clear(&t->pending);
}
