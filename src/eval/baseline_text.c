#include "eval/baseline_text.h"

#include "base/mem.h"

#include <string.h>

/* A window, where its rows begin, and how many of these have logits. */
struct pith_cached_window {
    struct pith_window window;
    size_t at, logits;
};

static const size_t LOGITS_BYTES = (size_t)2 << 30;
static const char LOGITS_FILE[] = "pith.logits";

static size_t rows_of(const struct pith_window *w)
{
    return w->length - w->score_from;
}

/* Without it, logits are computed again. */
static void open_logits(struct pith_cached_text *k, size_t rows, size_t vocab)
{
    const size_t row = vocab * sizeof *k->rows, fit = LOGITS_BYTES / row;
    const size_t most = rows < fit ? rows : fit;
    struct pith_error ignored = {0};
    if (!k->folder || most == 0) return;
    k->lse = pith_alloc(most, sizeof *k->lse);
    if (k->lse && pith_scratch_file_own(k->folder, LOGITS_FILE, k->number, most * row, &k->logits,
                                        &ignored) == PITH_OK)
        k->logits_most = most;
}

enum pith_status pith_cached_begin(struct pith_cached_text *k, const struct pith_window *windows,
                                   size_t count, const struct pith_shape *shape,
                                   struct pith_error *err)
{
    const struct pith_cached_text own = {.most = k->most,
                                         .folder = k->folder,
                                         .number = k->number,
                                         .hidden = shape->hidden,
                                         .vocab = shape->vocab};
    const size_t row = own.hidden * sizeof *k->rows;
    size_t n = 0, rows = 0;
    while (n < count && rows_of(&windows[n]) <= own.most / row - rows)
        rows += rows_of(&windows[n++]);
    pith_cached_text_free(k);
    *k = own;
    if (n == 0) return PITH_OK;
    k->windows = pith_alloc(n, sizeof *k->windows);
    k->rows = pith_alloc(rows, row);
    if (!k->windows || !k->rows) {
        pith_cached_text_free(k);
        return pith_fail_nomem(err, "the baseline's reading of a text");
    }
    k->count = n;
    for (size_t i = 0, at = 0; i < n; i++) {
        k->windows[i] = (struct pith_cached_window){.window = windows[i], .at = at};
        at += rows_of(&windows[i]);
    }
    open_logits(k, rows, own.vocab);
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

void pith_cached_put_logits(struct pith_cached_text *k, size_t index, size_t at, size_t n,
                            const struct pith_cached_logits *of)
{
    if (index >= k->count || !k->logits_most) return;
    struct pith_cached_window *w = &k->windows[index];
    const size_t first = at - w->window.score_from, row = w->at + first;
    if (first != w->logits || row + n > k->logits_most) return;
    memcpy((float *)k->logits.data + row * k->vocab, of->logits, n * k->vocab * sizeof(float));
    memcpy(k->lse + row, of->lse, n * sizeof *k->lse);
    w->logits += n;
}

bool pith_cached_find_logits(const struct pith_cached_text *k, size_t index, size_t at, size_t n,
                             struct pith_cached_logits *of)
{
    if (index >= k->count) return false;
    const struct pith_cached_window *w = &k->windows[index];
    const size_t first = at - w->window.score_from, row = w->at + first;
    if (first + n > w->logits) return false;
    of->logits = (const float *)k->logits.data + row * k->vocab;
    of->lse = k->lse + row;
    return true;
}

enum pith_status pith_cached_check(const struct pith_cached_text *k, struct pith_error *err)
{
    return pith_scratch_file_check(&k->logits, LOGITS_FILE, err);
}

void pith_cached_text_free(struct pith_cached_text *k)
{
    pith_scratch_file_close(&k->logits);
    pith_free(k->lse);
    pith_free(k->windows);
    pith_free(k->rows);
    *k = (struct pith_cached_text){0};
}
