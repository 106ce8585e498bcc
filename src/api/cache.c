#include "api/cache.h"

#include "pipe/kv_levels.h"

enum pith_status pith_cache_check(const struct pith_cache_wish *w, struct pith_error *err)
{
    double bits;
    struct pith_kv_format ignored;
    PITH_TRY(pith_kv_auto_parse(w->name, &bits, err));
    const struct pith_kv_wish wish = {.name = bits > 0 ? NULL : w->name, .layers = *w->layers};
    return pith_kv_choose(&wish, w->usual, NULL, &ignored, err);
}

enum pith_status pith_cache_choose(struct pith_context *context, const struct pith_cache_wish *w,
                                   struct pith_model *m, const struct pith_tokenizer *tokenizer,
                                   struct pith_kv_format *out, struct pith_error *err)
{
    struct pith_kv_auto_job job = {.backend = context->backend,
                                   .model = m,
                                   .tokenizer = tokenizer,
                                   .progress = &context->progress,
                                   .ranks = pith_backend_ranks(context->backend)};
    struct pith_kv_format found = {0};
    *out = found;
    PITH_TRY(pith_kv_auto_parse(w->name, &job.bits, err));
    if (job.bits > 0) PITH_TRY(pith_kv_auto(&job, &found, err));
    const struct pith_kv_wish wish = {
        .name = w->name, .base = job.bits > 0 ? &found : NULL, .layers = *w->layers};
    enum pith_status s = pith_kv_choose(&wish, w->usual, m, out, err);
    pith_kv_format_free(&found);
    if (s == PITH_OK && m->blocks)
        s = pith_cache_settle(context, &(struct pith_cache_of){out, m, tokenizer, w->memory}, err);
    if (s != PITH_OK) pith_kv_format_free(out);
    return s;
}

enum pith_status pith_cache_settle(struct pith_context *context, const struct pith_cache_of *c,
                                   struct pith_error *err)
{
    const struct pith_kv_levels_job job = {.backend = context->backend,
                                           .model = c->model,
                                           .tokenizer = c->tokenizer,
                                           .progress = &context->progress,
                                           .memory = c->memory,
                                           .ranks = pith_backend_ranks(context->backend)};
    if (!pith_kv_needs_levels(c->format, c->model->plans.layers)) return PITH_OK;
    return pith_kv_levels_need(&job, err);
}
