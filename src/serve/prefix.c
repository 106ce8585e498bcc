#include "serve/prefix.h"

#include "base/hash.h"
#include "base/mem.h"

#include <string.h>

enum { PAGE = 32 }; /* positions: model/kv/kv.h */

enum pith_status pith_prefix_init(struct pith_prefix *p, struct pith_runner *runner, uint32_t room,
                                  struct pith_error *err)
{
    *p = (struct pith_prefix){.runner = runner, .room = room};
    p->entry = pith_zalloc(room, sizeof *p->entry);
    return p->entry ? PITH_OK : pith_fail_nomem(err, "a prefix cache");
}

static void drop(struct pith_prefix *p, struct pith_cached_prefix *k)
{
    pith_runner_close(p->runner, k->sequence);
    pith_free(k->id);
    *k = (struct pith_cached_prefix){0};
}

void pith_prefix_free(struct pith_prefix *p)
{
    for (uint32_t i = 0; i < p->room; i++)
        if (p->entry[i].there) drop(p, &p->entry[i]);
    pith_free(p->entry);
    *p = (struct pith_prefix){0};
}

bool pith_prefix_drop(struct pith_prefix *p)
{
    struct pith_cached_prefix *oldest = NULL;
    for (uint32_t i = 0; i < p->room; i++)
        if (p->entry[i].there && (!oldest || p->entry[i].used < oldest->used))
            oldest = &p->entry[i];
    if (oldest) drop(p, oldest);
    return oldest != NULL;
}

size_t pith_prefix_pages(const struct pith_prefix *p)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->room; i++) n += (p->entry[i].count + PAGE - 1) / PAGE;
    return n;
}

/* Chained hashes of id[count] at the borders of pages. */
static void chain(const int32_t *id, size_t count, uint64_t *hash)
{
    struct {
        uint64_t before;
        int32_t id[PAGE];
    } link = {0};
    for (size_t i = 0; i < count / PAGE; i++) {
        memcpy(link.id, id + i * PAGE, sizeof link.id);
        hash[i] = link.before = pith_hash64(&link, sizeof link);
    }
}

/* How many tokens two begin with alike, by their hashes to a page, then by looking. */
static size_t common(const struct pith_cached_prefix *k, const int32_t *id, const uint64_t *hash,
                     size_t count)
{
    const size_t most = k->count < count ? k->count : count;
    size_t low = 0, high = most / PAGE; /* pages below low agree, those at high and above do not */
    while (low < high) {
        const size_t mid = (low + high + 1) / 2;
        if (k->hash[mid - 1] == hash[mid - 1]) low = mid;
        else high = mid - 1;
    }
    size_t n = low * PAGE;
    if (memcmp(k->id, id, n * sizeof *id) != 0) n = 0; /* another text with that hash */
    while (n < most && k->id[n] == id[n]) n++;
    return n;
}

/* Memory for a copy of ids with hashes behind them. */
static bool copy(struct pith_cached_prefix *k, const int32_t *id, size_t count)
{
    size_t bytes;
    if (!pith_mul_size(count / PAGE + count / 2 + 2, sizeof(uint64_t), &bytes)) return false;
    uint64_t *memory = pith_alloc(bytes, 1);
    if (!memory) return false;
    k->id = (int32_t *)memory;
    k->hash = memory + (count + 1) / 2;
    k->count = count;
    memcpy(k->id, id, count * sizeof *id);
    chain(id, count, k->hash);
    return true;
}

void pith_prefix_keep(struct pith_prefix *p, uint32_t sequence, const int32_t *id, size_t count)
{
    struct pith_cached_prefix *free_place = NULL, made = {.there = true, .sequence = sequence};
    if (p->room == 0 || count < PAGE || !copy(&made, id, count)) {
        pith_runner_close(p->runner, sequence);
        return;
    }
    for (uint32_t i = 0; i < p->room; i++) {
        struct pith_cached_prefix *k = &p->entry[i];
        if (k->there && k->count <= count && common(k, id, made.hash, count) == k->count)
            drop(p, k);
    }
    for (int again = 0; !free_place && again < 2; again++) {
        for (uint32_t i = 0; i < p->room; i++)
            if (!p->entry[i].there) free_place = &p->entry[i];
        if (!free_place) (void)pith_prefix_drop(p);
    }
    made.used = ++p->clock;
    *free_place = made;
}

/* The cached one that begins most as id[count] does. */
static struct pith_cached_prefix *find(const struct pith_prefix *p, const int32_t *id, size_t count,
                                       size_t *length)
{
    struct pith_cached_prefix *best = NULL;
    uint64_t *hash = pith_alloc(count / PAGE + 1, sizeof *hash);
    *length = 0;
    if (!hash) return NULL; /* then all is computed again */
    chain(id, count, hash);
    for (uint32_t i = 0; i < p->room; i++) {
        if (!p->entry[i].there) continue;
        const size_t n = common(&p->entry[i], id, hash, count);
        if (n > *length) best = &p->entry[i], *length = n;
    }
    pith_free(hash);
    return best;
}

static bool any_free(const struct pith_runner *r)
{
    for (uint32_t i = 0; i < r->kv.sequences; i++)
        if (!r->kv.sequence[i].open) return true;
    return false;
}

enum pith_status pith_prefix_open(struct pith_prefix *p, const int32_t *id, size_t count,
                                  uint32_t *sequence, size_t *length, struct pith_error *err)
{
    struct pith_cached_prefix *k = find(p, id, count, length);
    if (count > 0 && *length == count) --*length; /* the last is read for its logits */
    if (k) k->used = ++p->clock;                  /* so that it is the last to be dropped */
    while (!any_free(p->runner) && pith_prefix_drop(p)) {
    }
    if (k && k->there && *length >= PAGE) {
        PITH_TRY(pith_runner_fork(p->runner, k->sequence, *length, sequence, err));
        if (pith_kv_ready(&p->runner->kv, *sequence)) return PITH_OK;
        pith_runner_close(p->runner, *sequence); /* it would be read again from its beginning */
    }
    *length = 0;
    return pith_runner_open(p->runner, sequence, err);
}
