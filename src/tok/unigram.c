#include "tok/unigram.h"

#include "base/mem.h"
#include "tok/unicode/utf8.h"

#define NONE UINT32_MAX

/* The best way to a place: its last token and where that begins. */
struct pith_unigram_way {
    double sum;
    uint32_t from; /* relative to the stretch; NONE: no way yet */
    int32_t id;
};

enum pith_status pith_unigram_build(struct pith_unigram *u, struct pith_trie_key *key, size_t count,
                                    struct pith_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (key[i].len > PITH_UNIGRAM_PIECE)
            return pith_fail(err, PITH_UNSUPPORTED, "token %d has %u bytes, more than %d",
                             (int)key[i].value, (unsigned)key[i].len, PITH_UNIGRAM_PIECE);
        if (key[i].len > u->longest) u->longest = key[i].len;
    }
    return pith_trie_build(&u->trie, key, count, err);
}

void pith_unigram_free(struct pith_unigram *u)
{
    pith_trie_free(&u->trie);
    pith_free(u->score);
    *u = (struct pith_unigram){0};
}

void pith_unigram_run_free(struct pith_unigram_run *run)
{
    pith_free(run->way);
    *run = (struct pith_unigram_run){.beat = run->beat};
}

/* A stretch of the text that begins at `base`, where every way must pass: places are relative to
 * it. */
struct stretch {
    const struct pith_unigram *u;
    struct pith_unigram_run *run;
    const char *text;
    size_t base, len;
    uint32_t reach; /* the farthest place that a token ends at */
    pith_unigram_fn *fn;
    void *ctx;
};

/* Room for `places` places of a stretch; false when memory is out. */
static bool reserve(struct pith_unigram_run *run, size_t places)
{
    if (places <= run->cap) return true;
    const size_t cap = places * 2;
    struct pith_unigram_way *way = pith_realloc(run->way, cap, sizeof *way);
    if (!way) return false;
    run->way = way;
    run->cap = cap;
    return true;
}

/* A token from one place to another: taken when no way there is as good. */
static inline void offer(struct stretch *s, uint32_t from, uint32_t to, int32_t id, double sum)
{
    struct pith_unigram_way *way = s->run->way;
    if (s->u->narrow) sum = (double)(float)sum;
    while (s->reach < to) way[++s->reach].from = NONE;
    if (way[to].from != NONE && !(sum > way[to].sum)) return;
    way[to] = (struct pith_unigram_way){sum, from, id};
}

/* Where a sum becomes so large that floats are coarse, SentencePiece counts anew from there: it is
 * taken off from all ways that lead on. */
static void count_anew(struct stretch *s, uint32_t at)
{
    static const double most = 100000;
    struct pith_unigram_way *way = s->run->way;
    const double here = way[at].sum;
    if (!s->u->narrow || (here <= most && here >= -most)) return;
    for (uint32_t i = at; i <= s->reach || i == at; i++)
        if (i == at || way[i].from != NONE) way[i].sum = (double)(float)(way[i].sum - here);
}

/* Offers all tokens that stand at a place, and the unknown one when its character has none. */
static enum pith_status offer_at(struct stretch *s, uint32_t at, struct pith_error *err)
{
    const struct pith_unigram *u = s->u;
    const char *text = s->text + s->base + at;
    const size_t left = s->len - s->base - at, n = pith_utf8_len(text[0]);
    if (!reserve(s->run, (size_t)at + (u->longest > n ? u->longest : n) + 1))
        return pith_fail_nomem(err, "token ids");
    count_anew(s, at);
    const double here = s->run->way[at].sum;
    bool single = false;
    uint32_t node = 0;
    for (size_t i = 0; i < left && u->trie.nodes;) {
        node = pith_trie_step(&u->trie, node, (uint8_t)text[i++]);
        if (node == 0) break;
        const int32_t id = u->trie.value[node];
        if (id < 0) continue;
        offer(s, at, at + (uint32_t)i, id, u->score[id] + here);
        single = single || i == n;
    }
    if (single) return PITH_OK;
    offer(s, at, at + (uint32_t)n, u->unk, u->unk_score + here);
    if (u->unk < 0 && s->run->way[at + n].from == at && s->run->way[at + n].id == u->unk)
        return pith_fail(err, PITH_FORMAT,
                         "the tokenizer has no token for \"%.*s\" and none for what is unknown",
                         (int)n, text);
    return PITH_OK;
}

/* Hands out the best way through the stretch, which ends at `end`, and begins the next one there.
 */
static enum pith_status close_stretch(struct stretch *s, uint32_t end, struct pith_error *err)
{
    struct pith_unigram_way *way = s->run->way;
    const double sum = way[end].sum;
    uint32_t next = NONE;
    for (uint32_t at = end, from; at > 0; at = from) { /* the links reverse: from becomes to */
        from = way[at].from;
        way[at].from = next;
        next = at;
    }
    for (uint32_t at = 0; next != NONE; at = next, next = way[next].from)
        PITH_TRY(s->fn(s->ctx, way[next].id, s->base + at, next - at, err));
    s->base += end;
    s->reach = 0;
    way[0].sum = sum;
    return PITH_OK;
}

enum pith_status pith_unigram_cut(const struct pith_unigram *u, struct pith_unigram_run *run,
                                  const char *text, size_t len, pith_unigram_fn *fn, void *ctx,
                                  struct pith_error *err)
{
    if (len > INT32_MAX) return pith_fail(err, PITH_LIMIT, "a text of %zu bytes is too long", len);
    struct stretch s = {.u = u, .run = run, .text = text, .len = len, .fn = fn, .ctx = ctx};
    if (len == 0) return PITH_OK;
    if (!reserve(run, 1)) return pith_fail_nomem(err, "token ids");
    run->way[0].sum = 0;
    for (uint32_t at = 0; s.base + at < len;) {
        PITH_TRY(pith_beat(&run->beat, err));
        PITH_TRY(offer_at(&s, at, err));
        at += (uint32_t)pith_utf8_len(text[s.base + at]);
        if (at < s.reach) continue;
        PITH_TRY(close_stretch(&s, at, err));
        at = 0;
    }
    return PITH_OK;
}
