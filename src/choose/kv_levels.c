#include "choose/kv_levels.h"

#include "base/arena.h"
#include "base/mem.h"
#include "calib/corpus.h"
#include "choose/kv_fisher.h"
#include "choose/kv_levels_record.h"
#include "model/rope.h"
#include "model/runner.h"
#include "num/kvquant.h"
#include "quant/kmeans.h"
#include "quantize/ranks/route.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How much of the text that ships, in windows of how many positions at most; numbers that levels
 * are made of, at most. */
enum { TOKENS = 4096, WINDOW = 2048, SAMPLES = 1 << 16, BITS = PITH_KV_LEVELS_BITS };
/* Of all numbers: outliers. */
static const double share = 0.01;

/* --- measuring -------------------------------------------------------------------------------- */

/* The keys and values of a layer over all windows. */
struct layer {
    const struct pith_state_spec *keeps;
    size_t count;     /* of positions */
    float *k;         /* [heads][key][count], before their rotary embedding */
    float *v;         /* [count][heads][value] */
    float *cos, *sin; /* [length][half], or NULL */
};

struct survey {
    const struct pith_kv_levels_job *job;
    const struct pith_kv_windows *windows;
    size_t first; /* of the positions of a window that count */
    struct pith_runner runner;
    struct pith_kv_fisher fisher; /* nothing: all count alike */
};

static enum pith_status read_windows(struct survey *s, struct pith_error *err)
{
    const struct pith_kv_windows *w = s->windows;
    float *x = pith_alloc_aligned(w->length * s->job->model->shape.hidden, sizeof *x);
    enum pith_status status = x ? PITH_OK : pith_fail_nomem(err, "a window");
    for (size_t i = 0; i < w->windows && status == PITH_OK; i++) {
        uint32_t sequence = 0;
        status = pith_progress_step(s->job->progress, "surveying keys and values", (double)i,
                                    (double)w->windows, err);
        if (status == PITH_OK) status = pith_runner_open(&s->runner, &sequence, err);
        const struct pith_step_span span = {
            .sequence = sequence, .ids = w->ids + i * w->length, .n = w->length, .x = x};
        if (status == PITH_OK) status = pith_runner_step(&s->runner, &span, 1, err);
    }
    pith_free(x);
    return status;
}

/* A key before its rotary embedding. */
static void rotate_back(const struct layer *l, const struct pith_node *rope, float back, size_t row,
                        float *x)
{
    const size_t at = row * (rope->u.rope.dim / 2);
    pith_rope_back(rope->u.rope.dim, rope->u.rope.adjacent, l->cos + at, l->sin + at, back,
                   x + rope->u.rope.offset);
}

static enum pith_status open_layer(const struct survey *s, const struct pith_layer_plan *plan,
                                   struct layer *l, struct pith_error *err)
{
    const struct pith_state_spec *k = &plan->state;
    const struct pith_node *rope = pith_kv_rope_of(plan);
    *l = (struct layer){.keeps = k, .count = s->windows->windows * (s->windows->length - s->first)};
    l->k = pith_alloc(l->count * k->heads, k->key * sizeof(float));
    l->v = pith_alloc(l->count * k->heads, k->value * sizeof(float));
    if (!l->k || !l->v) return pith_fail_nomem(err, "keys and values");
    if (!rope) return PITH_OK;
    const size_t half = rope->u.rope.dim / 2;
    const struct pith_rope_angles *angles = &s->job->model->rope[rope->u.rope.table];
    l->cos = pith_alloc(s->windows->length, half * sizeof(float));
    l->sin = pith_alloc(s->windows->length, half * sizeof(float));
    if (!l->cos || !l->sin) return pith_fail_nomem(err, "angles");
    pith_rope_table(pith_rope_angles_for(angles, s->runner.kv.capacity), half, angles->factor, 0,
                    s->windows->length, l->cos, l->sin);
    return PITH_OK;
}

static void close_layer(struct layer *l)
{
    pith_free(l->k);
    pith_free(l->v);
    pith_free(l->cos);
    pith_free(l->sin);
}

/* From the pages that hold them. */
static enum pith_status gather(const struct survey *s, uint32_t layer, struct layer *l,
                               struct pith_error *err)
{
    const struct pith_layer_plan *plan = pith_plan(&s->job->model->plans, layer);
    const struct pith_node *rope = pith_kv_rope_of(plan);
    const struct pith_kv *kv = &s->runner.kv;
    const size_t key = l->keeps->key, value = l->keeps->value, heads = l->keeps->heads;
    const struct pith_cache cache = pith_kv_layer(kv, layer, l->keeps);
    const double factor = rope ? s->job->model->rope[rope->u.rope.table].factor : 1;
    float *both = pith_alloc(key + value, sizeof *both), sum = 0;
    if (!both) return pith_fail_nomem(err, "a key");
    size_t at = 0;
    for (uint32_t w = 0; w < s->windows->windows; w++) {
        const struct pith_cache_span span = {.n = s->windows->length,
                                             .page = pith_kv_pages(kv, layer, w)};
        for (size_t p = s->first; p < s->windows->length; p++, at++)
            for (size_t h = 0; h < heads; h++) {
                pith_cache_read(s->job->backend, &cache, &span, p, h, both);
                if (rope) rotate_back(l, rope, (float)(1 / (factor * factor)), p, both);
                for (size_t e = 0; e < key; e++) l->k[(h * key + e) * l->count + at] = both[e];
                memcpy(l->v + (at * heads + h) * value, both + key, value * sizeof *both);
                for (size_t e = 0; e < key + value; e++) sum += both[e] - both[e];
            }
    }
    pith_free(both);
    if (sum == 0) return PITH_OK;
    return pith_fail(err, PITH_NUMERIC, "layer %u: keys or values that are not finite",
                     (unsigned)layer);
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* The q-quantile of sorted x[n], between neighbours in proportion. */
static double quantile(const float *x, size_t n, double q)
{
    const double at = q * (double)(n - 1);
    const size_t i = (size_t)at;
    const double low = x[i], high = x[i + 1 < n ? i + 1 : i];
    return low + (high - low) * (at - (double)i);
}

/* Numbers that levels are made of. */
struct samples {
    float *x, *weight;
    size_t n;
};

static void add_sample(struct samples *s, float x, double weight)
{
    if (s->n == SAMPLES || fabsf(x) > 1) return;
    s->x[s->n] = x;
    s->weight[s->n++] = (float)weight;
}

/* Levels that leave `loss` of squares are means of what is nearest to them, which vary less than x
 * does by just that: they are spread about the mean until they vary as much (KVQuant's Q-Norm). */
static void spread(const struct samples *s, double loss, float *level, unsigned count)
{
    double n = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < s->n; i++) {
        const double x = (double)s->x[i], weight = (double)s->weight[i];
        n += weight;
        sum += weight * x;
        squares += weight * x * x;
    }
    const double mean = sum / n, all = squares - sum * mean, stored = all - loss;
    for (unsigned i = 0; i < count && stored > all / 4; i++)
        level[i] = (float)(((double)level[i] - mean) * sqrt(all / stored) + mean);
}

static enum pith_status make_levels(const struct samples *s, float level[BITS][16],
                                    struct pith_error *err)
{
    void *scratch = pith_alloc_aligned(pith_kmeans_bytes(s->n, 16), 1);
    if (!scratch) return pith_fail_nomem(err, "levels");
    for (unsigned b = 0; b < BITS; b++)
        spread(s, pith_kmeans(s->x, s->weight, s->n, 4u << b, level[b], scratch), level[b],
               4u << b);
    pith_free(scratch);
    return PITH_OK;
}

/* Ranges of channels, and their samples. A channel that never changes has a range all the same. */
static enum pith_status survey_keys(const struct layer *l, const double *fisher, struct samples *s,
                                    struct pith_kv_layer_levels *out, struct pith_error *err)
{
    const size_t channels = (size_t)l->keeps->heads * l->keeps->key, all = channels * l->count;
    const size_t step = all / SAMPLES + 1;
    float *sorted = pith_alloc(l->count, sizeof *sorted);
    if (!sorted) return pith_fail_nomem(err, "a channel");
    for (size_t c = 0; c < channels; c++) {
        memcpy(sorted, l->k + c * l->count, l->count * sizeof *sorted);
        qsort(sorted, l->count, sizeof *sorted, by_size);
        const double lo = quantile(sorted, l->count, share / 2);
        const double hi = quantile(sorted, l->count, 1 - share / 2);
        out->middle[c] = (float)((hi + lo) / 2);
        out->range[c] = fmaxf((float)((hi - lo) / 2), 1e-6f * fabsf(out->middle[c]) + 1e-20f);
    }
    pith_free(sorted);
    s->n = 0;
    for (size_t i = 0; i < all; i += step) {
        const size_t c = i / l->count;
        const double range = (double)out->range[c];
        add_sample(s, (l->k[i] - out->middle[c]) / out->range[c],
                   fisher ? fisher[c] * range * range : 1);
    }
    return make_levels(s, out->level[0], err);
}

/* Multiples of rows' mean magnitudes, of every so many rows, to s->x. */
static void list_multiples(const struct layer *l, size_t step, struct samples *s)
{
    const size_t value = l->keeps->value, rows = l->count * l->keeps->heads;
    s->n = 0;
    for (size_t r = 0; r < rows; r += step) {
        const float *x = l->v + r * value;
        float sum = 0;
        for (size_t e = 0; e < value; e++) sum += fabsf(x[e]);
        for (size_t e = 0; e < value && s->n < SAMPLES && sum > 0; e++)
            s->x[s->n++] = fabsf(x[e]) / (sum / (float)value);
    }
}

static enum pith_status survey_values(const struct layer *l, const double *fisher,
                                      struct samples *s, struct pith_kv_layer_levels *out,
                                      struct pith_error *err)
{
    enum { COLS = 1024 };
    static const float any[4] = {-1, 0, 0.5f, 1};
    const size_t value = l->keeps->value, rows = l->count * l->keeps->heads;
    const size_t step = rows * value / SAMPLES + 1;
    uint8_t code[COLS];
    uint16_t column[COLS];
    float outlier[COLS];
    if (value > COLS) return pith_fail(err, PITH_UNSUPPORTED, "values of %zu numbers", value);
    list_multiples(l, step, s);
    qsort(s->x, s->n, sizeof *s->x, by_size);
    out->beyond = s->n ? (float)quantile(s->x, s->n, 1 - share) : 1.0f;
    const struct pith_kvquant q = {
        .bits = 2, .cols = (uint32_t)value, .level = any, .beyond = out->beyond};
    s->n = 0;
    for (size_t r = 0; r < rows; r += step) {
        const float *x = l->v + r * value;
        struct pith_kvquant_row row = {
            .code = code, .column = column, .outlier = outlier, .room = (uint32_t)value};
        pith_kvquant_value(&q, x, &row);
        for (size_t e = 0, o = 0; e < value; e++)
            if (o < row.outliers && column[o] == e) o++;
            else if (row.range > 0) {
                const double range = (double)row.range;
                add_sample(s, (x[e] - row.middle) / row.range,
                           fisher ? fisher[r % l->keeps->heads * value + e] * range * range : 1);
            }
    }
    return make_levels(s, out->level[1], err);
}

static enum pith_status survey_layer(const struct survey *s, uint32_t i, struct samples *some,
                                     struct pith_kv_layer_levels *out, struct pith_error *err)
{
    struct layer l;
    enum pith_status status = open_layer(s, pith_plan(&s->job->model->plans, i), &l, err);
    if (status == PITH_OK) status = gather(s, i, &l, err);
    const struct pith_kv_fisher *f = s->fisher.memory ? &s->fisher : NULL;
    if (status == PITH_OK)
        status = survey_keys(&l, f ? pith_kv_fisher_keys(f, i) : NULL, some, out, err);
    if (status == PITH_OK)
        status = survey_values(&l, f ? pith_kv_fisher_values(f, i) : NULL, some, out, err);
    close_layer(&l);
    return status;
}

static struct pith_runner_options runner_of(const struct pith_kv_windows *w)
{
    return (struct pith_runner_options){.sequences = (uint32_t)w->windows,
                                        .context = w->length,
                                        .rows = PITH_PROMPT_CHUNK,
                                        .keep = true,
                                        .format = pith_kv_floats(PITH_F32)};
}

static size_t window_of(const struct pith_model *m)
{
    return m->shape.max_position < WINDOW ? m->shape.max_position : WINDOW;
}

uint64_t pith_kv_levels_bytes(const struct pith_model *m, const struct pith_backend *be)
{
    const size_t length = window_of(m), tokens = length > TOKENS ? length : TOKENS;
    const struct pith_kv_windows w = {.windows = tokens / length, .length = length};
    const struct pith_runner_options o = runner_of(&w);
    uint64_t layer = 0, stored = 0;
    for (uint32_t i = 0; i < m->plans.layers; i++) {
        const struct pith_state_spec *s = &pith_plan(&m->plans, i)->state;
        const uint64_t row = (uint64_t)s->heads * ((uint64_t)s->key + s->value) * sizeof(float);
        if (s->kind != PITH_STATE_KV) continue;
        if (row * tokens > layer) layer = row * tokens;
        stored += 2 * row;
    }
    const uint64_t work = layer + stored + pith_kmeans_bytes(SAMPLES, 16) +
                          SAMPLES * sizeof(float) +
                          length * ((uint64_t)m->shape.hidden + 2048) * sizeof(float);
    const uint64_t all = pith_sum_bytes(pith_runner_bytes(m, &o), work);
    const uint64_t fisher = pith_kv_fisher_bytes(m, be, length); /* before it */
    return all > fisher ? all : fisher;
}

/* Where no gradient is made all numbers count alike. */
static enum pith_status find_fisher(struct survey *s, struct pith_error *err)
{
    struct pith_error none = {0};
    const enum pith_status status = pith_kv_fisher_measure(s->job, s->windows, &s->fisher, &none);
    if (status == PITH_OK || status == PITH_UNSUPPORTED || status == PITH_ARG) return PITH_OK;
    return pith_fail(err, status, "%s", none.text);
}

enum pith_status pith_kv_levels_measure(const struct pith_kv_levels_job *job,
                                        const struct pith_kv_windows *windows,
                                        struct pith_kv_levels **out, struct pith_error *err)
{
    struct survey s = {.job = job, .windows = windows, .first = windows->length > 64 ? 32 : 1};
    const struct pith_runner_options o = runner_of(windows);
    struct samples some = {.x = pith_alloc(SAMPLES, sizeof(float)),
                           .weight = pith_alloc(SAMPLES, sizeof(float))};
    struct pith_kv_levels *levels = NULL;
    *out = NULL;
    if (windows->length < 2 || windows->windows == 0)
        return pith_fail(err, PITH_ARG, "levels of keys and values from no text");
    enum pith_status status = some.x && some.weight ? PITH_OK : pith_fail_nomem(err, "samples");
    if (status == PITH_OK) status = find_fisher(&s, err);
    if (status == PITH_OK) status = pith_runner_init(&s.runner, job->model, job->backend, &o, err);
    if (status == PITH_OK) status = read_windows(&s, err);
    if (status == PITH_OK) status = pith_kv_levels_new(&job->model->plans, &levels, err);
    for (uint32_t i = 0; status == PITH_OK && i < levels->layers; i++)
        if (levels->layer[i].key) status = survey_layer(&s, i, &some, &levels->layer[i], err);
    pith_runner_free(&s.runner);
    if (levels) levels->weighed = s.fisher.memory != NULL;
    pith_kv_fisher_free(&s.fisher);
    pith_free(some.x);
    pith_free(some.weight);
    if (status == PITH_OK) *out = levels;
    else pith_kv_levels_free(levels);
    return status;
}

/* --- the whole -------------------------------------------------------------------------------- */

static enum pith_status measure(const struct pith_kv_levels_job *job, const char *path,
                                const char *identity, struct pith_kv_levels **out,
                                struct pith_error *err)
{
    const struct pith_calib_options o = {.tokens = TOKENS, .seq_len = window_of(job->model)};
    struct pith_calib_set set;
    if (!job->tokenizer)
        return pith_fail(err, PITH_ARG,
                         "%s is not there, or is of other weights: pith eval --kv kvquant4 makes "
                         "it",
                         path);
    const uint64_t bytes = pith_kv_levels_bytes(job->model, job->backend);
    if (job->memory && bytes > job->memory)
        return pith_fail(
            err, PITH_LIMIT,
            "making %s takes %.2f GB of memory in addition to the model, more than remains: "
            "pith eval --kv kvquant4 makes it elsewhere",
            path, (double)bytes / 1e9);
    PITH_TRY(pith_calib_load(&o, job->tokenizer, &set, err));
    const struct pith_kv_windows windows = {set.ids, set.windows, set.length};
    const enum pith_mode mode = pith_backend_mode(job->backend);
    enum pith_status s = pith_backend_set_mode(job->backend, PITH_MODE_EXACT, err);
    if (s == PITH_OK) s = pith_kv_levels_measure(job, &windows, out, err);
    (void)pith_backend_set_mode(job->backend, mode, NULL);
    const struct pith_kv_levels_source of = {identity, &set, share};
    if (s == PITH_OK) s = pith_kv_levels_write(*out, path, &of, err);
    pith_calib_free(&set);
    return s;
}

/* Rank 0's become everyone's. */
static enum pith_status share_levels(const struct pith_kv_levels_job *job,
                                     struct pith_kv_levels **levels, struct pith_error *err)
{
    const bool first = pith_ranks_first(job->ranks);
    json_t *layers = NULL;
    if (pith_ranks_alone(job->ranks)) return PITH_OK;
    if (first) layers = pith_kv_levels_json(*levels);
    enum pith_status s = first && !layers ? pith_fail_nomem(err, "levels")
                                          : pith_ranks_share_json(job->ranks, &layers, err);
    if (s == PITH_OK && !first) s = pith_kv_levels_new(&job->model->plans, levels, err);
    if (s == PITH_OK && !first && !pith_kv_levels_take(layers, *levels))
        s = pith_fail(err, PITH_MISMATCH, "rank 0 has other layers");
    json_decref(layers);
    return s;
}

enum pith_status pith_kv_levels_need(const struct pith_kv_levels_job *job, struct pith_error *err)
{
    const struct pith_checkpoint *c = job->model->checkpoint;
    char identity[PITH_SHA256_HEX];
    if (job->model->kv_levels) return PITH_OK;
    if (!pith_checkpoint_identity(c, identity)) return pith_fail_nomem(err, "a checkpoint");
    char *path = pith_kv_levels_path(job->model);
    if (!path) return pith_fail_nomem(err, "a file's name");
    struct pith_kv_levels *levels = NULL;
    enum pith_status s = PITH_OK;
    if (pith_ranks_first(job->ranks)) {
        s = pith_kv_levels_read(job->model, path, identity, &levels, err);
        if (s == PITH_OK && !levels) s = measure(job, path, identity, &levels, err);
    }
    if (s == PITH_OK) s = share_levels(job, &levels, err);
    if (s == PITH_OK) job->model->kv_levels = levels;
    else pith_kv_levels_free(levels);
    pith_free(path);
    return s;
}
