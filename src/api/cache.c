#include "api/cache.h"

#include "base/ranks/ranks.h"
#include "choose/kv_levels.h"

#include <stdio.h>

enum pith_status pith_cache_check(const struct pith_cache_wish *w, struct pith_error *err)
{
    double bits;
    struct pith_kv_format ignored;
    PITH_TRY(pith_kv_auto_parse(w->name, &bits, err));
    const struct pith_kv_wish wish = {.name = bits > 0 ? NULL : w->name, .layers = *w->layers};
    return pith_kv_choose(&wish, w->usual, NULL, &ignored, err);
}

/* Reports where biases of keys ruin the requested cache. */
static void look_at_biases(const struct pith_context *context, const struct pith_kv_format *f,
                           const struct pith_model *m)
{
    char what[PITH_KV_TEXT + 16], name[PITH_KV_TEXT];
    if (!pith_kv_has_biases(&m->plans) || !pith_ranks_first(context->ranks)) return;
    for (uint32_t i = 0; i < m->plans.layers; i++) {
        const struct pith_kv_format *layer = pith_kv_of(f, i);
        if (!pith_kv_spreads(&layer->k)) continue;
        pith_kv_name(layer, name);
        snprintf(what, sizeof what, "KV cache %s", name);
        pith_context_report(context, what,
                            "the keys of this model have biases, which leave few of its codes for "
                            "the rest; with ,offset behind it they are not rounded");
        return;
    }
}

/* Reports what takes minutes where nobody sees its progress. */
static void report_measuring(const struct pith_context *context, const struct pith_cache_wish *w,
                              const struct pith_model *m)
{
    char text[PITH_KV_TEXT + 160];
    if (w->progress || pith_kv_auto_is_there(m) || !pith_ranks_first(context->ranks)) return;
    snprintf(text, sizeof text,
             "KV cache %s: formats are measured now, once for these weights, which takes minutes; "
             "pith eval --kv %s shows how far that is",
             w->name, w->name);
    pith_context_report(context, "time", text);
}

enum pith_status pith_cache_choose(struct pith_context *context, const struct pith_cache_wish *w,
                                   struct pith_model *m, const struct pith_tokenizer *tokenizer,
                                   struct pith_kv_format *out, struct pith_error *err)
{
    struct pith_kv_auto_job job = {.backend = context->backend,
                                   .model = m,
                                   .tokenizer = tokenizer,
                                   .progress = w->progress ? w->progress : &context->progress,
                                   .ranks = pith_backend_ranks(context->backend)};
    struct pith_kv_format found = {0};
    *out = found;
    PITH_TRY(pith_kv_auto_parse(w->name, &job.bits, err));
    if (job.bits > 0 && tokenizer) report_measuring(context, w, m);
    if (job.bits > 0) PITH_TRY(pith_kv_auto(&job, &found, err));
    const struct pith_kv_wish wish = {
        .name = w->name, .base = job.bits > 0 ? &found : NULL, .layers = *w->layers};
    enum pith_status s = pith_kv_choose(&wish, w->usual, m, out, err);
    pith_kv_format_free(&found);
    if (s == PITH_OK) look_at_biases(context, out, m);
    if (s == PITH_OK && m->blocks)
        s = pith_cache_settle(
            context, &(struct pith_cache_of){out, m, tokenizer, w->memory, w->progress}, err);
    if (s != PITH_OK) pith_kv_format_free(out);
    return s;
}

enum pith_status pith_cache_settle(struct pith_context *context, const struct pith_cache_of *c,
                                   struct pith_error *err)
{
    const struct pith_kv_levels_job job = {.backend = context->backend,
                                           .model = c->model,
                                           .tokenizer = c->tokenizer,
                                           .progress = c->progress ? c->progress
                                                                   : &context->progress,
                                           .memory = c->memory,
                                           .ranks = pith_backend_ranks(context->backend)};
    if (!pith_kv_needs_levels(c->format, c->model->plans.layers)) return PITH_OK;
    return pith_kv_levels_need(&job, err);
}
