/* The shapes of answers: OpenAI's objects for texts and for chats, whole or as chunks of a stream.
 */
#include "server/completion.h"
#include "server/buffer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- tokens and their probabilities ----------------------------------------------------------- */

/* A token's bytes; one that is no text by itself is shown by its bytes, or by its id. */
struct token_text {
    char *bytes; /* for pith_text_free(); NULL when it cannot be had */
    size_t size;
    json_t *shown;
};

static struct token_text text_of(const struct completion *g, int32_t id)
{
    struct pith_service *service = atomic_load(&g->exchange->server->service);
    struct token_text t = {0};
    if (pith_service_token(service, id, &t.bytes, &t.size, NULL) != PITH_OK) t.bytes = NULL;
    if (g->ask.ids_for_texts || !t.bytes || t.size == 0) {
        t.shown = json_sprintf("token_id:%d", (int)id);
        return t;
    }
    t.shown = json_token(t.bytes, t.size);
    return t;
}

static json_t *probability(float x)
{
    if (isnan(x)) return json_null();
    return json_real(x < -9999 ? -9999.0 : (double)x); /* JSON knows no infinity */
}

static json_t *chat_token(const struct completion *g, int32_t id, float logprob)
{
    struct token_text t = text_of(g, id);
    json_t *bytes = json_bytes(t.bytes, t.size);
    pith_text_free(t.bytes);
    return json_pack("{s:o, s:o, s:o}", "token", t.shown, "logprob", probability(logprob), "bytes",
                     bytes);
}

/* {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}]} */
static json_t *chat_logprobs(const struct completion *g, const struct pith_event *e)
{
    json_t *content = json_array();
    for (size_t i = 0; i < e->tokens; i++) {
        json_t *one = chat_token(g, e->token[i].id, e->token[i].logprob), *tops = json_array();
        for (size_t k = 0; k < e->token[i].tops; k++)
            json_array_append_new(tops,
                                  chat_token(g, e->token[i].top[k].id, e->token[i].top[k].logprob));
        json_object_set_new(one, "top_logprobs", tops);
        json_array_append_new(content, one);
    }
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

static size_t characters(const char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* One more of {"text": logprob}; a text that another token has already gives way to its id. */
static void add_top(const struct completion *g, json_t *tops, int32_t id, float logprob)
{
    struct token_text t = text_of(g, id);
    const char *key = json_string_value(t.shown);
    char by_id[32];
    snprintf(by_id, sizeof by_id, "token_id:%d", (int)id);
    if (!key || json_object_get(tops, key)) key = by_id;
    json_object_set_new(tops, key, probability(logprob));
    json_decref(t.shown);
    pith_text_free(t.bytes);
}

/* A token's alternatives, with the token itself, which goes by its text. */
static json_t *top_object(const struct completion *g, const struct pith_event_token *token)
{
    json_t *tops = json_object();
    if (isnan(token->logprob)) {
        json_decref(tops);
        return json_null();
    }
    add_top(g, tops, token->id, token->logprob);
    for (size_t k = 0; k < token->tops; k++)
        if (token->top[k].id != token->id)
            add_top(g, tops, token->top[k].id, token->top[k].logprob);
    return tops;
}

/* {"tokens", "token_logprobs", "top_logprobs", "text_offset"} */
static json_t *text_logprobs(const struct completion *g, const struct answer_choice *c,
                             const struct pith_event *e)
{
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(),
           *offsets = json_array();
    for (size_t i = 0; i < e->tokens; i++) {
        struct token_text t = text_of(g, e->token[i].id);
        json_array_append_new(tokens, t.shown);
        json_array_append_new(values, probability(e->token[i].logprob));
        json_array_append_new(tops, top_object(g, &e->token[i]));
        json_array_append_new(offsets, json_integer((json_int_t)(c->echoed + e->offset[i])));
        pith_text_free(t.bytes);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "text_offset", offsets, "token_logprobs", values,
                     "tokens", tokens, "top_logprobs", tops);
}

static json_t *logprobs_of(const struct completion *g, const struct answer_choice *c,
                           const struct pith_event *e)
{
    if (g->ask.request.logprobs < 0) return json_null();
    if (g->ask.kind == ASK_CHAT) return chat_logprobs(g, e);
    return text_logprobs(g, c, e);
}

/* Appends the lists of one object to those of the other, which is made where there is none. */
static void extend(json_t **to, json_t *more)
{
    const char *key;
    json_t *list;
    if (!*to || !json_is_object(*to)) {
        json_decref(*to);
        *to = more;
        return;
    }
    json_object_foreach (more, key, list)
        if (json_is_array(list)) json_array_extend(json_object_get(*to, key), list);
    json_decref(more);
}

/* Items `from` to `to` of the lists of an object. */
static json_t *sliced(const json_t *lists, size_t from, size_t to)
{
    json_t *out = json_object(), *list;
    const char *key;
    json_object_foreach ((json_t *)lists, key, list) {
        json_t *part = json_array();
        for (size_t i = from; i < to; i++) json_array_append(part, json_array_get(list, i));
        json_object_set_new(out, key, part);
    }
    return out;
}

/* Takes the log-probabilities of tokens that begin in the text so far: what begins behind it may be
 * a part of a stop text, which only the end shows. */
static json_t *take_settled(struct answer_choice *c)
{
    const json_t *offsets = json_object_get(c->logprobs, "text_offset");
    const size_t all = json_array_size(offsets);
    json_t *pending = c->logprobs;
    size_t n = 0;
    if (!pending) return json_null();
    while (n < all && (size_t)json_integer_value(json_array_get(offsets, n)) <= c->written) n++;
    c->logprobs = n < all ? sliced(pending, n, all) : NULL;
    if (n == all) return pending;
    json_t *out = sliced(pending, 0, n);
    json_decref(pending);
    return out;
}

/* Tokens of a stop text begin where the text ends. */
static void clamp_offsets(const struct answer_choice *c)
{
    json_t *one;
    size_t i;
    json_array_foreach (json_object_get(c->logprobs, "text_offset"), i, one)
        if ((size_t)json_integer_value(one) > c->written)
            json_integer_set(one, (json_int_t)c->written);
}

/* --- pieces of objects ------------------------------------------------------------------------ */

static json_t *usage_as(const struct completion *g, const struct pith_usage *u)
{
    const json_int_t made = g->ask.scored ? 0 : (json_int_t)u->generated;
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)u->prompt,
                     "completion_tokens", made, "total_tokens", (json_int_t)u->prompt + made,
                     "prompt_tokens_details", "cached_tokens", (json_int_t)u->cached);
}

static json_t *usage_of(const struct completion *g)
{
    return usage_as(g, &g->usage);
}

/* What all parts have taken so far. */
static json_t *usage_so_far(const struct completion *g)
{
    struct pith_usage u = {0};
    for (size_t i = 0; i < g->parts; i++) {
        u.prompt += g->part[i].so_far.prompt;
        u.cached += g->part[i].so_far.cached;
        u.generated += g->part[i].so_far.generated;
    }
    return usage_as(g, &u);
}

static json_t *envelope(const struct completion *g, const char *object, json_t *choices)
{
    char fingerprint[64];
    snprintf(fingerprint, sizeof fingerprint, "pith-%s", pith_version());
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", g->id, "object", object, "created",
                     (json_int_t)g->created, "model", g->exchange->server->settings.name,
                     "system_fingerprint", fingerprint, "choices", choices);
}

static json_t *finish_of(const struct answer_choice *c)
{
    return c->ended ? json_string(c->finish) : json_null();
}

/* --- chunks ----------------------------------------------------------------------------------- */

static void write_event(struct completion *g, json_t *value)
{
    buffer_text(&g->out, "data: ");
    buffer_json(&g->out, value);
    buffer_text(&g->out, "\n\n");
    json_decref(value);
}

static json_t *text_piece(const char *text, size_t size)
{
    return json_any_text(text ? text : "", size);
}

/* What a chunk says of a choice: `delta` of a chat or `text`; both are taken. */
static void send_choice(struct completion *g, size_t at, json_t *piece, json_t *logprobs)
{
    const bool chat = g->ask.kind == ASK_CHAT;
    json_t *choice = json_pack("{s:i, s:o, s:o, s:o}", "index", (int)at, chat ? "delta" : "text",
                               piece, "logprobs", logprobs, "finish_reason",
                               finish_of(&g->choice[at]));
    json_t *chunk =
        envelope(g, chat ? "chat.completion.chunk" : "text_completion", json_pack("[o]", choice));
    if (g->ask.counts) json_object_set_new(chunk, "usage", usage_so_far(g));
    else if (g->ask.usage) json_object_set_new(chunk, "usage", json_null());
    write_event(g, chunk);
}

void reply_begin(struct completion *g)
{
    if (g->ask.kind != ASK_CHAT) return;
    for (size_t i = 0; i < g->choices; i++)
        send_choice(g, i, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), json_null());
}

/* A chunk with what is pending of log-probabilities; takes the piece. */
static void send_piece(struct completion *g, size_t at, json_t *piece)
{
    struct answer_choice *c = &g->choice[at];
    json_t *logprobs = c->logprobs ? c->logprobs : json_null();
    c->logprobs = NULL;
    send_choice(g, at, piece, logprobs);
}

/* --- parts of a chat's answer ----------------------------------------------------------------- */

static json_t *call_of(const struct pith_reply_delta *d, bool chunk)
{
    json_t *call = json_object();
    if (chunk) json_object_set_new(call, "index", json_integer((json_int_t)d->call));
    if (d->id) json_object_set_new(call, "id", json_any_text(d->id, strlen(d->id)));
    if (d->id) json_object_set_new(call, "type", json_string("function"));
    json_t *function = json_object();
    if (d->name) json_object_set_new(function, "name", json_any_text(d->name, strlen(d->name)));
    json_object_set_new(function, "arguments", json_any_text(d->text, d->size));
    json_object_set_new(call, "function", function);
    return call;
}

/* More arguments of a call that is there. */
static void add_arguments(json_t *call, const struct pith_reply_delta *d)
{
    json_t *function = json_object_get(call, "function");
    const json_t *old = json_object_get(function, "arguments");
    struct buffer b = {0};
    buffer_add(&b, json_string_value(old), json_string_length(old));
    buffer_add(&b, d->text, d->size);
    if (!b.failed) json_object_set_new(function, "arguments", json_any_text(b.text, b.size));
    buffer_free(&b);
}

static void keep_delta(struct answer_choice *c, const struct pith_reply_delta *d)
{
    if (d->kind == PITH_REPLY_CONTENT) {
        buffer_add(&c->text, d->text, d->size);
    } else if (d->kind == PITH_REPLY_REASONING) {
        buffer_add(&c->reasoning, d->text, d->size);
    } else {
        if (!c->calls) c->calls = json_array();
        if (d->call < json_array_size(c->calls))
            add_arguments(json_array_get(c->calls, d->call), d);
        else json_array_append_new(c->calls, call_of(d, false));
    }
}

static void on_delta(void *choice, const struct pith_reply_delta *d)
{
    struct answer_choice *c = choice;
    struct completion *g = c->completion;
    const bool reasons = d->kind == PITH_REPLY_REASONING;
    if (!g->ask.stream) keep_delta(c, d);
    else if (d->kind == PITH_REPLY_CALL)
        send_piece(g, c->at, json_pack("{s:[o]}", "tool_calls", call_of(d, true)));
    else if (d->size > 0)
        send_piece(g, c->at,
                   json_pack("{s:o}", reasons ? "reasoning_content" : "content",
                             text_piece(d->text, d->size)));
}

/* The tools that may be called, as JSON; NULL when memory is out. */
static char *tools_of(const struct ask *ask)
{
    const json_t *tools = json_object_get(ask->body, "tools");
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *tool = json_array_get(tools, i), *function = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(function ? function : tool, "name"));
        if (ask->function && !(name && strcmp(name, ask->function) == 0)) continue;
        json_array_append(list, tool);
    }
    char *text = list ? json_written(list, 0) : NULL;
    json_decref(list);
    return text;
}

bool reply_open(struct completion *g, struct refusal *r)
{
    const struct server *s = g->exchange->server;
    struct pith_service *service = atomic_load(&s->service);
    struct pith_reply_options o;
    struct pith_error err = {0};
    char *prompt = NULL, *tools = NULL;
    enum pith_status status = PITH_OK;
    if (g->ask.kind != ASK_CHAT || !s->format) return true;
    if (pith_reply_format_special(s->format)) g->ask.request.special = 1;
    pith_reply_defaults(&o);
    status = pith_service_render(service, g->ask.conversation, &prompt, &o.prompt_size, &err);
    if (status != PITH_OK) {
        (void)refuse_failure(r, status, &err);
        if (status == PITH_FORMAT) snprintf(r->param, sizeof r->param, "messages");
        return false;
    }
    if (g->ask.tools && !(o.tools = tools = tools_of(&g->ask))) status = PITH_NOMEM;
    o.prompt = prompt;
    o.forced = g->ask.forced;
    o.single = g->ask.single;
    o.delta = on_delta;
    for (size_t i = 0; i < g->choices && status == PITH_OK; i++) {
        o.seed = g->exchange->serial * 4096 + i;
        o.ctx = &g->choice[i];
        status = pith_reply_open(s->format, &o, &g->choice[i].reply, &err);
    }
    pith_text_free(prompt);
    free(tools);
    return status == PITH_OK || refuse_failure(r, status, &err);
}

/* --- notes: a token without text has a chunk without text, as clients time tokens by chunks --- */

static void add_chat(struct completion *g, struct answer_choice *c, const struct pith_event *e)
{
    const struct pith_reply_delta plain = {
        .kind = PITH_REPLY_CONTENT, .text = e->text, .size = e->text_size};
    if (e->tokens > 0 && g->ask.request.logprobs >= 0) extend(&c->logprobs, logprobs_of(g, c, e));
    if (e->text_size == 0) {
        if (g->ask.stream && e->tokens > 0) send_piece(g, c->at, json_pack("{s:s}", "content", ""));
        return;
    }
    if (!c->reply) on_delta(c, &plain);
    else if (pith_reply_push(c->reply, e->text, e->text_size, NULL) != PITH_OK)
        g->out.failed = c->text.failed = true;
}

static void add_text(struct completion *g, size_t at, const struct pith_event *e)
{
    struct answer_choice *c = &g->choice[at];
    if (g->ask.kind == ASK_CHAT) {
        add_chat(g, c, e);
        return;
    }
    c->written += characters(e->text, e->text_size);
    if (g->ask.request.logprobs >= 0) extend(&c->logprobs, logprobs_of(g, c, e));
    if (!g->ask.stream) buffer_add(&c->text, e->text ? e->text : "", e->text_size);
    else if (e->text_size > 0 || e->tokens > 0)
        send_choice(g, at, text_piece(e->text, e->text_size), take_settled(c));
}

static void end_choice(struct completion *g, size_t at, const struct pith_event *e)
{
    struct answer_choice *c = &g->choice[at];
    const char *finish = g->ask.scored ? "length" : e->finish;
    if (c->reply && pith_reply_end(c->reply, NULL) != PITH_OK)
        g->out.failed = c->text.failed = true;
    if (c->reply && pith_reply_calls(c->reply) > 0 && strcmp(finish, "stop") == 0)
        finish = "tool_calls";
    c->ended = true;
    clamp_offsets(c);
    snprintf(c->finish, sizeof c->finish, "%s", finish);
    if (g->ask.stream) send_piece(g, at, g->ask.kind == ASK_CHAT ? json_object() : json_string(""));
}

void reply_note(struct completion *g, const struct tape_note *n)
{
    const struct pith_event *e = &n->event;
    const size_t each = g->ask.request.n, first = n->part * each;
    const size_t at = first + e->choice;
    if (e->usage.prompt > 0) g->part[n->part].so_far = e->usage;
    if (e->kind == PITH_EVENT_PROMPT && g->ask.request.echo) {
        for (size_t i = 0; i < each; i++) {
            add_text(g, first + i, e);
            g->choice[first + i].echoed = characters(e->text, e->text_size);
        }
    } else if (e->choice < each && (e->kind == PITH_EVENT_TEXT || e->kind == PITH_EVENT_CHOICE)) {
        /* The last piece may come with the end. */
        if (!g->ask.scored && (e->text_size > 0 || e->tokens > 0)) add_text(g, at, e);
        if (e->kind == PITH_EVENT_CHOICE) end_choice(g, at, e);
    }
}

void reply_close(struct completion *g, const struct refusal *failure)
{
    if (failure->status) {
        write_event(g, refusal_json(failure));
        return;
    }
    if (g->ask.usage) {
        json_t *last = envelope(
            g, g->ask.kind == ASK_CHAT ? "chat.completion.chunk" : "text_completion", json_array());
        json_object_set_new(last, "usage", usage_of(g));
        write_event(g, last);
    }
    buffer_text(&g->out, "data: [DONE]\n\n");
}

/* --- the whole -------------------------------------------------------------------------------- */

static json_t *whole_message(const struct answer_choice *c, json_t *text)
{
    json_t *m = json_pack("{s:s, s:o}", "role", "assistant", "content", text);
    if (c->reasoning.size > 0)
        json_object_set_new(m, "reasoning_content",
                            text_piece(c->reasoning.text, c->reasoning.size));
    if (c->calls) json_object_set(m, "tool_calls", c->calls);
    return m;
}

static json_t *whole_choice(const struct completion *g, size_t i)
{
    struct answer_choice *c = &g->choice[i];
    const bool chat = g->ask.kind == ASK_CHAT, failed = c->text.failed || c->reasoning.failed;
    json_t *text = failed                          ? NULL
                   : c->calls && c->text.size == 0 ? json_null()
                                                   : text_piece(c->text.text, c->text.size);
    json_t *logprobs = c->logprobs ? json_incref(c->logprobs) : json_null();
    if (chat) text = whole_message(c, text);
    return json_pack("{s:i, s:o, s:o, s:o}", "index", (int)i, chat ? "message" : "text", text,
                     "logprobs", logprobs, "finish_reason", finish_of(c));
}

json_t *reply_whole(struct completion *g)
{
    json_t *choices = json_array();
    for (size_t i = 0; i < g->choices; i++)
        if (json_array_append_new(choices, whole_choice(g, i)) != 0) {
            json_decref(choices);
            return NULL;
        }
    json_t *j =
        envelope(g, g->ask.kind == ASK_CHAT ? "chat.completion" : "text_completion", choices);
    json_object_set_new(j, "usage", usage_of(g));
    return j;
}
