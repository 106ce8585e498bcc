#include "eval/baseline_text.h"

#include "base/mem.h"

#include <string.h>

/* A window and where its rows begin. */
struct pith_cached_window {
    struct pith_window window;
    size_t at;
};

static size_t rows_of(const struct pith_window *w)
{
    return w->length - w->score_from;
}

enum pith_status pith_cached_begin(struct pith_cached_text *k, const struct pith_window *windows,
                                   size_t count, size_t hidden, struct pith_error *err)
{
    const size_t most = k->most, row = hidden * sizeof *k->rows;
    size_t n = 0, rows = 0;
    while (n < count && rows_of(&windows[n]) <= most / row - rows) rows += rows_of(&windows[n++]);
    pith_cached_text_free(k);
    *k = (struct pith_cached_text){.most = most, .hidden = hidden};
    if (n == 0) return PITH_OK;
    k->windows = pith_alloc(n, sizeof *k->windows);
    k->rows = pith_alloc(rows, row);
    if (!k->windows || !k->rows) {
        pith_cached_text_free(k);
        return pith_fail_nomem(err, "the baseline's reading of a text");
    }
    k->count = n;
    for (size_t i = 0, at = 0; i < n; i++) {
        k->windows[i] = (struct pith_cached_window){windows[i], at};
        at += rows_of(&windows[i]);
    }
    return PITH_OK;
}

void pith_cached_put(struct pith_cached_text *k, size_t index, const float *rows)
{
    if (index >= k->count) return;
    const struct pith_cached_window *w = &k->windows[index];
    memcpy(k->rows + w->at * k->hidden, rows + (w->window.score_from - 1) * k->hidden,
           rows_of(&w->window) * k->hidden * sizeof *rows);
}

const float *pith_cached_find(const struct pith_cached_text *k, size_t index,
                              const struct pith_window *w, size_t hidden)
{
    if (index >= k->count || hidden != k->hidden) return NULL;
    const struct pith_window *own = &k->windows[index].window;
    const bool same = own->begin == w->begin && own->length == w->length &&
                      own->score_from == w->score_from && own->bos_first == w->bos_first;
    return same ? k->rows + k->windows[index].at * hidden : NULL;
}

void pith_cached_text_free(struct pith_cached_text *k)
{
    pith_free(k->windows);
    pith_free(k->rows);
    *k = (struct pith_cached_text){0};
}
