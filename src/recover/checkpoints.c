/* The folder that a recovery works in. "pith.recover.json" in it says which of two files has the
 * parameters of the last checkpoint, and what else goes on from there; it is replaced, whole, after
 * such a file is on the disk. So a call that was killed at any time is gone on with from there, to
 * the same bits: what came after is done again. */
#include "recover/recover.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "model/runner.h"
#include "model/sampler.h"

#include <stdio.h>
#include <string.h>

enum { JOURNAL_LIMIT = 1 << 24 };

static const char journal[] = "pith.recover.json";
static const char *const work_files[] = {"pith.recover.state",  "pith.recover.target",
                                         "pith.recover.acts",   "pith.recover.text",
                                         "pith.recover.slot.0", "pith.recover.slot.1"};

static enum pith_status open_file(const struct pith_recover *r, const char *name, uint64_t floats,
                                  struct pith_scratch_file *f, struct pith_error *err)
{
    if (!pith_ranks_first(r->ranks))
        return pith_scratch_file_own(r->partial, name, pith_ranks_own(r->ranks),
                                     floats * sizeof(float), f, err);
    char *path = pith_path_join(r->partial, name);
    if (!path) return pith_fail_nomem(err, name);
    const enum pith_status s = pith_scratch_file_open(path, floats * sizeof(float), f, err);
    pith_free(path);
    return s;
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static enum pith_status write_slot(struct pith_recover *r, const char *name, struct pith_error *err)
{
    struct pith_out out;
    char *path = pith_path_join(r->partial, name);
    if (!path) return pith_fail_nomem(err, name);
    enum pith_status s = pith_out_open(path, r->state.size, &out, err);
    if (s == PITH_OK) {
        s = pith_out_write(&out, 0, r->state.data, r->state.size, err);
        if (s == PITH_OK) s = pith_out_sync(&out, err);
        pith_out_close(&out);
    }
    pith_free(path);
    return s;
}

json_t *pith_recover_numbers(const struct pith_recover *r, const char *hash)
{
    return json_pack("{s:s, s:s, s:I, s:i, s:s, s:s, s:f, s:f, s:I, s:I, s:I, s:O}", "pith",
                     pith_version(), "job", r->fingerprint, "step", (json_int_t)r->step, "slot",
                     (int)r->slot, "sha256", hash, "target", r->target_hash, "before", r->before,
                     "best", r->best, "best_step", (json_int_t)r->best_step, "decay_from",
                     (json_int_t)r->decay_from, "until", (json_int_t)r->until, "curve", r->curve);
}

enum pith_status pith_recover_save(struct pith_recover *r, struct pith_error *err)
{
    char hex[PITH_SHA256_HEX];
    struct pith_str text = {0};
    if (!pith_ranks_first(r->ranks)) return PITH_OK;
    r->slot ^= 1;
    PITH_TRY(write_slot(r, work_files[4 + r->slot], err));
    json_t *j = pith_sha256_hex(r->state.data, r->state.size, hex) ? pith_recover_numbers(r, hex)
                                                                         : NULL;
    char *path = pith_path_join(r->partial, journal);
    if (j) pith_json_dump(j, JSON_COMPACT | JSON_REAL_PRECISION(17), &text);
    enum pith_status s = j && path && !text.failed ? pith_file_write(path, text.data, text.len, err)
                                                   : pith_fail_nomem(err, "a checkpoint");
    pith_free(path);
    pith_str_free(&text);
    json_decref(j);
    r->saved = pith_clock();
    return s;
}

static size_t number(const json_t *j, const char *key)
{
    const json_int_t n = json_integer_value(json_object_get(j, key));
    return n > 0 ? (size_t)n : 0;
}

/* The parameters that the journal names; *good false when they are not as they were written. */
static enum pith_status read_slot(struct pith_recover *r, const json_t *j, bool *good,
                                  struct pith_error *err)
{
    const char *want = json_string_value(json_object_get(j, "sha256"));
    char hex[PITH_SHA256_HEX];
    struct pith_map map;
    r->slot = number(j, "slot") & 1;
    char *path = pith_path_join(r->partial, work_files[4 + r->slot]);
    if (!path) return pith_fail_nomem(err, "a checkpoint");
    *good = pith_map_open(path, &map, NULL) == PITH_OK;
    pith_free(path);
    if (!*good) return PITH_OK;
    *good = map.size == r->state.size;
    if (*good) memcpy(r->state.data, map.data, map.size);
    pith_map_close(&map);
    if (*good && !pith_sha256_hex(r->state.data, r->state.size, hex))
        return pith_fail_nomem(err, "a hash");
    *good = *good && want && strcmp(hex, want) == 0;
    return PITH_OK;
}

void pith_recover_take_numbers(struct pith_recover *r, const json_t *j)
{
    const char *target = json_string_value(json_object_get(j, "target"));
    json_t *curve = json_object_get(j, "curve");
    r->step = number(j, "step");
    r->best_step = number(j, "best_step");
    r->decay_from = number(j, "decay_from");
    r->until = number(j, "until");
    r->before = json_number_value(json_object_get(j, "before"));
    r->best = json_number_value(json_object_get(j, "best"));
    if (target && strlen(target) == PITH_SHA256_HEX - 1)
        memcpy(r->target_hash, target, PITH_SHA256_HEX);
    if (!json_is_array(curve)) return;
    json_decref(r->curve);
    r->curve = json_incref(curve);
}

static enum pith_status take_up(struct pith_recover *r, const json_t *j, struct pith_error *err)
{
    bool good = false;
    PITH_TRY(read_slot(r, j, &good, err));
    if (good) {
        pith_recover_take_numbers(r, j);
        return PITH_OK;
    }
    memset(r->state.data, 0, r->state.size);
    return pith_progress_step(&r->options->progress,
                              "the earlier run's files were changed: all is done again", 0, 1, err);
}

/* --- the folder ------------------------------------------------------------------------------- */

/* *j: what an earlier call says of the folder, NULL: nothing. */
static enum pith_status read_journal(const struct pith_recover *r, json_t **j,
                                     struct pith_error *err)
{
    char *path = pith_path_join(r->partial, journal), *text = NULL;
    size_t size;
    *j = NULL;
    if (!path) return pith_fail_nomem(err, journal);
    enum pith_status s = PITH_OK;
    if (pith_path_exists(path)) {
        s = pith_file_read_own(path, JOURNAL_LIMIT, &text, &size, err);
        if (s == PITH_OK) s = pith_json_parse(text, size, path, j, err);
    }
    pith_free(text);
    pith_free(path);
    return s;
}

/* A folder of that name which is neither empty nor this work's is not touched. */
static enum pith_status check_place(const struct pith_recover *r, const json_t *j,
                                    struct pith_error *err)
{
    const char *job = json_string_value(json_object_get(j, "job"));
    char **names;
    size_t count;
    if (r->options->out && pith_path_exists(r->out)) {
        PITH_TRY(pith_path_look(r->out, err));
        return pith_fail(err, PITH_IO, "%s: exists already; remove it or choose another `out`",
                         r->out);
    }
    if (j && (!job || strcmp(job, r->fingerprint) != 0))
        return pith_fail(err, PITH_IO,
                         "%s: is an unfinished recovery of another model, text or options; remove "
                         "it to begin anew",
                         r->partial);
    if (j && !r->options->resume)
        return pith_fail(err, PITH_IO,
                         "%s: is an unfinished recovery; go on with `resume`, or remove it",
                         r->partial);
    if (j || !pith_path_exists(r->partial)) return PITH_OK;
    PITH_TRY(pith_dir_list(r->partial, &names, &count, err));
    bool mine = true;
    for (size_t i = 0; i < count; i++) mine &= strncmp(names[i], "pith.recover.", 13) == 0;
    pith_names_free(names, count);
    if (mine) return PITH_OK;
    return pith_fail(err, PITH_IO,
                     "%s: is needed to work in, but holds something else; move it away",
                     r->partial);
}

static enum pith_status open_files(struct pith_recover *r, struct pith_error *err)
{
    const struct pith_model *m = r->model;
    const uint64_t window = (uint64_t)r->text.length *
                            (m->shape.hidden + pith_plans_carried(&m->plans));
    PITH_TRY(open_file(r, work_files[0], 4 * (uint64_t)r->count, &r->state, err));
    PITH_TRY(open_file(r, work_files[1], r->text.windows * window, &r->target, err));
    return open_file(r, work_files[2], ((uint64_t)m->shape.layers + 1) * r->batch * window,
                     &r->acts, err);
}

/* Of a rank whose folder is rank 0's, or, on a disk of this rank's own, one of that name. */
static enum pith_status follow(struct pith_recover *r, struct pith_error *err)
{
    PITH_TRY(pith_ranks_meet(r->ranks, err)); /* rank 0 has made the folder */
    PITH_TRY(pith_dir_make(r->partial, err));
    PITH_TRY(open_files(r, err));
    return pith_recover_share(r, err);
}

enum pith_status pith_recover_begin(struct pith_recover *r, struct pith_error *err)
{
    json_t *j;
    if (!pith_ranks_first(r->ranks)) return follow(r, err);
    PITH_TRY(read_journal(r, &j, err));
    enum pith_status s = check_place(r, j, err);
    if (s == PITH_OK) s = pith_dir_make(r->partial, err);
    if (s == PITH_OK) s = pith_dir_lock(r->partial, &r->lock, err);
    if (s == PITH_OK) s = open_files(r, err);
    if (s == PITH_OK && j) s = take_up(r, j, err);
    else if (s == PITH_OK) memset(r->state.data, 0, r->state.size);
    json_decref(j);
    r->saved = pith_clock();
    if (s == PITH_OK) s = pith_ranks_meet(r->ranks, err);
    return s == PITH_OK ? pith_recover_share(r, err) : s;
}

enum pith_status pith_recover_sweep(const struct pith_recover *r, struct pith_error *err)
{
    for (size_t i = 0; i <= PITH_COUNT(work_files); i++) {
        const char *name = i < PITH_COUNT(work_files) ? work_files[i] : journal;
        char *path = pith_path_join(r->partial, name);
        const enum pith_status s = path ? pith_unlink(path, err) : pith_fail_nomem(err, name);
        pith_free(path);
        PITH_TRY(s);
    }
    return PITH_OK;
}

/* --- text of the original's own --------------------------------------------------------------- */

enum { AT_ONCE = 16 }; /* windows that are written side by side */

struct writer {
    struct pith_recover *r;
    struct pith_model *model;
    struct pith_runner runner;
    struct pith_sampler sampler;
    int32_t *tokens; /* [windows][length]: id + 1; 0: not written yet */
    float *x, *logits;
};

static bool is_written(const struct writer *w, size_t window)
{
    const int32_t *ids = w->tokens + window * w->r->text.length;
    for (size_t i = 0; i < w->r->text.length; i++)
        if (ids[i] <= 0 || (uint32_t)ids[i] > w->model->shape.vocab) return false;
    return true;
}

/* The first token: that which documents begin with, or any. */
static int32_t first_of(const struct writer *w, struct pith_rng *rng)
{
    const json_t *bos = json_object_get(w->model->checkpoint->config, "bos_token_id");
    const uint64_t vocab = w->model->shape.vocab;
    if (json_is_integer(bos) && json_integer_value(bos) >= 0 &&
        (uint64_t)json_integer_value(bos) < vocab)
        return (int32_t)json_integer_value(bos);
    return (int32_t)pith_rng_below(rng, vocab);
}

/* The next token of each of `count` windows, place `at`, from the one before. */
static enum pith_status write_tokens(struct writer *w, const size_t *windows, size_t count,
                                     size_t at, struct pith_rng *rng, struct pith_error *err)
{
    const size_t hidden = w->model->shape.hidden, length = w->r->text.length;
    struct pith_step_span span[AT_ONCE];
    int32_t before[AT_ONCE];
    for (size_t i = 0; i < count; i++) {
        before[i] = w->tokens[windows[i] * length + at - 1] - 1;
        span[i] = (struct pith_step_span){
            .sequence = (uint32_t)i, .ids = &before[i], .n = 1, .x = w->x + i * hidden};
    }
    PITH_TRY(pith_runner_step(&w->runner, span, count, err));
    PITH_TRY(pith_model_logits(w->model, w->r->backend, w->x, count, w->logits, err));
    for (size_t i = 0; i < count; i++) {
        w->sampler.rng = rng[i];
        const int32_t id = pith_sampler_next(&w->sampler, w->logits + i * w->model->shape.vocab);
        rng[i] = w->sampler.rng;
        if (id < 0)
            return pith_fail(err, PITH_NUMERIC, "the logits of %s are not finite",
                             w->r->options->original);
        w->tokens[windows[i] * length + at] = id + 1;
    }
    return PITH_OK;
}

static enum pith_status write_windows(struct writer *w, const size_t *windows, size_t count,
                                      struct pith_error *err)
{
    struct pith_rng rng[AT_ONCE];
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        uint32_t sequence;
        pith_rng_seed(&rng[i], w->r->options->seed * 0x9e3779b97f4a7c15u + windows[i] + 1);
        w->tokens[windows[i] * w->r->text.length] = first_of(w, &rng[i]) + 1;
        s = pith_runner_open(&w->runner, &sequence, err);
    }
    for (size_t at = 1; at < w->r->text.length && s == PITH_OK; at++) {
        s = write_tokens(w, windows, count, at, rng, err);
        if (s == PITH_OK)
            s = pith_progress_step(&w->r->options->progress, "the original writes text",
                                   (double)windows[0] + (double)at * (double)count /
                                                            (double)w->r->text.length,
                                   (double)w->r->text.windows, err);
    }
    for (size_t i = 0; i < count; i++) pith_runner_close(&w->runner, (uint32_t)i);
    return s;
}

static enum pith_status write_all(struct writer *w, struct pith_error *err)
{
    size_t list[AT_ONCE], n = 0, from;
    const size_t end = pith_recover_own(w->r, w->r->text.windows, &from);
    for (size_t i = from; i < from + end; i++) {
        if (!is_written(w, i)) list[n++] = i;
        if (n && (n == AT_ONCE || i + 1 == from + end)) {
            PITH_TRY(write_windows(w, list, n, err));
            n = 0;
        }
    }
    return PITH_OK;
}

static enum pith_status open_writer(struct writer *w, struct pith_error *err)
{
    struct pith_recover *r = w->r;
    const struct pith_runner_options o = {.sequences = AT_ONCE,
                                          .context = r->text.length,
                                          .rows = AT_ONCE,
                                          .format = pith_kv_floats(PITH_F32)};
    const struct pith_sampling how = {.temperature = 1, .top_p = 1, .seed = r->options->seed};
    PITH_TRY(pith_model_open(r->options->original, &w->model, err));
    PITH_TRY(pith_model_load_blocks(w->model, r->backend, err));
    PITH_TRY(pith_runner_init(&w->runner, w->model, r->backend, &o, err));
    PITH_TRY(pith_sampler_init(&w->sampler, r->backend, w->model->shape.vocab, &how, err));
    w->x = pith_alloc_aligned((size_t)AT_ONCE * w->model->shape.hidden, sizeof *w->x);
    w->logits = pith_alloc_aligned((size_t)AT_ONCE * w->model->shape.vocab, sizeof *w->logits);
    return w->x && w->logits ? PITH_OK : pith_fail_nomem(err, "writing text");
}

enum pith_status pith_recover_self(struct pith_recover *r, struct pith_error *err)
{
    const size_t count = r->text.windows * r->text.length;
    struct pith_scratch_file file = {0};
    struct writer w = {.r = r};
    enum pith_status s = open_file(r, work_files[3], count, &file, err);
    w.tokens = file.data;
    if (s == PITH_OK) s = pith_ranks_share(r->ranks, 0, w.tokens, count * sizeof *w.tokens, err);
    if (s == PITH_OK) s = open_writer(&w, err);
    if (s == PITH_OK) s = write_all(&w, err);
    if (s == PITH_OK)
        s = pith_ranks_share_parts(r->ranks, w.tokens, r->text.windows,
                                   r->text.length * sizeof *w.tokens, err);
    r->text.ids = s == PITH_OK ? pith_alloc(count, sizeof *r->text.ids) : NULL;
    if (s == PITH_OK && !r->text.ids) s = pith_fail_nomem(err, "text");
    for (size_t i = 0; i < count && s == PITH_OK; i++) r->text.ids[i] = w.tokens[i] - 1;
    if (s == PITH_OK && !pith_sha256_hex(r->text.ids, count * sizeof *r->text.ids, r->text.sha256))
        s = pith_fail_nomem(err, "text");
    pith_free(w.x);
    pith_free(w.logits);
    pith_sampler_free(&w.sampler);
    pith_runner_free(&w.runner);
    pith_model_close(w.model);
    pith_scratch_file_close(&file);
    return s;
}
