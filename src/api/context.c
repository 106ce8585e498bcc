#include "api/context.h"

#include "base/cpu.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/names.h"
#include "kern/ops.h"

enum pith_status pith_context_new(unsigned threads, const char *cpu, struct pith_context **out,
                                  struct pith_error *err)
{
    const int64_t mask = pith_cpu_mask(cpu ? cpu : "auto");
    if (mask < 0) return pith_fail_name(err, "instruction set", cpu, pith_cpu_tier);
    if (mask != PITH_CPU_ALL && (pith_kern_usable() & mask) != mask)
        return pith_fail(err, PITH_ARG, "this CPU has no %s; it has %s", cpu,
                         pith_cpu_name(pith_kern_usable()));
    struct pith_context *c = pith_sha256_ready() ? pith_zalloc(1, sizeof *c) : NULL;
    if (!c) return pith_fail_nomem(err, "a context");
    enum pith_status s = pith_pool_new(threads, &c->pool, err);
    if (s != PITH_OK) goto fail_pool;
    s = pith_backend_new(c->pool, (uint32_t)mask, &c->backend, err);
    if (s != PITH_OK) goto fail_backend;
    *out = c;
    return PITH_OK;
fail_backend:
    pith_pool_free(c->pool);
fail_pool:
    pith_free(c);
    return s;
}

static const char *mode_name(size_t i)
{
    static const char *const names[] = {"exact", "fast", NULL};
    return names[i];
}

enum pith_status pith_context_set_mode(struct pith_context *context, const char *mode,
                                       struct pith_error *err)
{
    const bool fast = mode && pith_name_equal(mode, "fast");
    if (mode && !fast && !pith_name_equal(mode, "exact"))
        return pith_fail_name(err, "mode", mode, mode_name);
    return pith_backend_set_mode(context->backend, fast ? PITH_MODE_FAST : PITH_MODE_EXACT, err);
}

void pith_context_listen(struct pith_context *context, struct pith_progress progress,
                         pith_log_fn *log, void *log_ctx)
{
    context->progress = progress;
    context->log = log;
    context->log_ctx = log_ctx;
}

struct pith_progress pith_context_progress(const struct pith_context *context,
                                           const struct pith_progress *own)
{
    return own && own->fn ? *own : context->progress;
}

enum pith_status pith_context_join(struct pith_context *context, const char *object,
                                   struct pith_error *err)
{
    if (context->ranks) return pith_fail(err, PITH_ARG, "the other ranks were joined already");
    PITH_TRY(pith_ranks_open(object, &context->progress, &context->ranks, err));
    pith_backend_set_ranks(context->backend, context->ranks);
    return PITH_OK;
}

unsigned pith_context_rank(const struct pith_context *context)
{
    return pith_ranks_own(context->ranks);
}

unsigned pith_context_ranks(const struct pith_context *context)
{
    return pith_ranks_count(context->ranks);
}

int pith_context_answers(struct pith_context *context)
{
    return pith_ranks_answer(context->ranks);
}

void pith_context_free(struct pith_context **context)
{
    if (!context || !*context) return;
    pith_ranks_close((*context)->ranks);
    pith_backend_free((*context)->backend);
    pith_pool_free((*context)->pool);
    pith_free(*context);
    *context = NULL;
}

unsigned pith_context_threads(const struct pith_context *context)
{
    return pith_pool_threads(context->pool);
}

const char *pith_context_cpu(const struct pith_context *context)
{
    return pith_backend_cpu(context->backend);
}

void pith_text_free(char *text)
{
    pith_free(text);
}

enum pith_status pith_text_give(struct pith_str *from, enum pith_status s, const char *what,
                                char **text, struct pith_error *err)
{
    char *taken = pith_str_take(from);
    if (s == PITH_OK && !taken) return pith_fail_nomem(err, what);
    if (s == PITH_OK) *text = taken;
    else pith_free(taken);
    return s;
}

enum pith_status pith_report_text(json_t *report, char **text, struct pith_error *err)
{
    if (!report) return pith_fail_nomem(err, "the report");
    struct pith_str s = {0};
    pith_json_dump(report, JSON_INDENT(2) | JSON_REAL_PRECISION(9), &s);
    json_decref(report);
    return pith_text_give(&s, PITH_OK, "the report", text, err);
}
