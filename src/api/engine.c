#include <pith/engine.h>

#include "api/cache.h"
#include "api/chat.h"
#include "api/context.h"
#include "api/engine.h"
#include "api/options.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"
#include "serve/embed.h"
#include "serve/scheduler.h"
#include "tok/text_input.h"

#include <math.h>
#include <string.h>

struct pith_service {
    struct pith_engine *engine;
    struct pith_chat *chat; /* NULL: the model has no template */
    struct pith_ids ends;
    struct pith_forms forms;
    struct pith_scheduler scheduler;
    char kv[PITH_KV_TEXT]; /* the name of the cache's format */
};

static const struct pith_service_options service_defaults = {
    .sequences = 64, .batch = 512, .queue = 256, .pace = 0.1};

void pith_service_defaults_sized(struct pith_service_options *o, size_t size)
{
    pith_options_give(o, size, &service_defaults, sizeof service_defaults);
}

static const struct pith_request request_defaults = {
    .top_p = 1, .typical = 1, .repetition = 1, .n = 1, .logprobs = -1, .prompt_logprobs = -1};

void pith_request_defaults_sized(struct pith_request *r, size_t size)
{
    pith_options_give(r, size, &request_defaults, sizeof request_defaults);
}

/* --- a service -------------------------------------------------------------------------------- */

/* Tokens that pages are there for by default; cached sequences. */
enum { USUAL_TOKENS = 65536, USUAL_CONTEXTS = 4, CACHED = 64, CACHED_STATES = 4 };

static bool is_recurrent(const struct pith_plans *p)
{
    for (uint32_t i = 0; i < p->kinds; i++)
        if (p->kind[i].state.kind == PITH_STATE_RECURRENT) return true;
    return false;
}

static enum pith_status check_options(const struct pith_service_options *o, struct pith_error *err)
{
    if (o->sequences == 0 || o->sequences > 4096)
        return pith_fail(err, PITH_ARG, "sequences: from 1 to 4096");
    if (o->batch < o->sequences || o->batch > 65536)
        return pith_fail(err, PITH_ARG, "batch: from the sequences (%u) to 65536", o->sequences);
    if (o->queue == 0) return pith_fail(err, PITH_ARG, "queue: at least 1");
    if (!(o->pace > 0 && o->pace <= 60))
        return pith_fail(err, PITH_ARG, "pace: above 0, at most 60 seconds");
    return PITH_OK;
}

static uint64_t memory_now(void)
{
    uint64_t anonymous = 0, mapped = 0;
    pith_memory_now(&anonymous, &mapped);
    return anonymous + mapped;
}

/* The most tokens for which all that is needed stays within the memory; 0: not even one page. */
static size_t tokens_within(const struct pith_model *m, struct pith_scheduler_options o,
                            uint64_t memory, size_t most)
{
    const uint64_t used = memory_now();
    size_t low = 0, high = most / 32;
    while (low < high) {
        const size_t mid = (low + high + 1) / 2;
        o.runner.tokens = mid * 32;
        if (o.runner.context > o.runner.tokens) o.runner.context = o.runner.tokens;
        if (pith_sum_bytes(used, pith_scheduler_bytes(m, &o)) <= memory) low = mid;
        else high = mid - 1;
    }
    return low * 32;
}

/* Context and pages, from the options. */
static enum pith_status choose_sizes(const struct pith_model *m,
                                     const struct pith_service_options *o,
                                     struct pith_scheduler_options *out, struct pith_error *err)
{
    struct pith_runner_options *r = &out->runner;
    const size_t longest = m->shape.max_position;
    r->context = o->context ? o->context : longest;
    if (r->context > longest)
        return pith_fail(err, PITH_ARG, "a context of %zu tokens; the model has %zu", r->context,
                         longest);
    const size_t contexts = r->context < SIZE_MAX / USUAL_CONTEXTS ? USUAL_CONTEXTS * r->context
                                                                   : r->context;
    r->tokens = o->tokens ? o->tokens : contexts < USUAL_TOKENS ? contexts : USUAL_TOKENS;
    if (o->memory > 0) {
        size_t most;
        if (!pith_mul_size(r->context, out->runner.sequences, &most)) most = r->context;
        r->tokens = tokens_within(m, *out, o->memory, most);
    } else if (o->context > r->tokens) r->tokens = o->context;
    if (r->tokens < 32 || (o->context > r->tokens)) {
        struct pith_scheduler_options least = *out;
        least.runner.tokens = o->context ? r->context : 32;
        least.runner.context = least.runner.tokens;
        return pith_fail(err, PITH_LIMIT,
                         "the memory does not suffice for a request of %zu tokens; %.2f GB would",
                         least.runner.tokens,
                         (double)pith_sum_bytes(memory_now(), pith_scheduler_bytes(m, &least)) /
                             1e9);
    }
    if (r->context > r->tokens) r->context = r->tokens;
    return PITH_OK;
}

static enum pith_status start(struct pith_service *v, const struct pith_service_options *o,
                              struct pith_error *err)
{
    const struct pith_engine *e = v->engine;
    const uint32_t cached = o->no_prefix_cache               ? 0
                            : is_recurrent(&e->model->plans) ? CACHED_STATES
                                                             : CACHED;
    struct pith_scheduler_options how = {
        .runner = {.sequences = o->sequences + cached, .rows = o->batch},
        .running = o->sequences,
        .cached = cached,
        .queue = o->queue,
        .pace = o->pace};
    const uint64_t used = memory_now();
    const struct pith_cache_wish wish = {.name = o->kv,
                                         .layers = &o->kv_layers,
                                         .usual = PITH_BF16,
                                         .memory = o->memory > used ? o->memory - used
                                                   : o->memory > 0  ? 1
                                                                    : 0};
    const struct pith_scheduler_parts parts = {.model = e->model,
                                               .backend = e->context->backend,
                                               .tokenizer = e->tokenizer,
                                               .ends = &v->ends};
    PITH_TRY(check_options(o, err));
    PITH_TRY(pith_tokenizer_ends(e->tokenizer, e->path, &v->ends, err));
    PITH_TRY(pith_chat_open(e->path, o->chat_template, &v->chat, err));
    PITH_TRY(pith_cache_choose(e->context, &wish, e->model, e->tokenizer, &how.runner.format, err));
    pith_kv_name(&how.runner.format, v->kv);
    pith_forms_init(&v->forms, e->tokenizer, &v->ends, e->model->shape.vocab);
    enum pith_status s = choose_sizes(e->model, o, &how, err);
    if (s == PITH_OK) s = pith_scheduler_init(&v->scheduler, &parts, &how, err);
    pith_kv_format_free(&how.runner.format);
    if (s == PITH_OK && v->scheduler.runner.apart)
        s = pith_fail(
            err, PITH_UNSUPPORTED,
            "a linear takes one scale for all tokens of a call: what a request gets would "
            "depend on how its prompt is cut");
    return s;
}

enum pith_status pith_service_open(struct pith_engine *engine,
                                   const struct pith_service_options *given,
                                   struct pith_service **out, struct pith_error *err)
{
    PITH_OPTIONS(pith_service_options, o, service_defaults, given, err);
    struct pith_service *v = pith_zalloc(1, sizeof *v);
    if (!v) return pith_fail_nomem(err, "a service");
    v->engine = engine;
    const enum pith_status s = start(v, o, err);
    if (s == PITH_OK) *out = v;
    else pith_service_close(&v);
    return s;
}

void pith_service_drain(struct pith_service *v)
{
    pith_scheduler_drain(&v->scheduler);
}

void pith_service_close(struct pith_service **service)
{
    if (!service || !*service) return;
    struct pith_service *v = *service;
    pith_scheduler_free(&v->scheduler);
    pith_forms_free(&v->forms);
    pith_chat_close(v->chat);
    pith_ids_free(&v->ends);
    pith_free(v);
    *service = NULL;
}

/* --- prompts ---------------------------------------------------------------------------------- */

static enum pith_status render(const struct pith_service *v, const char *conversation,
                               struct pith_rendered *out, struct pith_error *err)
{
    json_t *j = NULL;
    if (!v->chat)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: the model has no chat template; 'pith run', and /v1/completions of a"
                         " server, continue a text without any",
                         v->engine->path);
    PITH_TRY(pith_json_parse(conversation, strlen(conversation), "the conversation", &j, err));
    if (json_is_array(j)) {
        json_t *all = json_pack("{s:o}", "messages", j);
        if (!all) return pith_fail_nomem(err, "a conversation");
        j = all;
    }
    enum pith_status s = PITH_OK;
    const bool open = json_is_true(json_object_get(j, "continue_final_message"));
    if (json_is_object(j) && !json_object_get(j, "add_generation_prompt") &&
        json_object_set_new(j, "add_generation_prompt", json_boolean(!open)) != 0)
        s = pith_fail_nomem(err, "a conversation");
    if (s == PITH_OK) s = pith_chat_roles(v->chat, j, err);
    if (s == PITH_OK) s = pith_chat_render(v->chat, j, 0, out, err);
    json_decref(j);
    return s;
}

static enum pith_status encode_text(const struct pith_service *v, const char *text, size_t size,
                                    bool special, struct pith_ids *out, struct pith_error *err)
{
    PITH_TRY(pith_text_check("the prompt", text, size, err));
    return pith_tokenizer_encode(v->engine->tokenizer, text, size, special, out, err);
}

static enum pith_status encode_prompt(const struct pith_service *v, const struct pith_request *r,
                                      struct pith_ids *out, struct pith_error *err)
{
    struct pith_rendered prompt = {0};
    enum pith_status s = PITH_OK;
    if (r->ids) {
        out->id = pith_alloc(r->id_count, sizeof *out->id);
        if (!out->id) return pith_fail_nomem(err, "a prompt");
        memcpy(out->id, r->ids, r->id_count * sizeof *out->id);
        out->count = out->cap = r->id_count;
    } else if (r->text) {
        s = encode_text(v, r->text, r->text_size, !r->bare, out, err);
    } else if (r->conversation) {
        s = render(v, r->conversation, &prompt, err);
        if (s == PITH_OK) s = pith_tokenizer_encode_prompt(v->engine->tokenizer, &prompt, out, err);
        pith_rendered_free(&prompt);
    }
    if (s == PITH_OK && out->count == 0) s = pith_fail(err, PITH_ARG, "the prompt is empty");
    return s;
}

enum pith_status pith_submit(struct pith_service *v, const struct pith_request *given, uint64_t *id,
                             struct pith_error *err)
{
    PITH_OPTIONS(pith_request, r, request_defaults, given, err);
    struct pith_ids prompt = {0};
    struct pith_ticket *t = NULL;
    enum pith_status s = encode_prompt(v, r, &prompt, err);
    if (s == PITH_OK) s = pith_ticket_new(r, &prompt, v->engine->model->shape.vocab, &t, err);
    if (s == PITH_OK && r->constraint != PITH_ANY)
        s = pith_forms_take(&v->forms, r->constraint, r->constraint_text, &t->form, err);
    if (s == PITH_OK) s = pith_scheduler_submit(&v->scheduler, t, id, err);
    if (s != PITH_OK) pith_ticket_free(t);
    pith_ids_free(&prompt);
    return s;
}

void pith_cancel(struct pith_service *v, uint64_t id)
{
    pith_scheduler_cancel(&v->scheduler, id);
}

/* --- other than answers ----------------------------------------------------------------------- */

enum pith_status pith_service_encode(struct pith_service *v, const struct pith_input_text *in,
                                     char **ids, struct pith_error *err)
{
    struct pith_ids list = {0};
    struct pith_str out = {0};
    enum pith_status s = in->text ? PITH_OK : pith_fail(err, PITH_ARG, "a text is needed");
    if (s == PITH_OK) s = encode_text(v, in->text, in->size, in->special != 0, &list, err);
    pith_str_putc(&out, '[');
    for (size_t i = 0; i < list.count; i++)
        pith_str_printf(&out, "%s%d", i ? ", " : "", (int)list.id[i]);
    pith_str_putc(&out, ']');
    pith_ids_free(&list);
    return pith_text_give(&out, s, "a text", ids, err);
}

enum pith_status pith_service_decode(struct pith_service *v, const struct pith_input_text *in,
                                     char **text, size_t *size, struct pith_error *err)
{
    struct pith_str out = {0};
    const enum pith_status s =
        pith_tokenizer_decode(v->engine->tokenizer, in->ids, in->count, !in->special, &out, err);
    *size = out.len;
    return pith_text_give(&out, s, "a text", text, err);
}

enum pith_status pith_service_token(struct pith_service *v, int32_t id, char **bytes, size_t *size,
                                    struct pith_error *err)
{
    const struct pith_tokenizer *t = v->engine->tokenizer;
    struct pith_str out = {0};
    enum pith_status s = pith_tokenizer_bytes(t, id, &out, err);
    /* A special token, or one whose text depends on its neighbours. */
    if ((s == PITH_OK && out.len == 0) || s == PITH_UNSUPPORTED) {
        pith_str_clear(&out);
        s = pith_tokenizer_decode(t, &id, 1, false, &out, err);
    }
    *size = out.len;
    return pith_text_give(&out, s, "a text", bytes, err);
}

/* A special token by the name that templates know it by, or else by its id. */
static enum pith_status add_special(const struct pith_service *v, json_t *to, const char *name,
                                    int32_t id, struct pith_error *err)
{
    const char *text = v->chat ? pith_chat_token(v->chat, name) : NULL;
    struct pith_str spelled = {0};
    enum pith_status s = PITH_OK;
    if (!text && id >= 0) {
        s = pith_tokenizer_decode(v->engine->tokenizer, &id, 1, false, &spelled, err);
        text = pith_str_text(&spelled);
    }
    if (s == PITH_OK) pith_json_set(&to, name, text ? json_string(text) : json_null());
    pith_str_free(&spelled);
    return s;
}

enum pith_status pith_service_tokenizer(struct pith_service *v, char **json, struct pith_error *err)
{
    const struct pith_tokenizer *t = v->engine->tokenizer;
    const char *text = v->chat ? pith_chat_text(v->chat, false) : NULL;
    json_t *j = json_pack("{s:b, s:I, s:s*}", "add_bos_token", pith_tokenizer_adds_bos(t),
                          "model_max_length", (json_int_t)v->scheduler.options.runner.context,
                          "chat_template", text);
    enum pith_status s = j ? PITH_OK : pith_fail_nomem(err, "what the tokenizer is");
    if (s == PITH_OK) s = add_special(v, j, "bos_token", pith_tokenizer_bos(t), err);
    if (s == PITH_OK) s = add_special(v, j, "eos_token", pith_tokenizer_eos(t), err);
    if (s == PITH_OK) s = add_special(v, j, "unk_token", -1, err);
    if (s == PITH_OK) s = add_special(v, j, "pad_token", -1, err);
    if (s == PITH_OK) return pith_report_text(j, json, err);
    json_decref(j);
    return s;
}

enum pith_status pith_service_render(struct pith_service *v, const char *conversation,
                                     char **prompt, size_t *size, struct pith_error *err)
{
    struct pith_rendered r = {0};
    enum pith_status s = render(v, conversation, &r, err);
    if (s == PITH_OK) {
        *prompt = pith_strndup(r.text, r.size);
        if (size) *size = r.size;
        if (!*prompt) s = pith_fail_nomem(err, "a prompt");
    }
    pith_rendered_free(&r);
    return s;
}

static enum pith_status finish_embedding(const struct pith_embedding *e, size_t width, int normal,
                                         float **out, struct pith_error *err)
{
    double square = 0;
    float *mean = pith_alloc(width, sizeof *mean);
    if (!mean) return pith_fail_nomem(err, "an embedding");
    for (size_t i = 0; i < width; i++) {
        const double x = e->sum[i] / (double)e->rows;
        square += x * x;
        mean[i] = (float)x;
    }
    const double scale = normal && square > 0 ? 1 / sqrt(square) : 1;
    for (size_t i = 0; i < width; i++) mean[i] = (float)((double)mean[i] * scale);
    *out = mean;
    return PITH_OK;
}

/* Ids of either. */
static enum pith_status take_ids(const struct pith_service *v, const struct pith_input_text *in,
                                 struct pith_ids *out, struct pith_error *err)
{
    const struct pith_request r = {.ids = in->text ? NULL : in->ids,
                                   .id_count = in->count,
                                   .text = in->text,
                                   .text_size = in->size,
                                   .bare = !in->special};
    return encode_prompt(v, &r, out, err);
}

enum pith_status pith_service_embed(struct pith_service *v, const struct pith_input_text *in,
                                    float **out, size_t *width, struct pith_error *err)
{
    const size_t hidden = v->engine->model->shape.hidden;
    struct pith_ids prompt = {0};
    struct pith_embedding e = {.sum = pith_zalloc(hidden, sizeof *e.sum)};
    struct pith_ticket *t = NULL;
    enum pith_status s = e.sum ? PITH_OK : pith_fail_nomem(err, "an embedding");
    if (s == PITH_OK) s = take_ids(v, in, &prompt, err);
    if (s == PITH_OK)
        s = pith_ticket_new(&request_defaults, &prompt, v->engine->model->shape.vocab, &t, err);
    pith_ids_free(&prompt);
    if (s == PITH_OK) {
        t->embedding = &e;
        s = pith_scheduler_submit(&v->scheduler, t, NULL, err);
        if (s != PITH_OK) pith_ticket_free(t);
    }
    if (s == PITH_OK) {
        pith_scheduler_wait(&v->scheduler, &e);
        s = e.status;
        if (s != PITH_OK && err) *err = e.error;
    }
    if (s == PITH_OK) s = finish_embedding(&e, hidden, in->normal, out, err);
    if (s == PITH_OK) *width = hidden;
    pith_free(e.sum);
    return s;
}

void pith_service_state(struct pith_service *v, struct pith_service_state *out)
{
    const struct pith_plans *plans = &v->engine->model->plans;
    const struct pith_kv_format *f = &v->scheduler.runner.kv.format;
    struct pith_service_state now = {.size = sizeof now};
    const size_t size = out->size;
    pith_scheduler_state(&v->scheduler, &now);
    for (uint32_t i = 0; i < v->engine->model->shape.layers; i++)
        now.token_bytes += pith_kv_position_bytes(pith_kv_of(f, i), &pith_plan(plans, i)->state);
    now.kv_bits = pith_kv_bits(plans, f, 0);
    now.kv = v->kv;
    memcpy(out, &now, size < sizeof now ? size : sizeof now);
    out->size = size;
}
