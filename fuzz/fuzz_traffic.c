/* Any bytes as what a server answers and as what pith bench --serve is told: streams of events give
 * the same from a whole and from pieces, and no more bytes than came; what is read of an event, of
 * a whole answer, of a trace, of a distribution or of limits is within its bounds.
 *
 *     u8 what: a row of `readers`; u8 how the rest is cut; the rest */
#include "base/mem.h"
#include "traffic/chunk.h"
#include "traffic/figures.h"
#include "traffic/plan.h"
#include "traffic/sse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth)
{
    if (!truth) abort();
}

/* --- streams ---------------------------------------------------------------------------------- */

struct heard {
    struct pith_str all; /* of each event its kind, its bytes, a line end */
    size_t bytes;
};

static void check_chunk(const struct pith_chunk *c)
{
    must(!c->text || c->token);
    must(!c->done || (!c->token && !c->finished && !c->error[0]));
    must(c->used.prompt >= -1 && c->used.answer >= -1 && c->used.cached >= -1);
    must(memchr(c->error, '\0', sizeof c->error) != NULL);
}

static enum pith_status hear(void *ctx, const struct pith_sse_event *e, struct pith_error *err)
{
    struct heard *h = ctx;
    struct pith_chunk c;
    (void)err;
    must(e->data[e->size] == '\0');
    pith_str_putc(&h->all, e->error ? '!' : ' ');
    pith_str_append(&h->all, e->data, e->size);
    pith_str_putc(&h->all, '\n');
    h->bytes += e->size;
    if (pith_chunk_read(e->data, e->size, &c, NULL) == PITH_OK) check_chunk(&c);
    return PITH_OK;
}

static void read_stream(const char *text, size_t size, size_t piece, struct heard *h)
{
    struct pith_sse s = {.take = hear, .ctx = h};
    for (size_t at = 0; at < size; at += piece) {
        const size_t n = size - at < piece ? size - at : piece;
        char *copy = malloc(n);
        must(copy != NULL);
        memcpy(copy, text + at, n);
        must(pith_sse_push(&s, copy, n, NULL) == PITH_OK);
        free(copy);
    }
    must(pith_sse_end(&s, NULL) == PITH_OK);
    pith_sse_free(&s);
}

static void try_stream(const char *text, size_t size, size_t piece)
{
    struct heard whole = {.bytes = 0}, cut = {.bytes = 0};
    read_stream(text, size, size + 1, &whole);
    read_stream(text, size, piece, &cut);
    must(whole.bytes <= size && whole.all.len == cut.all.len);
    must(whole.all.len == 0 || memcmp(whole.all.data, cut.all.data, cut.all.len) == 0);
    pith_str_free(&whole.all);
    pith_str_free(&cut.all);
}

/* --- the rest --------------------------------------------------------------------------------- */

static void try_answer(const char *text, size_t size, size_t piece)
{
    struct pith_chunk c;
    (void)piece;
    if (pith_answer_read(text, size, &c, NULL) == PITH_OK) check_chunk(&c);
}

static void try_trace(const char *text, size_t size, size_t piece)
{
    struct pith_trace t;
    struct pith_error err = {0};
    (void)piece;
    if (pith_trace_parse(text, size, "trace", &t, &err) != PITH_OK) {
        must(err.text[0] != '\0' && t.row == NULL);
        return;
    }
    must(t.rows > 0);
    for (size_t i = 0; i < t.rows; i++) {
        must(t.row[i].at >= (i ? t.row[i - 1].at : 0) && t.row[i].index == i);
        must(t.row[i].prompt >= 1 && t.row[i].answer >= 1);
    }
    pith_trace_free(&t);
}

static void try_lengths(const char *text, size_t size, size_t piece)
{
    struct pith_lengths l;
    struct pith_rng rng;
    struct pith_error err = {0};
    (void)size;
    if (pith_lengths_parse(text, "--prompt", &l, &err) != PITH_OK) {
        must(err.text[0] != '\0');
        return;
    }
    pith_rng_seed(&rng, piece);
    for (size_t i = 0; i < 8; i++) {
        const size_t n = pith_lengths_draw(&l, &rng);
        must(n >= 1 && (double)n >= floor(l.least) && (double)n <= l.most);
    }
}

static void try_goals(const char *text, size_t size, size_t piece)
{
    struct pith_goals g = {.any = false};
    struct pith_error err = {0};
    (void)size, (void)piece;
    if (pith_goals_parse(text, &g, &err) != PITH_OK) must(err.text[0] != '\0');
    else
        for (size_t i = 0; i < PITH_TRAFFIC_LIMITS; i++) must(g.any && g.most[i] > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *, size_t, size_t) = {
        try_stream, try_answer, try_trace, try_lengths, try_goals};
    if (size < 2) return 0;
    char *text = malloc(size - 1); /* with a NUL, and not a byte more */
    must(text != NULL);
    memcpy(text, data + 2, size - 2);
    text[size - 2] = '\0';
    readers[data[0] % PITH_COUNT(readers)](text, size - 2, (size_t)data[1] % 16 + 1);
    free(text);
    return 0;
}
