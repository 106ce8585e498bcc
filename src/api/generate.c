#include <pith/generate.h>

#include "api/cache.h"
#include "api/chat.h"
#include "api/context.h"
#include "api/engine.h"
#include "api/load.h"
#include "api/options.h"
#include "api/report.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/sampler.h"
#include "model/session.h"
#include "tok/text_input.h"
#include "tok/tokenizer.h"

#include <string.h>

enum pith_status pith_engine_open(struct pith_context *context, const char *model,
                                  struct pith_engine **out, struct pith_error *err)
{
    struct pith_engine *e = pith_zalloc(1, sizeof *e);
    if (!e) return pith_fail_nomem(err, "an engine");
    e->context = context;
    e->path = pith_strdup(model);
    enum pith_status s = e->path ? PITH_OK : pith_fail_nomem(err, "an engine");
    if (s == PITH_OK) s = pith_load_model(context, model, false, &e->model, err);
    if (s == PITH_OK) s = pith_tokenizer_open(model, &e->tokenizer, err);
    if (s == PITH_OK) *out = e;
    else pith_engine_close(&e);
    return s;
}

void pith_engine_close(struct pith_engine **engine)
{
    if (!engine || !*engine) return;
    pith_tokenizer_close((*engine)->tokenizer);
    pith_model_close((*engine)->model);
    pith_free((*engine)->path);
    pith_free(*engine);
    *engine = NULL;
}

static const struct pith_generate_options defaults = {.prompt = "", .max_tokens = 128, .top_p = 1};

void pith_generate_defaults_sized(struct pith_generate_options *o, size_t size)
{
    pith_options_give(o, size, &defaults, sizeof defaults);
}

/* One generation: everything it owns. */
struct generation {
    const struct pith_engine *engine;
    const struct pith_generate_options *options;
    struct pith_ids prompt, ends;
    struct pith_session session;
    struct pith_sampler sampler;
    struct pith_stream stream;
    struct pith_str text, piece;
    float *hidden, *logits;
    size_t chunk, generated;
    bool stopped;
    const char *finish;
    double seconds_prompt, seconds_generate;
};

/* The prompt as a user's message, and what ends the answer. */
static enum pith_status encode_message(struct generation *g, const char *message,
                                       struct pith_error *err)
{
    const struct pith_engine *e = g->engine;
    struct pith_chat *chat = NULL;
    struct pith_rendered r = {0};
    PITH_TRY(pith_chat_need(e->path, g->options->chat_template, &chat, err));
    json_t *j = json_pack("{s:[{s:s, s:s}], s:b}", "messages", "role", "user", "content", message,
                          "add_generation_prompt", 1);
    enum pith_status s = j ? pith_chat_render(chat, j, 0, &r, err)
                           : pith_fail_nomem(err, "a conversation");
    if (s == PITH_OK) s = pith_tokenizer_encode_prompt(e->tokenizer, &r, &g->prompt, err);
    pith_rendered_free(&r);
    pith_chat_close(chat);
    json_decref(j);
    return s;
}

static enum pith_status read_prompt(struct generation *g, struct pith_error *err)
{
    const struct pith_generate_options *o = g->options;
    const struct pith_shape *shape = &g->engine->model->shape;
    if (!o->prompt) return pith_fail(err, PITH_ARG, "a prompt is needed");
    const char *prompt = o->prompt + pith_text_mark(o->prompt, strlen(o->prompt));
    PITH_TRY(pith_text_check("the prompt", prompt, strlen(prompt), err));
    PITH_TRY(pith_tokenizer_ends(g->engine->tokenizer, g->engine->path, &g->ends, err));
    PITH_TRY(o->chat ? encode_message(g, prompt, err)
                     : pith_tokenizer_encode(g->engine->tokenizer, prompt, strlen(prompt), true,
                                             &g->prompt, err));
    if (g->prompt.count == 0)
        return pith_fail(err, PITH_ARG,
                         "the prompt is empty, and this tokenizer adds no BOS token");
    if (g->prompt.count >= shape->max_position)
        return pith_fail(err, PITH_ARG, "the prompt has %zu tokens; the model's context is %u",
                         g->prompt.count, shape->max_position);
    return PITH_OK;
}

static enum pith_status choose_cache(const struct generation *g, struct pith_kv_format *out,
                                     struct pith_error *err)
{
    const struct pith_engine *e = g->engine;
    const struct pith_cache_wish wish = {
        .name = g->options->kv, .layers = &g->options->kv_layers, .usual = PITH_BF16};
    return pith_cache_choose(e->context, &wish, e->model, e->tokenizer, out, err);
}

enum pith_status pith_generate_check(struct pith_engine *engine,
                                     const struct pith_generate_options *given,
                                     struct pith_error *err)
{
    PITH_OPTIONS(pith_generate_options, options, defaults, given, err);
    struct generation g = {.engine = engine, .options = options};
    struct pith_kv_format kv;
    PITH_TRY(choose_cache(&g, &kv, err));
    pith_kv_format_free(&kv);
    const enum pith_status s = read_prompt(&g, err);
    pith_ids_free(&g.prompt);
    pith_ids_free(&g.ends);
    return s;
}

static enum pith_status prepare(struct generation *g, struct pith_error *err)
{
    const struct pith_generate_options *o = g->options;
    const struct pith_shape *shape = &g->engine->model->shape;
    PITH_TRY(read_prompt(g, err));
    size_t capacity = g->prompt.count + o->max_tokens;
    if (capacity > shape->max_position || capacity < o->max_tokens) capacity = shape->max_position;
    g->chunk = g->prompt.count < PITH_PROMPT_CHUNK ? g->prompt.count : PITH_PROMPT_CHUNK;
    g->hidden = pith_alloc_aligned(g->chunk * shape->hidden, sizeof(float));
    g->logits = pith_alloc_aligned(shape->vocab, sizeof(float));
    if (!g->hidden || !g->logits) return pith_fail_nomem(err, "the logits");
    const struct pith_sampling how = {
        .temperature = o->temperature, .top_k = o->top_k, .top_p = o->top_p, .seed = o->seed};
    PITH_TRY(pith_sampler_init(&g->sampler, g->engine->context->backend, shape->vocab, &how, err));
    struct pith_session_options session = {.capacity = capacity, .chunk = g->chunk};
    PITH_TRY(choose_cache(g, &session.kv, err));
    const enum pith_status s = pith_session_init(&g->session, g->engine->model,
                                                 g->engine->context->backend, &session, err);
    pith_kv_format_free(&session.kv);
    return s;
}

/* Feeds ids and leaves the logits after the last one. */
static enum pith_status feed(struct generation *g, const int32_t *ids, size_t n,
                             struct pith_error *err)
{
    const size_t width = g->engine->model->shape.hidden;
    size_t last = 0;
    while (n > 0) {
        last = n < g->chunk ? n : g->chunk;
        PITH_TRY(pith_session_append(&g->session, ids, last, g->hidden, err));
        ids += last;
        n -= last;
    }
    const enum pith_status s = pith_model_logits(g->engine->model, g->engine->context->backend,
                                                 g->hidden + (last - 1) * width, 1, g->logits, err);
    /* A token is not reported before the weights that chose it are known to have been there. */
    return pith_checkpoint_settle(g->engine->model->checkpoint, false, s, err);
}

static enum pith_status emit(struct generation *g, struct pith_error *err)
{
    const struct pith_generate_options *o = g->options;
    if (g->piece.failed) return pith_fail_nomem(err, "the text");
    if (g->piece.len == 0) return PITH_OK;
    pith_str_append(&g->text, g->piece.data, g->piece.len);
    if (o->text && o->text(o->ctx, g->piece.data, g->piece.len) != 0) g->stopped = true;
    pith_str_clear(&g->piece);
    return PITH_OK;
}

static enum pith_status generate(struct generation *g, struct pith_error *err)
{
    const struct pith_tokenizer *t = g->engine->tokenizer;
    const double start = pith_clock();
    PITH_TRY(feed(g, g->prompt.id, g->prompt.count, err));
    g->seconds_prompt = pith_clock() - start;
    /* The stream needs the prompt's last id as context for a tokenizer that drops a leading space.
     */
    g->stream.started = true;
    g->finish = "length";
    while (g->generated < g->options->max_tokens && !g->stopped) {
        const int32_t id = pith_sampler_next(&g->sampler, g->logits);
        g->generated++;
        if (pith_ids_has(&g->ends, id)) {
            g->finish = "stop";
            break;
        }
        PITH_TRY(pith_stream_push(t, &g->stream, id, &g->piece, err));
        PITH_TRY(emit(g, err));
        if (g->session.length == g->session.runner.kv.capacity ||
            g->generated == g->options->max_tokens)
            break;
        PITH_TRY(feed(g, &id, 1, err));
    }
    if (g->stopped) g->finish = "interrupted";
    PITH_TRY(pith_stream_end(&g->stream, &g->piece, err));
    g->seconds_generate = pith_clock() - start - g->seconds_prompt;
    return emit(g, err);
}

/* NULL when memory is out. */
static struct pith_report *describe(const struct generation *g)
{
    const double rate = g->seconds_generate > 0 ? (double)g->generated / g->seconds_generate : 0.0;
    const bool full = strcmp(g->finish, "length") == 0 &&
                      g->generated < g->options->max_tokens; /* and the model did not end it */
    struct pith_report *r = pith_report_new();
    if (!r) return NULL;
    pith_report_line(r, &(struct pith_line){0},
                     "%zu token%s read in %.2f s, %zu made in %.2f s (%.1f a second)%s",
                     g->prompt.count, g->prompt.count == 1 ? "" : "s", g->seconds_prompt,
                     g->generated, g->seconds_generate, rate,
                     full ? "; the model's context is full" : "");
    pith_report_set(r, "text", pith_words(pith_str_text(&g->text)));
    pith_report_set(r, "prompt_tokens", pith_count(g->prompt.count));
    pith_report_set(r, "generated_tokens", pith_count(g->generated));
    pith_report_set(r, "finish_reason", pith_words(g->finish));
    pith_report_set(r, "seconds_prompt", pith_real(g->seconds_prompt, 2));
    pith_report_set(r, "seconds_generate", pith_real(g->seconds_generate, 2));
    pith_report_set(r, "tokens_per_second", pith_real(rate, 1));
    return r;
}

enum pith_status pith_generate_report(struct pith_engine *engine,
                                      const struct pith_generate_options *given,
                                      struct pith_report **report, struct pith_error *err)
{
    *report = NULL;
    PITH_OPTIONS(pith_generate_options, options, defaults, given, err);
    struct generation g = {.engine = engine, .options = options};
    enum pith_status s = prepare(&g, err);
    if (s == PITH_OK) s = generate(&g, err);
    if (s == PITH_OK) *report = describe(&g);
    if (s == PITH_OK && !*report) s = pith_fail_nomem(err, "the report");
    (void)pith_stream_end(&g.stream, &g.piece, NULL); /* frees what a failed step still has */
    pith_session_free(&g.session);
    pith_sampler_free(&g.sampler);
    pith_ids_free(&g.prompt);
    pith_ids_free(&g.ends);
    pith_str_free(&g.text);
    pith_str_free(&g.piece);
    pith_free(g.hidden);
    pith_free(g.logits);
    return s;
}

enum pith_status pith_generate(struct pith_engine *engine,
                               const struct pith_generate_options *given, char **report,
                               struct pith_error *err)
{
    struct pith_report *r = NULL;
    return pith_report_give(&r, pith_generate_report(engine, given, &r, err), report, err);
}
