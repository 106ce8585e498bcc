/* Causal attention. The rows of a kv head are the queries times the query heads that share it, row
 * r being head r % group of query r / group; a key or value that is read serves all rows of a
 * block.
 *
 * Many queries: a task is a kv head of a span with a block of rows, and goes through the chunks of
 * positions that they see. One query alone: a task is a kv head with one chunk, its sums go to the
 * caller's work space, and a second round of tasks merges them. Both run the same steps on the same
 * chunks, so the result is the same. */
#include "backend/cache/key_offset.h"
#include "backend/cache/pages.h"
#include "backend/layer.h"
#include "base/mem.h"
#include "num/input.h"
#include "num/rowcode.h"

#include <math.h>
#include <string.h>

/* Positions of a chunk; rows of a block, enough to pay for widening keys; the distance of rows of
 * scores, not a multiple of a page so that they do not compete for the same lines of the cache. */
enum { CHUNK = 512, ROWS = 4 * PITH_FEW_ROWS, SCORES_LD = CHUNK + 16 };
/* Spans whose tasks are handed out together; tasks a thread, so that all end at about the same
 * time. */
enum { SPANS = 64, TASKS = 8 };

/* One span. */
struct job {
    struct pith_backend *b;
    const struct pith_attention *a;
    const struct pith_cache_span *span;
    size_t query;         /* its first in q and out */
    size_t group;         /* query heads a kv head */
    size_t rows, blocks;  /* rows a block, blocks */
    size_t dim, key;      /* of a value, of a key, padded */
    size_t first, chunks; /* chunks that are seen */
    size_t run, runs; /* chunks that one task takes when positions are shared, tasks a kv head */
    size_t team;      /* kv heads that one task takes, of a single query */
    size_t query_floats;         /* that the kind of keys works in, a row */
    bool key_bytes, value_bytes; /* multiplied as integers */
};

struct jobs {
    struct job job[SPANS];
    size_t begin[SPANS + 1]; /* tasks before each */
    size_t count;
};

/* What rows have added up over some positions: the largest score, and the sums of weights and of
 * weighted values [rows][dim]. A sum of 0 says that nothing was seen. */
struct sums {
    float *max, *sum, *o;
};

/* The rows of a task for one kv head and a thread's memory for them. */
struct part {
    size_t kv, first, count; /* rows first .. first + count - 1 */
    size_t next, further;    /* whose keys or values follow these, so many positions further */
    unsigned thread;
    float *q;      /* [count][key], scaled */
    float *scores; /* [count][SCORES_LD] */
    float *powers; /* [2 count] */
    float *query;  /* [count][query_floats] */
    float *offset; /* [count][pith_key_offset_floats()] */
    struct pith_query_bytes bytes;
    struct sums chunk, total;
};

static size_t scratch_floats(const struct job *j)
{
    return SCORES_LD + j->key + 2 * j->dim + 6 + j->query_floats +
           (j->key_bytes ? pith_query_bytes_floats(j->key) : 0) +
           (j->a->offset ? pith_key_offset_floats(j->a->offset) : 0);
}

static float *take(float **from, size_t n)
{
    float *p = *from;
    *from += n;
    return p;
}

/* From *from on, which moves behind what the part takes. */
static void prepare(const struct job *j, struct part *p, float **from)
{
    const struct pith_attention *a = j->a;
    const size_t head_dim = a->cache->k.dim, n = p->count;
    float *memory = *from;
    *from += n * scratch_floats(j);
    p->q = take(&memory, n * j->key);
    p->scores = take(&memory, n * SCORES_LD);
    p->chunk.o = take(&memory, n * j->dim);
    p->total.o = take(&memory, n * j->dim);
    p->chunk.max = take(&memory, n);
    p->chunk.sum = take(&memory, n);
    p->total.max = take(&memory, n);
    p->total.sum = take(&memory, n);
    p->powers = take(&memory, 2 * n);
    p->query = take(&memory, n * j->query_floats);
    if (a->offset) p->offset = take(&memory, n * pith_key_offset_floats(a->offset));
    if (j->key_bytes) p->bytes = pith_query_bytes(&a->cache->k, n, memory);
    for (size_t r = 0; r < n; r++) {
        const size_t query = j->query + (p->first + r) / j->group;
        const size_t head = (p->first + r) % j->group;
        const float *x = a->q + (query * a->heads + p->kv * j->group + head) * head_dim;
        float *to = p->q + r * j->key;
        if (a->rounded) {
            pith_input_row(a->rounded, &(struct pith_input_call){0}, x, head_dim, to);
            x = to;
        }
        for (size_t e = 0; e < head_dim; e++) to[e] = x[e] * a->scale;
        if (a->offset)
            pith_key_offset_query(a->offset, p->kv, to,
                                  p->offset + r * pith_key_offset_floats(a->offset));
    }
    if (j->key_bytes) pith_query_bytes_fill(j->b, &p->bytes, n, p->q);
}

/* Positions that a row sees, [from, to). */
static size_t row_from(const struct job *j, size_t row)
{
    const size_t end = j->span->start + row / j->group + 1, window = j->a->window;
    if (window && j->a->chunked) return (end - 1) - (end - 1) % window;
    return window && end > window ? end - window : 0;
}
static size_t row_to(const struct job *j, size_t row)
{
    return j->span->start + row / j->group + 1;
}

/* Scores of a page of 32 keys, and weighted sums of n values of one. */
static void score_page(const struct job *j, const struct part *p, const struct pith_cache *cache,
                       const struct pith_cache_rows *rows, float *scores)
{
    const struct pith_cache_side *side = &cache->k;
    float *work = j->b->scratch[p->thread].b;
    if (j->key_bytes && cache == j->a->cache)
        pith_score_bytes(j->b, side,
                         &(struct pith_key_scores){rows, &p->bytes, p->count, scores, SCORES_LD},
                         work);
    else
        pith_cache_kind(side)->scores(j->b, side, rows,
                                      &(struct pith_page_scores){.count = p->count,
                                                                 .q = p->q,
                                                                 .ldq = j->key,
                                                                 .scores = scores,
                                                                 .ld = SCORES_LD,
                                                                 .query = p->query,
                                                                 .work = work});
}

/* Weighted sums of values that lie among keys, some of their elements after the others. */
static void add_joined(const struct job *j, const struct part *p, const struct pith_cache *cache,
                       const struct pith_cache_rows *rows, const float *weights)
{
    float strip[PITH_KEYS * PITH_STRIP], some[PITH_KEYS * PITH_STRIP];
    const struct pith_kern *k = &j->b->kern;
    const struct pith_cache_side *keys = &cache->k;
    const float *tile = NULL;
    if (keys->code) tile = pith_cache_key_tile(j->b, keys, rows, j->b->scratch[p->thread].b);
    for (size_t e = 0; e < cache->v.dim; e += PITH_STRIP) {
        const size_t n = pith_min(PITH_STRIP, cache->v.dim - e), wide = pith_cache_row(n);
        pith_cache_key_strip(j->b, keys, rows, &(struct pith_key_strip){tile, e, n}, strip);
        const float *from = strip + rows->first * PITH_STRIP;
        if (wide < PITH_STRIP) {
            k->copy_rows(rows->n, wide, from, PITH_STRIP, some, wide);
            from = some;
        }
        k->attn_values_f32(p->count, rows->n, wide, weights, SCORES_LD, from, p->chunk.o + e,
                           j->dim);
    }
}

static void add_page(const struct job *j, const struct part *p, const struct pith_cache *cache,
                     const struct pith_cache_rows *rows, float *weights)
{
    const struct pith_cache_side *side = &cache->v;
    float *work = j->b->scratch[p->thread].b;
    struct pith_coded_sums sums = {p->count, rows->n, weights, SCORES_LD, p->chunk.o, j->dim};
    if (cache->joined) add_joined(j, p, cache, rows, weights);
    else if (j->value_bytes && cache == j->a->cache) {
        sums.p -= rows->first;
        pith_add_bytes(j->b, side, rows, &sums, work);
    } else pith_cache_kind(side)->values(j->b, side, rows, &sums, work);
}

/* How many of a part's rows, the first, see a page in floats. */
static size_t plain_rows(const struct job *j, const struct part *p, size_t page)
{
    const struct pith_attention *a = j->a;
    if (!a->plain) return 0;
    if (page < a->sink) return p->count;
    const size_t end = a->recent ? (page + a->recent) * PITH_KEYS : 0; /* of queries near enough */
    if (end <= j->span->start) return 0;
    const size_t rows = (end - j->span->start) * j->group;
    return rows <= p->first ? 0 : pith_min(rows - p->first, p->count);
}

/* Rows [first, first + count) of a part. */
static struct part some_rows(const struct job *j, const struct part *p, size_t first, size_t count)
{
    struct part some = *p;
    some.q += first * j->key;
    if (j->key_bytes) some.bytes = pith_query_bytes_from(&p->bytes, first);
    some.chunk.o += first * j->dim;
    some.count = count;
    return some;
}

/* Whether the span has the page of a position. */
static bool has_page(const struct job *j, size_t position)
{
    return position / PITH_KEYS < pith_cache_pages(j->span->start + j->span->n);
}

/* A side of the cache: where a head's part of the page of a position lies, and what rows do with
 * it, their scores of its first position given. */
struct side {
    char *(*page)(const struct pith_cache *cache, const struct pith_cache_span *span,
                  size_t position, size_t kv);
    void (*work)(const struct job *j, const struct part *p, const struct pith_cache *cache,
                 const struct pith_cache_rows *rows, float *scores);
};
static const struct side keys = {pith_cache_keys, score_page};
static const struct side values = {pith_cache_values, add_page};

/* Some rows of the page of a position, which is the scores' column `at`: the part's first rows may
 * see it in floats, the others see what the cache keeps. */
static void visit(const struct job *j, const struct part *p, const struct side *side,
                  size_t position, size_t at, struct pith_cache_rows *rows)
{
    const struct pith_attention *a = j->a;
    const size_t near = plain_rows(j, p, position / PITH_KEYS);
    rows->position = position - position % PITH_KEYS;
    if (near > 0) {
        const struct pith_cache_span plain = {.page = j->span->plain};
        const struct part first = some_rows(j, p, 0, near);
        rows->page = side->page(a->plain, &plain, position, p->kv);
        side->work(j, &first, a->plain, rows, p->scores + at);
    }
    if (near == p->count) return;
    rows->page = side->page(a->cache, j->span, position, p->kv);
    if (has_page(j, position + p->further))
        rows->next = side->page(a->cache, j->span, position + p->further, p->next);
    if (near == 0) {
        side->work(j, p, a->cache, rows, p->scores + at);
        return;
    }
    const struct part rest = some_rows(j, p, near, p->count - near);
    side->work(j, &rest, a->cache, rows, p->scores + near * SCORES_LD + at);
}

/* The parts of a task: kv heads that follow each other, of the same rows. What lies in memory one
 * behind the other is read so: that is what the processor's own look-ahead knows. */
enum { TEAM = 16, AHEAD = 3 };
struct team {
    struct part part[TEAM];
    size_t count;
};

static void prepare_team(const struct job *j, struct team *t, struct part first, size_t heads)
{
    float *memory = j->b->scratch[first.thread].scores;
    t->count = heads;
    for (size_t i = 0; i < heads; i++) {
        struct part *p = &t->part[i];
        *p = first;
        p->kv = first.kv + i;
        p->next = first.kv + (i + AHEAD) % heads;
        p->further = (i + AHEAD) / heads * PITH_KEYS;
        prepare(j, p, &memory);
    }
}

/* Adds the offset of keys, which is not stored, to the scores of the pages that hold [low, high) of
 * a chunk. */
static void add_offset(const struct job *j, const struct part *p, size_t base, size_t low,
                       size_t high)
{
    const struct pith_key_offset *o = j->a->offset;
    const size_t first = low / PITH_KEYS, pages = pith_cache_pages(high) - first;
    _Static_assert(CHUNK / PITH_KEYS == PITH_OFFSET_PAGES, "a chunk is added at once");
    for (size_t r = 0; r < p->count; r++) {
        const struct pith_offset_scores of = {
            .query = p->offset + r * pith_key_offset_floats(o),
            .page = base / PITH_KEYS + first,
            .pages = pages,
            .scores = p->scores + r * SCORES_LD + first * PITH_KEYS,
            .work = j->b->scratch[p->thread].b};
        pith_key_offset_add(j->b, o, &of);
    }
}

/* Scores of the pages that hold [low, high) of a chunk. */
static void score(const struct job *j, const struct team *t, size_t base, size_t low, size_t high)
{
    for (size_t at = low - low % PITH_KEYS; at < high; at += PITH_KEYS)
        for (size_t i = 0; i < t->count; i++) {
            struct pith_cache_rows rows = {.kv = t->part[i].kv, .n = PITH_KEYS};
            visit(j, &t->part[i], &keys, base + at, at, &rows);
        }
    for (size_t i = 0; j->a->offset && i < t->count; i++)
        add_offset(j, &t->part[i], base, low, high);
}

/* Weights to what kernels of rounded operands multiply values with. */
static void round_weights(const struct pith_attention *a, float *weights, size_t n)
{
    const struct pith_input in = {.grid = {.format = a->rounded->grid.format,
                                           .granularity = PITH_PER_TENSOR,
                                           .is_static = true},
                                  .scale = PITH_ATTN_STEP};
    pith_input_row(&in, &(struct pith_input_call){0}, weights, n, weights);
}

/* Scores to weights, [0, high) of the chunk at base; what a row does not see, up to the end of the
 * page, gets the weight 0. */
static void weigh(const struct job *j, const struct part *p, size_t base, size_t high)
{
    const struct pith_kern *k = &j->b->kern;
    for (size_t r = 0; r < p->count; r++) {
        float *s = p->scores + r * SCORES_LD;
        size_t from = row_from(j, p->first + r), to = row_to(j, p->first + r);
        from = from > base ? from - base : 0;
        to = to > base ? pith_min(to - base, high) : 0;
        p->chunk.max[r] = -INFINITY;
        p->chunk.sum[r] = 0;
        if (from < to) {
            for (size_t i = 0; i < from; i++) s[i] = -INFINITY;
            if (j->a->cap > 0) k->softcap(to - from, j->a->cap, s + from);
            p->chunk.max[r] = k->max(to - from, s + from);
            p->chunk.sum[r] = k->exp_sum(to, s, p->chunk.max[r]);
            if (j->a->rounded) round_weights(j->a, s, to);
        } else {
            to = 0;
        }
        memset(s + to, 0, (pith_cache_pages(high) * PITH_KEYS - to) * sizeof *s);
    }
}

/* Weighted sums of the values [low, high) of a chunk. */
static void add_values(const struct job *j, const struct team *t, size_t base, size_t low,
                       size_t high)
{
    for (size_t at = low, n; at < high; at += n) {
        n = pith_min(PITH_KEYS - at % PITH_KEYS, high - at);
        for (size_t i = 0; i < t->count; i++) {
            const struct part *p = &t->part[i];
            struct pith_cache_rows rows = {.kv = p->kv, .first = at % PITH_KEYS, .n = n};
            visit(j, p, &values, base + at, at, &rows);
        }
    }
}

/* The rows of a team over one chunk, into their part's. */
static void attend(const struct job *j, const struct team *t, size_t chunk)
{
    const struct part *first = &t->part[0];
    const size_t base = chunk * CHUNK, from = row_from(j, first->first);
    const size_t low = from > base ? from - base : 0;
    const size_t high = pith_min(CHUNK, row_to(j, first->first + first->count - 1) - base);
    score(j, t, base, low, high);
    for (size_t i = 0; i < t->count; i++) {
        const struct part *p = &t->part[i];
        weigh(j, p, base, high);
        memset(p->chunk.o, 0, p->count * j->dim * sizeof(float));
    }
    add_values(j, t, base, low, high);
}

/* The chunk's sums into the total's. */
static void merge(const struct job *j, const struct part *p, const struct sums *chunk)
{
    const struct pith_kern *k = &j->b->kern;
    const struct sums *total = &p->total;
    for (size_t r = 0; r < p->count; r++) {
        const float max = chunk->max[r] > total->max[r] ? chunk->max[r] : total->max[r];
        p->powers[2 * r] = total->max[r] - max;
        p->powers[2 * r + 1] = chunk->max[r] - max;
        if (chunk->sum[r] != 0) total->max[r] = max;
    }
    k->exp_sum(2 * p->count, p->powers, 0);
    for (size_t r = 0; r < p->count; r++) {
        const float a = p->powers[2 * r], b = p->powers[2 * r + 1];
        const float *from = chunk->o + r * j->dim;
        float *to = total->o + r * j->dim;
        if (chunk->sum[r] == 0) continue;
        if (total->sum[r] == 0) {
            memcpy(to, from, j->dim * sizeof *to);
            total->sum[r] = chunk->sum[r];
        } else {
            k->mix(j->dim, a, b, from, to);
            total->sum[r] = fmaf(a, total->sum[r], b * chunk->sum[r]);
        }
    }
}

static void begin(const struct part *p)
{
    for (size_t r = 0; r < p->count; r++) {
        p->total.max[r] = -INFINITY;
        p->total.sum[r] = 0;
    }
}

/* What a row's sum of weighted values is multiplied by: 1 / (sum of weights), and a sink's among
 * them. */
static float share_of(const struct job *j, const struct part *p, size_t row, size_t head)
{
    const float sum = p->total.sum[row], most = p->total.max[row];
    if (!j->a->sinks) return 1.0f / sum;
    const float sink = j->a->sinks[head], max = sink > most ? sink : most;
    const float scale = pith_exp_f32(most - max);
    return scale / fmaf(sum, scale, pith_exp_f32(sink - max));
}

static void finish(const struct job *j, const struct part *p)
{
    const struct pith_attention *a = j->a;
    const size_t dim = a->cache->v.dim;
    for (size_t r = 0; r < p->count; r++) {
        const size_t query = j->query + (p->first + r) / j->group;
        const size_t head = (p->first + r) % j->group;
        float *o = p->total.o + r * j->dim;
        j->b->kern.mix(j->dim, share_of(j, p, r, p->kv * j->group + head), 0, o, o);
        memcpy(a->out + (query * a->heads + p->kv * j->group + head) * dim, o, dim * sizeof *o);
    }
}

/* The job of a task, and the task's number within it. */
static const struct job *find(const struct jobs *all, size_t *task)
{
    size_t low = 0, high = all->count;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (all->begin[middle] <= *task) low = middle;
        else high = middle;
    }
    *task -= all->begin[low];
    return &all->job[low];
}

/* Some kv heads of a span and a block of rows; the last blocks see most and come first. */
static void block_task(void *ctx, size_t task, unsigned thread)
{
    const struct job *j = find(ctx, &task);
    const size_t teams = j->a->cache->kv_heads / j->team;
    struct part p = {.thread = thread, .kv = task % teams * j->team};
    struct team t;
    p.first = (j->blocks - 1 - task / teams) * j->rows;
    p.count = pith_min(j->rows, j->span->n * j->group - p.first);
    prepare_team(j, &t, p, j->team);
    for (size_t i = 0; i < t.count; i++) begin(&t.part[i]);
    const size_t last = (row_to(j, p.first + p.count - 1) - 1) / CHUNK;
    for (size_t chunk = row_from(j, p.first) / CHUNK; chunk <= last; chunk++) {
        attend(j, &t, chunk);
        for (size_t i = 0; i < t.count; i++) merge(j, &t.part[i], &t.part[i].chunk);
    }
    for (size_t i = 0; i < t.count; i++) finish(j, &t.part[i]);
}

/* Where the sums of a chunk of a kv head lie in the work space. */
static struct sums shared_sums(const struct job *j, size_t kv, size_t chunk)
{
    float *at = j->a->work + (kv * j->chunks + chunk) * j->group * (j->dim + 16);
    return (struct sums){
        .o = at, .max = at + j->group * j->dim, .sum = at + j->group * (j->dim + 1)};
}

/* Some chunks one after the other: what the kernels prefetch past a chunk's end is then used.
 */
static void chunk_task(void *ctx, size_t task, unsigned thread)
{
    const struct job *j = ctx;
    const struct part first = {.thread = thread, .kv = task / j->runs * j->team, .count = j->group};
    const size_t from = task % j->runs * j->run, to = pith_min(from + j->run, j->chunks);
    struct team t;
    prepare_team(j, &t, first, j->team);
    for (size_t chunk = from; chunk < to; chunk++) {
        for (size_t i = 0; i < t.count; i++) t.part[i].chunk = shared_sums(j, t.part[i].kv, chunk);
        attend(j, &t, j->first + chunk);
    }
}

static void merge_task(void *ctx, size_t task, unsigned thread)
{
    const struct job *j = ctx;
    struct part p = {.thread = thread, .kv = task, .count = j->group};
    float *memory = j->b->scratch[thread].scores;
    prepare(j, &p, &memory);
    begin(&p);
    for (size_t chunk = 0; chunk < j->chunks; chunk++) {
        const struct sums sums = shared_sums(j, p.kv, chunk);
        merge(j, &p, &sums);
    }
    finish(j, &p);
}

static size_t chunks(size_t positions)
{
    return positions / CHUNK + (positions % CHUNK != 0);
}

size_t pith_attention_work(size_t heads, size_t value_dim, size_t positions)
{
    size_t floats;
    if (!pith_mul_size(heads, pith_cache_row(value_dim) + 16, &floats) ||
        !pith_mul_size(floats, chunks(positions), &floats))
        return SIZE_MAX;
    return floats;
}

/* Kv heads in a task of a single query, where each could be split into `tasks` tasks: as many as
 * leave work for all threads, by a number that divides them. */
static size_t team_of(const struct job *j, size_t tasks)
{
    const size_t heads = j->a->cache->kv_heads, threads = j->b->threads;
    const size_t wanted = threads > 1 ? threads * TASKS : 1;
    size_t team = pith_min(TEAM, j->rows / j->group);
    while (team > 1 && (heads % team != 0 || heads / team * tasks < wanted)) team--;
    return team > 1 ? team : 1;
}

/* One query whose chunks several threads take. */
static void run_shared(struct job *j)
{
    const size_t kv_heads = j->a->cache->kv_heads;
    j->team = team_of(j, j->chunks);
    const size_t teams = kv_heads / j->team;
    j->run = teams * j->chunks / (j->b->threads * TASKS);
    j->run = j->run < 1 ? 1 : pith_min(j->run, j->chunks);
    j->runs = (j->chunks + j->run - 1) / j->run;
    pith_pool_run(j->b->pool, teams * j->runs, chunk_task, j);
    pith_pool_run(j->b->pool, kv_heads, merge_task, j);
}

static bool may_share(const struct job *j)
{
    return j->b->threads > 1 && j->a->spans == 1 && j->span->n == 1 && j->group <= j->rows &&
           j->chunks > 1 && j->a->work_floats / (j->dim + 16) / j->a->heads >= j->chunks;
}

/* What is the same for all spans. */
static struct job common(struct pith_backend *b, const struct pith_attention *a)
{
    const bool fast = b->mode == PITH_MODE_FAST && !a->rounded;
    struct job one = {.b = b, .a = a, .group = a->heads / a->cache->kv_heads};
    one.dim = pith_cache_row(a->cache->v.dim);
    one.key = pith_cache_row(a->cache->k.dim);
    const struct pith_cache_side *k = &a->cache->k, *v = &a->cache->v;
    const struct pith_kv_kind *keys_of = pith_cache_kind(k), *values_of = pith_cache_kind(v);
    one.query_floats = keys_of->query_floats ? keys_of->query_floats(k) : 0;
    one.key_bytes = fast && keys_of->takes_bytes && keys_of->takes_bytes(k, false);
    one.value_bytes = fast && !a->cache->joined && values_of->takes_bytes &&
                      values_of->takes_bytes(v, true);
    one.rows = pith_min(ROWS, PITH_SCORES / scratch_floats(&one));
    return one;
}

void pith_attention(struct pith_backend *b, const struct pith_attention *a)
{
    const size_t kv_heads = a->cache->kv_heads;
    struct jobs all;
    struct job one = common(b, a);
    for (size_t i = 0; i < a->spans && a->heads > 0;) {
        all.begin[0] = all.count = 0;
        for (; i < a->spans && all.count < SPANS; one.query += a->span[i++].n) {
            struct job *j = &all.job[all.count];
            if (a->span[i].n == 0) continue;
            *j = one;
            j->span = &a->span[i];
            j->blocks = (j->span->n * j->group + j->rows - 1) / j->rows;
            j->first = row_from(j, 0) / CHUNK;
            j->chunks = chunks(j->span->start + j->span->n) - j->first;
            j->team = j->span->n == 1 && j->blocks == 1 ? team_of(j, a->spans) : 1;
            all.begin[all.count + 1] = all.begin[all.count] + j->blocks * (kv_heads / j->team);
            all.count++;
        }
        if (all.count == 1 && may_share(&all.job[0])) run_shared(&all.job[0]);
        else pith_pool_run(b->pool, all.begin[all.count], block_task, &all);
    }
}
