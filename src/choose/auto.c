#include "choose/auto.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"
#include "choose/auto_assign.h"
#include "choose/candidates.h"
#include "export/preflight.h"
#include "quantize/output/layout.h"
#include "quantize/ranks/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the sensitivities are measured on: the prediction is of one linear at a time, and takes less
 * text than rounding does. */
enum { TOKENS = 16384, WINDOW = 512, RECIPE_LIMIT = 1 << 30 };

/* --- the request ------------------------------------------------------------------------------ */

bool pith_auto_requested(const struct pith_quantize_options *o)
{
    return o->recipe && strcmp(o->recipe, "auto") == 0;
}

static enum pith_status parse_budget(const char *text, struct pith_auto_wish *w,
                                     struct pith_error *err)
{
    char *end = NULL;
    w->bits = strtod(text, &end);
    w->bound = PITH_AUTO_BITS;
    if (end != text && !*end && w->bits > 0 && w->bits <= 16) return PITH_OK;
    w->bound = PITH_AUTO_BYTES;
    const size_t n = strlen(text);
    const bool unit = n > 0 && (text[n - 1] < '0' || text[n - 1] > '9');
    if ((unit || w->bits > 1000) && pith_number_parse(text, &w->bytes)) return PITH_OK;
    return pith_fail(err, PITH_ARG,
                     "`budget` %s: mean bits of a weight, such as 4.5, or the size of all weights, "
                     "such as 5G",
                     text);
}

/* One "key=value" of --fit. */
static bool parse_part(char *part, struct pith_auto_wish *w)
{
    uint64_t n = 0;
    char *equals = strchr(part, '=');
    if (!equals) return pith_number_parse(part, &w->bytes) && w->bytes > 0;
    *equals = '\0';
    if (strcmp(part, "kv") == 0)
        return snprintf(w->kv, sizeof w->kv, "%s", equals + 1) < (int)sizeof w->kv;
    if (!pith_number_parse(equals + 1, &n) || n == 0 || n > UINT32_MAX) return false;
    if (strcmp(part, "context") == 0) w->context = (size_t)n;
    else if (strcmp(part, "users") == 0) w->users = (size_t)n;
    else return false;
    return true;
}

static enum pith_status parse_fit(const char *text, struct pith_auto_wish *w,
                                  struct pith_error *err)
{
    char *copy = pith_strdup(text);
    bool good = true;
    if (!copy) return pith_fail_nomem(err, "`fit`");
    w->bound = PITH_AUTO_FIT;
    w->users = 1;
    for (char *at = copy, *next; at && good; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = '\0';
        good = parse_part(at, w);
    }
    pith_free(copy);
    if (good && w->bytes && w->context) return PITH_OK;
    return pith_fail(
        err, PITH_ARG,
        "`fit` %s: SIZE,context=N[,users=N][,kv=GRID|auto], such as 24G,context=32k,users=8", text);
}

static enum pith_status parse_wish(const struct pith_quantize_options *o, struct pith_auto_wish *w,
                                   struct pith_error *err)
{
    *w = (struct pith_auto_wish){.bound = PITH_AUTO_MAX_KL, .most = o->max_kl, .kv = "bf16"};
    if (!(o->max_kl >= 0) || o->max_kl > 100)
        return pith_fail(err, PITH_ARG, "`max_kl` %g: from 0 to 100 nats", o->max_kl);
    if ((o->budget != NULL) + (o->fit != NULL) + (o->max_kl > 0) != 1)
        return pith_fail(
            err, PITH_ARG,
            "`recipe=auto` needs one of `budget` BITS|SIZE, `fit` SIZE,context=N,users=N and"
            " `max_kl` X");
    char first[PITH_GRID_TEXT];
    if (o->max_kl > 0) (void)snprintf(w->text, sizeof w->text, "KL %g", o->max_kl);
    else (void)snprintf(w->text, sizeof w->text, "%s", o->budget ? o->budget : o->fit);
    w->base = pith_auto_base(o, first).recipe;
    if (o->budget) return parse_budget(o->budget, w, err);
    return o->fit ? parse_fit(o->fit, w, err) : PITH_OK;
}

/* Of a list that cannot be read, the recipe's own. */
static const char *first_try(const struct pith_quantize_options *o, char first[PITH_GRID_TEXT])
{
    struct pith_candidates t;
    if (pith_tries_parse(&o->tries, &t, NULL) != PITH_OK || t.count == 0) return NULL;
    pith_grid_format(&t.grid[0], first);
    return first;
}

struct pith_quantize_options pith_auto_base(const struct pith_quantize_options *o,
                                            char first[PITH_GRID_TEXT])
{
    struct pith_quantize_options base = *o;
    const bool file = o->container ? strcmp(o->container, "gguf") == 0
                                   : o->out && pith_container_of_path(o->out);
    base.recipe = file ? "gguf" : "gptq";
    if (!o->container && !file) {
        base.container = "compressed-tensors";
        base.weights = "int8:channel"; /* what any width has, until grids are chosen */
    } else if (o->tries.count) {
        base.weights = first_try(o, first); /* the container may have none of the usual */
    }
    base.budget = base.fit = NULL;
    base.max_kl = 0;
    base.tries = (struct pith_list){0};
    return base;
}

static enum pith_status check_transform(const struct pith_quantize_options *o,
                                        struct pith_error *err)
{
    struct pith_recipe r;
    char first[PITH_GRID_TEXT];
    if (!o->transform) return PITH_OK;
    PITH_TRY(pith_recipe_load(pith_auto_base(o, first).recipe, &r, err));
    PITH_TRY(pith_recipe_set(&r, "transform", o->transform, err));
    if (!r.transform->basis) return PITH_OK;
    return pith_fail(
        err, PITH_UNSUPPORTED,
        "`transform` %s: `recipe=auto` predicts what rounding costs in the model's own "
        "basis",
        o->transform);
}

/* Whether the engines hold another cache in each layer. */
static enum pith_status check_caches(const struct pith_quantize_options *o, struct pith_error *err)
{
    struct pith_target t;
    for (size_t i = 0; i < o->targets.count; i++) {
        PITH_TRY(pith_target_parse(o->targets.item[i], &t, err));
        if (!t.engine->any_cache)
            return pith_fail(
                err, PITH_ARG,
                "`fit` %s: kv=auto gives each layer a separate cache format, which `pith serve` "
                "holds; %s keeps one format, such as kv=bf16",
                o->fit, o->targets.item[i]);
    }
    return PITH_OK;
}

enum pith_status pith_auto_check(const struct pith_quantize_options *o, struct pith_error *err)
{
    struct pith_auto_wish w;
    struct pith_candidates t;
    if (!pith_auto_requested(o)) {
        const char *alone = o->budget        ? "budget"
                            : o->fit         ? "fit"
                            : o->max_kl != 0 ? "max_kl"
                            : o->tries.count ? "tries"
                                             : NULL;
        if (!alone) return PITH_OK;
        return pith_fail(err, PITH_ARG, "`%s` does nothing without `recipe=auto`", alone);
    }
    if (o->weights)
        return pith_fail(
            err, PITH_ARG,
            "`weights` %s: `recipe=auto` chooses the grids; `tries` names those that it may "
            "take",
            o->weights);
    PITH_TRY(pith_tries_parse(&o->tries, &t, err));
    PITH_TRY(parse_wish(o, &w, err));
    PITH_TRY(check_transform(o, err));
    return pith_auto_takes_caches(&w) ? check_caches(o, err) : PITH_OK;
}

/* How a linear is rounded when it is tried alone: where the requested rounder looks at the whole
 * model, by its form for a single linear. */
static const char *trying_rounder(const struct pith_quantize_options *o)
{
    const struct pith_rounder *request = o->round ? pith_rounder_find(o->round) : NULL;
    return request && request->alone ? request->alone : o->round;
}

/* The run's rounder: the one that is named; else, linears being tried one at a time by GPTQ, the
 * one that makes up for what the inputs have drifted by, too: it gains a tenth to a sixth whatever
 * the grids are (docs/techniques.md). */
static const char *last_rounder(const struct pith_quantize_options *o, const char *tried)
{
    if (o->round) return o->round;
    return tried && strcmp(tried, "gptq") == 0 ? "qep" : tried;
}

static bool makes_up(const struct pith_quantize_options *o, const struct pith_job *job)
{
    const struct pith_rounder *r = pith_rounder_find(last_rounder(o, job->recipe.round->name));
    return r && (r->needs & PITH_NEED_DRIFT);
}

/* One transform's recipe, in a file of that name in `folder`. */
struct trial {
    const struct pith_quantize_options *request;
    const char *folder, *transform, *path;
    const char *like; /* the recipe whose grids the transform is judged by; NULL: it needs none */
    struct pith_auto_clock *clock;
    size_t transforms; /* that are tried in all */
};

static enum pith_status find(struct pith_job *job, const struct trial *t,
                             struct pith_candidates *candidates, struct pith_error *err)
{
    PITH_TRY(pith_job_open(job, err));
    PITH_TRY(pith_sense_check(job, err));
    PITH_TRY(pith_tries_settle(job, candidates, err));
    PITH_TRY(pith_job_layout(job, err));
    PITH_TRY(pith_dir_make(t->folder, err));
    struct pith_sense s = {.grid = candidates->grid,
                           .grids = candidates->count,
                           .tries = candidates,
                           .made_up = makes_up(t->request, job),
                           .ranks = pith_sense_shares(job)};
    const bool first = pith_ranks_first(pith_backend_ranks(job->backend));
    struct pith_auto_wish w;
    enum pith_status r = parse_wish(t->request, &w, err);
    if (r == PITH_OK) pith_auto_clock_expect(t->clock, job, &s, t->transforms);
    if (r == PITH_OK && (first || s.ranks)) r = pith_sense_run(job, t->folder, &s, err);
    if (r == PITH_OK && first) r = pith_auto_choose(job, &s, &w, t->path, err);
    pith_sense_free(&s);
    return r;
}

static enum pith_status try_one(struct pith_backend *be, const struct trial *t,
                                struct pith_error *err)
{
    struct pith_candidates candidates;
    char first[PITH_GRID_TEXT];
    struct pith_quantize_options mine = pith_auto_base(t->request, first);
    bool there = t->request->resume && pith_path_exists(t->path);
    PITH_TRY(pith_ranks_share(pith_backend_ranks(be), 0, &there, sizeof there, err));
    if (there) return pith_ranks_share_file(pith_backend_ranks(be), t->path, err);
    PITH_TRY(pith_tries_parse(&t->request->tries, &candidates, err));
    if (t->like) mine.recipe = t->like;
    mine.transform = t->transform;
    mine.round = trying_rounder(t->request);
    mine.resume = mine.rehearse = false;
    if (mine.calib_tokens > TOKENS) mine.calib_tokens = TOKENS;
    if (mine.seq_len > WINDOW) mine.seq_len = WINDOW;
    struct pith_job job = {.options = &mine,
                           .backend = be,
                           .senses = true,
                           .other = {t->request->calib_tokens, t->request->seq_len}};
    enum pith_status s = find(&job, t, &candidates, err);
    s = pith_checkpoint_settle(job.model ? job.model->checkpoint : NULL, false, s, err);
    pith_job_close(&job);
    return s == PITH_OK ? pith_ranks_share_file(pith_backend_ranks(be), t->path, err) : s;
}

/* What a recipe that was found is worth: less is better. */
struct worth {
    double first, then;
};

static struct worth worth_of(const json_t *recipe, const struct pith_quantize_options *o)
{
    const json_t *p = json_object_get(recipe, "predicted");
    const double kld = json_number_value(json_object_get(p, "kld")) +
                       json_number_value(json_object_get(json_object_get(p, "cache"), "kld"));
    const double bytes = json_number_value(json_object_get(p, "bytes"));
    return o->max_kl > 0 ? (struct worth){bytes, kld} : (struct worth){kld, bytes};
}

/* The best of those found so far stays in *best (owned); "tried" receives each prediction. */
static enum pith_status weigh(const struct trial *t, json_t **best, json_t **tried,
                              struct pith_error *err)
{
    json_t *j = NULL;
    PITH_TRY(pith_json_load(t->path, RECIPE_LIMIT, &j, err));
    const json_t *p = json_object_get(j, "predicted");
    pith_json_add(tried, json_pack("{s:s, s:O, s:O}", "transform", t->transform, "kld",
                                   json_object_get(p, "kld"), "bits", json_object_get(p, "bits")));
    const struct worth now = worth_of(j, t->request), before = worth_of(*best, t->request);
    if (*best &&
        (now.first > before.first || (now.first == before.first && now.then >= before.then))) {
        json_decref(j);
        return PITH_OK;
    }
    json_decref(*best);
    *best = j;
    return PITH_OK;
}

static enum pith_status keep(const struct pith_quantize_options *o, const char *path, json_t *best,
                             json_t *tried, struct pith_error *err)
{
    json_t *predicted = json_object_get(best, "predicted");
    const char *round = last_rounder(o, json_string_value(json_object_get(best, "round")));
    const bool bad = !tried || !round ||
                     json_object_set(predicted, "round", json_object_get(best, "round")) != 0 ||
                     json_object_set(predicted, "tried", tried) != 0 ||
                     json_object_set_new(best, "round", json_string(round)) != 0;
    return bad ? pith_fail_nomem(err, path) : pith_json_save(path, best, err);
}

/* Transforms that come into question: the table's, or behind its first, which changes nothing and
 * says by which grids others are judged, the one that is named. NULL: no more. */
static const char *transform_at(const struct pith_quantize_options *o, size_t i)
{
    const char *first = pith_try_transform(0);
    if (i == 0 || !o->transform) return pith_try_transform(i);
    return i == 1 && strcmp(o->transform, first) != 0 ? o->transform : NULL;
}

static bool is_requested(const struct pith_quantize_options *o, const char *transform)
{
    return !o->transform || strcmp(o->transform, transform) == 0;
}

/* What each rank has for itself. */
static void add_rank(const struct pith_backend *be, struct pith_str *path)
{
    const unsigned own = pith_ranks_own(pith_backend_ranks(be));
    if (own) pith_str_printf(path, ".%u.json", own);
}

char *pith_auto_recipe(const struct pith_backend *be, const char *folder)
{
    struct pith_str path = {0};
    pith_str_printf(&path, "%s/" PITH_AUTO_RECIPE, folder);
    add_rank(be, &path);
    return pith_str_take(&path);
}

/* What was found so far. */
struct finds {
    json_t *best, *tried;
};

static enum pith_status try_all(struct pith_backend *be, const struct pith_quantize_options *o,
                                const char *folder, struct pith_auto_clock *clock,
                                struct finds *found, struct pith_error *err)
{
    char *like = NULL;
    const char *name;
    enum pith_status s = PITH_OK;
    size_t transforms = 0;
    while (transform_at(o, transforms)) transforms++;
    for (size_t i = 0; s == PITH_OK && (name = transform_at(o, i)) != NULL; i++) {
        struct pith_str path = {0};
        pith_str_printf(&path, "%s/auto.%zu.json", folder, i);
        add_rank(be, &path);
        const struct trial t = {o, folder, name, path.data, like, clock, transforms};
        s = path.failed ? pith_fail_nomem(err, folder) : try_one(be, &t, err);
        if (s == PITH_OK && is_requested(o, name)) s = weigh(&t, &found->best, &found->tried, err);
        pith_auto_clock_next(clock);
        if (like) pith_str_free(&path);
        else like = path.data;
    }
    pith_free(like);
    return s;
}

enum pith_status pith_auto_find(struct pith_backend *be, const struct pith_quantize_options *o,
                                const char *folder, struct pith_auto_clock *clock,
                                struct pith_error *err)
{
    struct pith_ranks *ranks = pith_backend_ranks(be);
    char *path = pith_auto_recipe(be, folder);
    struct finds found = {NULL, json_array()};
    enum pith_status s = path ? PITH_OK : pith_fail_nomem(err, folder);
    bool there = s == PITH_OK && o->resume && pith_path_exists(path);
    if (s == PITH_OK) s = pith_ranks_share(ranks, 0, &there, sizeof there, err);
    if (s == PITH_OK && there) s = pith_ranks_share_file(ranks, path, err);
    if (s == PITH_OK && !there) {
        s = try_all(be, o, folder, clock, &found, err);
        if (s == PITH_OK) s = keep(o, path, found.best, found.tried, err);
    }
    json_decref(found.best);
    json_decref(found.tried);
    pith_free(path);
    return s;
}
