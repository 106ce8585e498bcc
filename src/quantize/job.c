/* From options to a job. */
#include "quantize/job.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/names.h"
#include "quantize/memory_estimate.h"
#include "quantize/options.h"
#include "quantize/output/journal.h"
#include "quantize/output/work_folder.h"
#include "quantize/prediction.h"
#include "quantize/select.h"
#include "quantize/site/inputs.h"
#include "quantize/site/learn.h"
#include "quantize/site/module_output.h"

#include <string.h>

static const char *container_name(size_t i)
{
    size_t count;
    const struct pith_container *const *rows = pith_containers(&count);
    return i < count ? rows[i]->name : NULL;
}

/* What weights of 16 or 32 bits are stored as. */
static const struct {
    const char *name;
    enum pith_dtype dtype;
} precisions[] = {{"bf16", PITH_BF16}, {"f16", PITH_F16}, {"f32", PITH_F32}};

static bool find_precision(const char *name, enum pith_dtype *dtype)
{
    for (size_t i = 0; i < PITH_COUNT(precisions); i++)
        if (strcmp(name, precisions[i].name) == 0) {
            *dtype = precisions[i].dtype;
            return true;
        }
    return false;
}

/* "dense" or "dense:bf16": no container, but a folder with the values themselves. */
static enum pith_status choose_dense(struct pith_job *job, const char *how, struct pith_error *err)
{
    job->dense = true;
    job->container = pith_container_find("compressed-tensors"); /* of nothing */
    job->recast = *how != '\0';
    if (!job->recast) return PITH_OK;
    return *how == ':' && find_precision(how + 1, &job->container_opts.model_dtype)
               ? PITH_OK
               : pith_fail(err, PITH_ARG,
                           "`container` dense%s: dense, dense:bf16, dense:f16 or dense:f32", how);
}

static enum pith_status choose_container(struct pith_job *job, struct pith_error *err)
{
    static const char dense[] = "dense";
    const struct pith_quantize_options *o = job->options;
    const struct pith_container *file = pith_container_of_path(o->out);
    const char *name = o->container ? o->container : file ? file->name : job->recipe.container;
    if (job->convert && !file && strncmp(name, dense, sizeof dense - 1) == 0)
        return choose_dense(job, name + sizeof dense - 1, err);
    job->container = pith_container_find(name);
    if (!job->container) return pith_fail_name(err, "container", name, container_name);
    if (file && !job->container->file)
        return pith_fail(err, PITH_ARG, "%s: names a file of %s, but the container is %s", o->out,
                         file->name, job->container->name);
    return PITH_OK;
}

/* Converting to one file of 16 or 32 bits: --weights says so. */
static void settle_dense(struct pith_job *job)
{
    const char *weights = job->options->weights;
    if (!job->convert || !job->container->file || !weights) return;
    if (!find_precision(weights, &job->container_opts.model_dtype)) return;
    job->dense = job->recast = true;
    job->recipe.weights = (struct pith_grid){0};
}

/* For one file: the type that stands for a recipe's integers, unless --weights says another, and
 * the mixture around it. */
static enum pith_status settle_types(struct pith_job *job, struct pith_error *err)
{
    struct pith_recipe *recipe = &job->recipe;
    if (job->container->file && !job->options->weights && !job->convert)
        (void)pith_mixture_implied(&recipe->weights, &recipe->weights);
    if (!recipe->mixture) return PITH_OK;
    job->mixture = pith_mixture_find(recipe->weights.format, recipe->mixture);
    if (!job->mixture || job->convert)
        return pith_fail(err, PITH_ARG, "%s:%c: %s", recipe->weights.format->name, recipe->mixture,
                         job->convert
                             ? "a conversion puts linears on one grid"
                             : "llama.cpp has no such mixture; it has q2_k:s and :m, q3_k:s,"
                               " :m and :l, q4_k and q5_k:s and :m, iq4_nl:m, iq4_xs:m");
    if (!job->container->file)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s has no mixtures of types; name a FILE of llama.cpp's with -o",
                         job->container->name);
    return PITH_OK;
}

json_t *pith_job_recipe_json(const struct pith_job *job)
{
    json_t *j = pith_recipe_json(&job->recipe);
    if (j && job->more && json_object_update(j, job->more) != 0) {
        json_decref(j);
        j = NULL;
    }
    return j;
}

enum pith_status pith_job_recipe(struct pith_job *job, struct pith_error *err)
{
    const struct pith_quantize_options *o = job->options;
    const struct {
        const char *stage, *text;
    } stages[] = {
#define PITH_STAGE(key, title, usual, values, what) {#key, o->key},
#include "quant/recipe_keys.def"
#undef PITH_STAGE
    };
    if (!(o->allow_error >= 0))
        return pith_fail(err, PITH_ARG, "`allow_error` %g: at least 0", o->allow_error);
    const enum pith_status known = pith_experts_rule_find(o->experts, &job->experts, err);
    if (known != PITH_OK) return pith_fail_in(err, known, "`experts`");
    PITH_TRY(pith_recipe_load(o->recipe, &job->recipe, err));
    PITH_TRY(pith_recipe_more(o->recipe, &job->more, err));
    if (job->convert) job->recipe.weights = (struct pith_grid){0}; /* --weights stands alone */
    for (size_t i = 0; i < PITH_COUNT(stages); i++)
        if (stages[i].text)
            PITH_TRY(pith_recipe_set(&job->recipe, stages[i].stage, stages[i].text, err));
    job->groups_named = o->weights && strstr(o->weights, ":g");
    if (!job->recipe.weights.format && !job->recipe.split->two_four && !job->convert)
        return pith_fail(
            err, PITH_ARG,
            "nothing to do: the recipe leaves weights, activations and KV cache alone");
    PITH_TRY(choose_container(job, err));
    settle_dense(job);
    PITH_TRY(settle_types(job, err));
    const struct pith_transform *t = job->recipe.transform;
    job->needs_transform = t->needs | (t->also & job->recipe.round->needs);
    job->needs_round = job->recipe.round->needs | job->recipe.split->needs;
    return PITH_OK;
}

/* A conversion reads codes. What is to be quantized or made dense are the values they stand for. */
static enum pith_status open_model(struct pith_job *job, struct pith_error *err)
{
    const bool codes = job->convert && !job->dense;
    char *room = pith_path_parent(job->options->out ? job->options->out : job->options->model);
    const struct pith_merge_into merge = {.adapter = job->options->adapter,
                                          .room = room,
                                          .pool = pith_backend_pool(job->backend),
                                          .account = &job->adapter};
    const enum pith_status s =
        !room ? pith_fail_nomem(err, "a folder's name")
        : codes ? pith_model_open_with(job->options->model, &merge, &job->model, err)
                : pith_model_open_source(job->options->model, &merge, &job->model, err);
    pith_free(room);
    return s;
}

static enum pith_status open_input(struct pith_job *job, struct pith_error *err)
{
    PITH_TRY(open_model(job, err));
    if (!job->model->container && job->convert && !job->container->file && !job->adapter &&
        !job->dense)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: is not quantized; pith quantize is for it",
                         job->options->model);
    if (!job->model->container && job->convert && job->recipe.weights.format)
        return pith_fail(err, PITH_ARG,
                         "`weights` %s: %s is not quantized, and convert leaves it so; "
                         "pith quantize is for it",
                         job->options->weights, job->options->model);
    const enum pith_dtype dtype = job->recast ? job->container_opts.model_dtype
                                              : job->model->shape.dtype;
    job->container_opts = (struct pith_container_opts){
        .model_dtype = dtype,
        .sparse = job->recipe.split->sparse ? job->recipe.split_value : 0,
        .act_order_groups = job->needs_round && !pith_job_learns(job) &&
                            job->recipe.round_options.act_order == PITH_ORDER_GROUP,
    };
    return job->convert ? PITH_OK : pith_inputs_settle(job, err);
}

/* A transform of the whole model: what is rotated, and how. */
static enum pith_status open_basis(struct pith_job *job, struct pith_error *err)
{
    if (!job->recipe.transform->basis) return PITH_OK;
    job->basis_plan = pith_basis_widths(job->model);
    job->basis_plan.seed = job->options->seed;
    job->recipe.transform->basis(job->recipe.transform_value, &job->basis_plan);
    PITH_TRY(pith_basis_init(&job->basis, &job->basis_plan, err));
    return pith_rotate_check(&job->basis, job->model, err);
}

/* A block is learned as it runs: each expert from the tokens that take it. */
static enum pith_status check_rule(struct pith_job *job, struct pith_error *err)
{
    const char *rule = job->options->experts;
    if (!pith_job_learns(job) || job->needs_transform) return PITH_OK;
    if (rule && job->experts != PITH_EXPERTS_ROUTED)
        return pith_fail(err, PITH_ARG,
                         "`experts` %s does nothing with `round` %s, which learns experts from the"
                         " tokens that take them (routed)",
                         rule, job->recipe.round->name);
    job->experts = PITH_EXPERTS_ROUTED;
    return PITH_OK;
}

/* What the forecast in the recipe's file was made from; tokens 0: it does not say. */
static struct pith_calib_draw stated_draw(const json_t *more)
{
    const json_t *d = json_object_get(json_object_get(more, "predicted"), "draw");
    const json_int_t tokens = json_integer_value(json_object_get(d, "tokens")),
                     seq_len = json_integer_value(json_object_get(d, "seq_len"));
    if (tokens < 1 || seq_len < 2) return (struct pith_calib_draw){0};
    return (struct pith_calib_draw){.tokens = (size_t)tokens, .seq_len = (size_t)seq_len};
}

/* As many tokens as the shorter of both draws has, which either of them knows, are enough. */
static void hold_out(const struct pith_job *job, size_t context, struct pith_calib_options *c)
{
    const bool predicts = pith_job_predicts(job);
    if (!job->other.tokens && !predicts) return;
    c->other = job->other.tokens ? job->other : stated_draw(job->more);
    if (c->other.seq_len > context) c->other.seq_len = context;
    c->judge = c->tokens;
    if (c->other.tokens && c->other.tokens < c->judge) c->judge = c->other.tokens;
    if (c->judge > PITH_PREDICTION_TOKENS) c->judge = PITH_PREDICTION_TOKENS;
}

static enum pith_status load_calibration(struct pith_job *job, struct pith_error *err)
{
    const struct pith_quantize_options *o = job->options;
    if (o->experts && !job->model->shape.moe.experts)
        return pith_fail(err, PITH_ARG, "`experts` %s does nothing: %s is no mixture", o->experts,
                         o->model);
    PITH_TRY(check_rule(job, err));
    if (!pith_job_calibrates(job) && !job->senses) return PITH_OK;
    PITH_TRY(pith_tokenizer_open(o->model, &job->tokenizer, err));
    pith_tokenizer_listen(job->tokenizer, &o->progress);
    const size_t context = job->model->shape.max_position;
    struct pith_newlines line_ends;
    PITH_TRY(pith_newlines_read(o->crlf, &line_ends, err));
    struct pith_calib_options c = {
        .paths = o->calib.item,
        .path_count = o->calib.count,
        .tokens = o->calib_tokens,
        .seq_len = o->seq_len < context ? o->seq_len : context,
        .seed = o->seed,
        .lf = line_ends.lf,
        .model = o->model,
    };
    hold_out(job, context, &c);
    const enum pith_status s =
        pith_calib_load_apart(&c, job->tokenizer, &job->calib, &job->judge, err);
    /* The numbers were checked before: what is too short is a file, where one was given. */
    return s == PITH_ARG && c.path_count ? pith_fail_as(err, PITH_FORMAT, NULL) : s;
}

struct pith_offer pith_job_offer(const struct pith_job *job)
{
    return (struct pith_offer){
        .plans = &job->model->plans,
        .shape = &job->model->shape,
        .container = job->container,
        .opts = &job->container_opts,
        .linears = job->linears,
        .count = job->choice_count + 1,
    };
}

static enum pith_status check_engines(const struct pith_job *job, struct pith_error *err)
{
    const struct pith_list *targets = &job->options->targets;
    const struct pith_offer offer = pith_job_offer(job);
    for (size_t i = 0; i < targets->count; i++) {
        struct pith_target target;
        PITH_TRY(pith_target_parse(targets->item[i], &target, err));
        if (!job->quantizes) continue; /* an engine that loads the original loads this */
        PITH_TRY(pith_preflight(&target, &offer, err));
    }
    return PITH_OK;
}

/* What groups of rows cannot go with. */
static enum pith_status check_row_groups(const struct pith_job *job, struct pith_error *err)
{
    const struct pith_recipe *r = &job->recipe;
    const char *name = r->round->name;
    if (job->needs_round & PITH_NEED_GUIDED && r->round_options.row_groups > 1 &&
        r->split->needs & PITH_NEED_SQUARES)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "`round` %s with row_groups of %u does not go with `split` %s, which needs"
                         " one importance of all rows: 1 does",
                         name, (unsigned)r->round_options.row_groups, r->split->name);
    return PITH_OK;
}

enum pith_status pith_job_preflight(const struct pith_job *job, struct pith_error *err)
{
    PITH_TRY(pith_learn_check(job, err));
    PITH_TRY(check_row_groups(job, err));
    return check_engines(job, err);
}

enum pith_status pith_job_fit(struct pith_job *job, struct pith_error *err)
{
    const struct pith_quantize_options *o = job->options;
    pith_heap_trim();
    job->own_memory = pith_memory_anonymous() + pith_heap_holes();
    const uint64_t need = job->expected = pith_job_estimate(job);
    /* A memory limit that one start printed must be enough for the next. */
    if (o->memory && need > pith_sum_bytes(o->memory, PITH_MEASURED_TO))
        return pith_fail(err, PITH_LIMIT,
                         "this run needs about %llu MiB and `memory` allows %llu MiB; a shorter"
                         " `seq_len` or a recipe without calibration needs less",
                         (unsigned long long)(need >> 20), (unsigned long long)(o->memory >> 20));
    /* The listener may act on this: from here on memory is taken as estimated. */
    return pith_progress_step(&o->progress, "preparing", 0, 1, err);
}

/* Whole layers are in memory where a block is rounded as a whole, where the float model goes along,
 * or where sensitivities are measured; a transform needs one expert at a time. */
static bool holds_layers(const struct pith_job *job)
{
    bool apart = true;
    for (uint32_t k = 0; k < job->model->plans.kinds; k++)
        apart = apart && pith_plan_experts_apart(&job->model->plans.kind[k]);
    return pith_job_keeps_float(job) || (job->needs_transform && (job->senses || !apart));
}

enum pith_status pith_job_open(struct pith_job *job, struct pith_error *err)
{
    PITH_TRY(pith_place_name(job, err));
    PITH_TRY(pith_job_recipe(job, err));
    PITH_TRY(pith_job_check_targets(job, err));
    PITH_TRY(open_input(job, err));
    PITH_TRY(open_basis(job, err));
    job->whole_layers = holds_layers(job);
    PITH_TRY(pith_job_select(job, err));
    PITH_TRY(pith_place_check(job, err));
    PITH_TRY(load_calibration(job, err));
    return pith_journal_fingerprint(job, err);
}

void pith_job_close(struct pith_job *job)
{
    pith_layout_free(&job->layout);
    pith_free(job->wholes);
    pith_calib_free(&job->calib);
    pith_calib_free(&job->judge);
    pith_tokenizer_close(job->tokenizer);
    pith_job_unselect(job);
    pith_basis_free(&job->basis);
    pith_model_close(job->model);
    json_decref(job->more);
    json_decref(job->adapter);
    pith_free(job->journal_path);
    pith_free(job->partial);
}

/* A site's search tries some twenty candidates on the inspected tokens, with half a block each. */
double pith_job_site_effort(const struct pith_job *job)
{
    return 1 + 12.0 * PITH_INSPECT_TOKENS / (double)(job->calib.length ? job->calib.length : 1);
}

double pith_job_block_effort(const struct pith_job *job)
{
    const double windows = (double)job->calib.windows;
    const bool calibrates = pith_job_calibrates(job);
    const double linears = job->model->plans.most_linears, sites = job->model->plans.most_sites;
    return linears + (job->needs_transform ? windows + sites * pith_job_site_effort(job) : 0) +
           (pith_job_learns(job) ? pith_learn_effort(job)
            : job->needs_round   ? sites * windows
                                 : 0) +
           (calibrates ? windows : 0);
}
