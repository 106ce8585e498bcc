/* api/cache.h: the options kv and kv_layers, for calls that have them. */
#ifndef PITH_API_CACHE_H
#define PITH_API_CACHE_H

#include "api/context.h"
#include "choose/kv_auto.h"

struct pith_cache_wish {
    const char *name; /* as pith_kv_parse() has it, or "auto:BITS"; NULL: the usual */
    const struct pith_list *layers;
    enum pith_dtype usual;
    uint64_t memory; /* that levels of num/kvquant.h may take to be made; 0: any */
    const struct pith_progress *progress; /* the call's; NULL: the context's */
};
/* A cache of a model whose blocks are loaded. */
struct pith_cache_of {
    const struct pith_kv_format *format;
    struct pith_model *model;
    const struct pith_tokenizer *tokenizer; /* may be NULL */
    uint64_t memory;                        /* as above */
    const struct pith_progress *progress;   /* as above */
};
/* Whether that makes sense by itself: as pith_kv_choose() without a model. */
enum pith_status pith_cache_check(const struct pith_cache_wish *w, struct pith_error *err);
/* The format for a model whose blocks are loaded; pith_kv_format_free() it. auto is measured where
 * nothing is recorded, with this tokenizer (NULL: refused then). */
enum pith_status pith_cache_choose(struct pith_context *context, const struct pith_cache_wish *w,
                                   struct pith_model *m, const struct pith_tokenizer *tokenizer,
                                   struct pith_kv_format *out, struct pith_error *err);
/* What that format needs to know of the model (choose/kv_levels.h), measured where nothing is
 * recorded; pith_cache_choose() does so of a model whose blocks are loaded. */
enum pith_status pith_cache_settle(struct pith_context *context, const struct pith_cache_of *c,
                                   struct pith_error *err);

#endif
