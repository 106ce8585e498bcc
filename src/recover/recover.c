#include "recover/recover.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "io/digest.h"
#include "model/same_model.h"
#include "tok/text_input.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By default: how far the outermost points move with their scales, and weights, as parts of the
 * way to the next point; and parts of a vector's size. */
static const float rate_of_scales = 5e-3f, rate_of_weights = 1e-3f, rate_of_vectors = 1.5e-3f;
/* Of steps that are not counted beforehand. */
enum { EVERY = 20, MOST_STEPS = 4000, PATIENCE = 3, LEAST_DECAY = 20, SAVED_SECONDS = 120 };
static const double falls = 0.995; /* the held-out KL does so when it is below that of what was */

/* --- the schedule ----------------------------------------------------------------------------- */

/* (1 + cos(pi x)) / 2 = cos(pi x / 2)^2 for x in 0..1, by Taylor's series: libm's cosine is not the
 * same everywhere. */
static double half_cosine(double x)
{
    const double y = x * 1.5707963267948966, s = y * y;
    double term = 1, sum = 1;
    for (int k = 2; k <= 18; k += 2) {
        term *= -s / (double)(k * (k - 1));
        sum += term;
    }
    return sum * sum;
}

/* Of the full rate, of step number `step` from 0: it rises, and falls as a cosine does; where the
 * end is not known, only once it is. */
static double share_of(const struct pith_recover *r, size_t step)
{
    const size_t rise = r->steps ? 1 + r->steps / 20 : EVERY;
    const size_t from = r->steps ? rise : r->decay_from, end = r->steps ? r->steps : r->until;
    if (step < rise && (r->steps || !end)) return (double)(step + 1) / (double)(rise + 1);
    if (!end || step < from) return 1;
    return half_cosine((double)(step - from + 1) / (double)(end - from + 1));
}

static bool is_done(const struct pith_recover *r)
{
    return r->steps ? r->step >= r->steps : r->until && r->step >= r->until;
}

static size_t every(const struct pith_recover *r)
{
    const size_t n = r->steps / 8;
    return !r->steps ? EVERY : n ? n : 1;
}

/* --- which windows ---------------------------------------------------------------------------- */

struct order {
    size_t *list, count; /* windows that are trained on, in the order of an epoch */
    size_t epoch;        /* SIZE_MAX: none yet */
};

static void shuffle(const struct pith_recover *r, struct order *o, size_t epoch)
{
    struct pith_rng rng;
    const size_t period = pith_recover_validation(r);
    size_t n = 0;
    for (size_t w = 0; w < r->text.windows; w++)
        if (w % period != period - 1) o->list[n++] = w;
    pith_rng_seed(&rng, (r->options->seed + 1) * 0x9e3779b97f4a7c15u + epoch);
    for (size_t i = n; i > 1; i--) {
        const size_t k = (size_t)pith_rng_below(&rng, i), was = o->list[i - 1];
        o->list[i - 1] = o->list[k];
        o->list[k] = was;
    }
    o->count = n;
    o->epoch = epoch;
}

static void pick(const struct pith_recover *r, struct order *o, size_t *windows)
{
    for (size_t i = 0; i < r->batch; i++) {
        const size_t at = r->step * r->batch + i;
        if (o->epoch == SIZE_MAX || at / o->count != o->epoch)
            shuffle(r, o, o->epoch == SIZE_MAX ? 0 : at / o->count);
        if (at / o->count != o->epoch) shuffle(r, o, at / o->count);
        windows[i] = o->list[at % o->count];
    }
}

/* --- the work --------------------------------------------------------------------------------- */

static enum pith_status note(struct pith_recover *r, double kl, struct pith_error *err)
{
    json_t *point = json_pack("[I, f]", (json_int_t)r->step, kl);
    if (json_array_append_new(r->curve, point) != 0) return pith_fail_nomem(err, "the curve");
    if (r->step && !(kl < r->best)) return PITH_OK;
    r->best = kl;
    r->best_step = r->step;
    memcpy(pith_recover_state(r, 3), pith_recover_state(r, 0), r->count * sizeof(float));
    return PITH_OK;
}

/* Whether none of the last measurements fell clearly below those before them. */
static bool stands_still(const struct pith_recover *r)
{
    const size_t n = json_array_size(r->curve);
    double before = INFINITY, since = INFINITY;
    if (n <= PATIENCE + 1) return false;
    for (size_t i = 0; i < n; i++) {
        const double kl = json_number_value(json_array_get(json_array_get(r->curve, i), 1));
        double *least = i + PATIENCE < n ? &before : &since;
        *least = fmin(*least, kl);
    }
    return since > before * falls;
}

static enum pith_status measure(struct pith_recover *r, struct pith_error *err)
{
    double kl;
    PITH_TRY(pith_recover_measure(r, pith_recover_state(r, 0), &kl, err));
    PITH_TRY(note(r, kl, err));
    if (r->steps || r->decay_from) return PITH_OK;
    if (!stands_still(r) && r->step < MOST_STEPS) return PITH_OK;
    const size_t more = r->step * 2 / 5;
    r->decay_from = r->step;
    r->until = r->step + (more > LEAST_DECAY ? more : LEAST_DECAY);
    return PITH_OK;
}

static enum pith_status one_step(struct pith_recover *r, struct order *o, size_t *windows,
                                 struct pith_error *err)
{
    const float share = (float)(share_of(r, r->step) * r->options->rate);
    const struct pith_recover_rates rates = {.scales = rate_of_scales * share,
                                             .weights = rate_of_weights * share,
                                             .vectors = rate_of_vectors * share,
                                             .step = r->step + 1};
    pick(r, o, windows);
    PITH_TRY(pith_recover_train(r, windows, &rates, err));
    r->step++;
    const bool look = r->step % every(r) == 0 || is_done(r);
    if (look) PITH_TRY(measure(r, err));
    if (look || pith_clock() - r->saved > SAVED_SECONDS) return pith_recover_save(r, err);
    return PITH_OK;
}

static enum pith_status train(struct pith_recover *r, struct pith_error *err)
{
    struct order o = {.list = pith_alloc(r->text.windows, sizeof *o.list), .epoch = SIZE_MAX};
    size_t *windows = pith_alloc(r->batch, sizeof *windows);
    enum pith_status s = o.list && windows ? PITH_OK : pith_fail_nomem(err, "the order of windows");
    if (s == PITH_OK && json_array_size(r->curve) == 0) {
        double kl = 0;
        s = pith_recover_start(r, err);
        if (s == PITH_OK) s = pith_recover_measure(r, pith_recover_state(r, 0), &kl, err);
        r->best = r->before = kl;
        if (s == PITH_OK) s = note(r, r->before, err);
        if (s == PITH_OK) s = pith_recover_save(r, err);
    }
    while (s == PITH_OK && !is_done(r)) s = one_step(r, &o, windows, err);
    pith_free(o.list);
    pith_free(windows);
    return s;
}

/* --- the request ------------------------------------------------------------------------------ */

static enum pith_status read_options(struct pith_recover *r, struct pith_error *err)
{
    const struct pith_recover_options *o = r->options;
    char *end = NULL;
    if (strcmp(o->train, "scales") != 0 && strcmp(o->train, "all") != 0)
        return pith_fail(err, PITH_ARG, "`train` %s: is scales or all", o->train);
    r->weights = strcmp(o->train, "all") == 0;
    if (strcmp(o->steps, "auto") != 0) {
        const unsigned long n = strtoul(o->steps, &end, 10);
        if (*end || o->steps[0] == '-' || n == 0 || n > 1000000)
            return pith_fail(err, PITH_ARG, "`steps` %s: is a number from 1 to 1000000, or auto",
                             o->steps);
        r->steps = n;
    }
    if (!(o->rate > 0 && o->rate <= 1000))
        return pith_fail(err, PITH_ARG, "the rate is above 0, at most 1000");
    if (o->batch == 0 || o->batch > 4096)
        return pith_fail(err, PITH_ARG, "a step takes from 1 to 4096 windows");
    if (o->seq_len < 2 || o->tokens < o->seq_len)
        return pith_fail(err, PITH_ARG, "windows have 2 tokens at least, and the text one window");
    r->batch = o->batch;
    for (size_t i = 0; i < o->text.count; i++) r->self |= strcmp(o->text.item[i], "self") == 0;
    if (r->self && o->text.count > 1)
        return pith_fail(err, PITH_ARG, "`text=self` goes with no other text");
    return PITH_OK;
}

static enum pith_status name_folders(struct pith_recover *r, struct pith_error *err)
{
    const char *to = r->options->out ? r->options->out : r->options->model;
    size_t n = strlen(to);
    struct pith_str name = {0};
    while (n > 1 && to[n - 1] == '/') n--;
    if (n == 0) return pith_fail(err, PITH_ARG, "the name of the output folder is empty");
    r->out = pith_strndup(to, n);
    pith_str_append(&name, to, n);
    pith_str_puts(&name, ".partial");
    r->partial = pith_str_take(&name);
    return r->out && r->partial ? PITH_OK : pith_fail_nomem(err, "names");
}

struct differing {
    char what[64];
};

static void differs(void *ctx, const char *what, const char *a, const char *b)
{
    struct differing *d = ctx;
    (void)a, (void)b;
    if (!d->what[0]) (void)snprintf(d->what, sizeof d->what, "%s", what);
}

/* The original as floats, whatever it is stored in. */
static enum pith_status open_original(struct pith_recover *r, struct pith_error *err)
{
    char *room = pith_path_parent(r->options->model);
    const struct pith_merge_into none = {.room = room};
    const enum pith_status s =
        room ? pith_model_open_source(r->options->original, &none, &r->original, err)
             : pith_fail_nomem(err, "a folder's name");
    pith_free(room);
    return s;
}

static enum pith_status open_models(struct pith_recover *r, struct pith_error *err)
{
    struct differing d = {{0}};
    PITH_TRY(pith_model_open(r->options->model, &r->model, err));
    PITH_TRY(open_original(r, err));
    if (pith_model_same(r->model, r->original, differs, &d) &&
        r->model->shape.layers == r->original->shape.layers)
        return PITH_OK;
    return pith_fail(err, PITH_ARG, "%s was not made of %s: %s differs", r->options->model,
                     r->options->original, d.what[0] ? d.what : "a shape");
}

static enum pith_status open_text(struct pith_recover *r, struct pith_error *err)
{
    const struct pith_recover_options *o = r->options;
    const size_t context = r->model->shape.max_position;
    const size_t length = o->seq_len < context ? o->seq_len : context;
    struct pith_tokenizer *tokenizer;
    struct pith_newlines line_ends;
    if (r->self) {
        r->text = (struct pith_calib_set){.windows = o->tokens / length, .length = length};
    } else {
        PITH_TRY(pith_newlines_read(o->crlf, &line_ends, err));
        const struct pith_calib_options c = {.paths = o->text.item,
                                             .path_count = o->text.count,
                                             .tokens = o->tokens,
                                             .seq_len = length,
                                             .seed = o->seed,
                                             .lf = line_ends.lf,
                                             .model = o->original};
        PITH_TRY(pith_tokenizer_open(o->original, &tokenizer, err));
        pith_tokenizer_listen(tokenizer, &o->progress);
        const enum pith_status s = pith_calib_load(&c, tokenizer, &r->text, err);
        pith_tokenizer_close(tokenizer);
        if (s != PITH_OK)
            return s == PITH_ARG && o->text.count ? pith_fail_as(err, PITH_FORMAT, NULL) : s;
    }
    if (r->text.windows >= PITH_RECOVER_VALIDATION) return PITH_OK;
    return pith_fail(err, PITH_ARG,
                     "%zu windows of %zu tokens are too few: of %d one is held out; more `text` or "
                     "a shorter `seq_len`",
                     r->text.windows, length, PITH_RECOVER_VALIDATION);
}

static enum pith_status fingerprint(struct pith_recover *r, struct pith_error *err)
{
    const struct pith_recover_options *o = r->options;
    struct pith_str text = {0};
    char model[PITH_SHA256_HEX], original[PITH_SHA256_HEX];
    if (!pith_checkpoint_identity(r->model->checkpoint, model) ||
        !pith_checkpoint_identity(r->original->checkpoint, original))
        return pith_fail_nomem(err, "the fingerprint");
    pith_str_printf(&text, "pith %s recover\n%s\n%s\n%s steps %s batch %zu rate %.17g seed %llu\n",
                    pith_version(), model, original, o->train, o->steps, o->batch, o->rate,
                    (unsigned long long)o->seed);
    pith_str_printf(&text, "%s %zu x %zu\n", r->self ? "self" : r->text.sha256, r->text.windows,
                    r->text.length);
    const bool good = !text.failed && pith_sha256_hex(text.data, text.len, r->fingerprint);
    pith_str_free(&text);
    return good ? PITH_OK : pith_fail_nomem(err, "the fingerprint");
}

/* --- memory ----------------------------------------------------------------------------------- */

static enum pith_status fit_memory(struct pith_recover *r, struct pith_error *err)
{
    const struct pith_model *m = r->model;
    const uint64_t limit = r->options->memory;
    const unsigned threads = pith_pool_threads(pith_backend_pool(r->backend));
    const uint64_t head = 3ull * PITH_HEAD_ROWS * m->shape.vocab * sizeof(float) +
                          1024ull * m->shape.hidden * sizeof(float);
    const uint64_t stream = (uint64_t)r->batch * r->text.length * m->shape.hidden * sizeof(float);
    const uint64_t original = pith_collector_bytes(r->original, r->text.length);
    const uint64_t block = pith_recover_block_bytes(r) + pith_recover_share_bytes(r);
    pith_heap_trim();
    r->expected = pith_memory_anonymous() + pith_heap_holes() + head + stream +
                  (block > original ? block : original) +
                  pith_tape_bytes(m, threads, r->text.length) + PITH_MEASURED_TO;
    if (!limit || r->expected <= limit) return PITH_OK;
    return pith_fail(err, PITH_LIMIT,
                     "recovering needs about %llu MiB and `memory` allows %llu MiB; a shorter "
                     "`seq_len` or a smaller `batch` need less",
                     (unsigned long long)(r->expected >> 20), (unsigned long long)(limit >> 20));
}

enum pith_status pith_recover_room(struct pith_recover *r, struct pith_error *err)
{
    const size_t hidden = r->model->shape.hidden, vocab = r->model->shape.vocab;
    r->grad = pith_alloc_aligned(r->batch * r->text.length * hidden, sizeof *r->grad);
    r->logits = pith_alloc_aligned(3 * (size_t)PITH_HEAD_ROWS * vocab, sizeof *r->logits);
    if (!r->grad || !r->logits) return pith_fail_nomem(err, "logits and gradients");
    PITH_TRY(pith_recover_share_room(r, err));
    return pith_tape_init(&r->tape, r->backend, r->model, r->text.length, err);
}

/* --- the whole -------------------------------------------------------------------------------- */

static enum pith_status prepare(struct pith_recover *r, struct pith_error *err)
{
    PITH_TRY(read_options(r, err));
    PITH_TRY(name_folders(r, err));
    PITH_TRY(open_models(r, err));
    PITH_TRY(pith_recover_check(r, err));
    PITH_TRY(pith_recover_list(r, err));
    PITH_TRY(open_text(r, err));
    PITH_TRY(fingerprint(r, err));
    PITH_TRY(fit_memory(r, err));
    PITH_TRY(pith_ranks_agree(r->ranks, r->fingerprint, "an input, options or a version", err));
    return pith_recover_begin(r, err);
}

static enum pith_status work(struct pith_recover *r, struct pith_report **report,
                             struct pith_error *err)
{
    PITH_TRY(prepare(r, err));
    if (r->self) PITH_TRY(pith_recover_self(r, err));
    PITH_TRY(pith_recover_targets(r, err));
    PITH_TRY(pith_recover_room(r, err));
    PITH_TRY(train(r, err));
    if (r->ranks)
        PITH_TRY(pith_paces_add(&r->paces, r->ranks, r->started, &(struct pith_rank_pace){0}, err));
    if (pith_ranks_first(r->ranks)) PITH_TRY(pith_recover_publish(r, report, err));
    PITH_TRY(pith_ranks_meet(r->ranks, err));
    if (!pith_ranks_first(r->ranks)) pith_dir_drop(r->partial); /* on a separate disk */
    return PITH_OK;
}

void pith_recover_free(struct pith_recover *r)
{
    pith_tape_free(&r->tape);
    pith_scratch_file_close(&r->state);
    pith_scratch_file_close(&r->target);
    pith_scratch_file_close(&r->acts);
    pith_recover_share_free(r);
    pith_dir_unlock(r->lock);
    pith_free(r->linear);
    pith_free(r->vector);
    pith_free(r->bias);
    pith_free(r->moved);
    pith_free(r->last_norm);
    pith_free(r->norms);
    pith_free(r->grad);
    pith_free(r->logits);
    pith_calib_free(&r->text);
    pith_model_close(r->original);
    pith_model_close(r->model);
    json_decref(r->curve);
    pith_free(r->out);
    pith_free(r->partial);
}

enum pith_status pith_recover_model(struct pith_backend *be, const struct pith_recover_options *o,
                                    struct pith_report **report, struct pith_error *err)
{
    struct pith_ranks *ranks = pith_backend_ranks(be);
    struct pith_recover r = {.options = o,
                             .backend = be,
                             .ranks = pith_ranks_alone(ranks) ? NULL : ranks,
                             .lock = -1,
                             .curve = json_array(),
                             .started = pith_clock()};
    enum pith_status s = r.curve ? work(&r, report, err) : pith_fail_nomem(err, "the curve");
    if (r.original) s = pith_checkpoint_settle(r.original->checkpoint, false, s, err);
    if (r.lock >= 0) (void)pith_fail_resumable(err, s);
    pith_recover_free(&r);
    return pith_ranks_fail(ranks, s, err);
}
