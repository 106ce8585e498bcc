/* From options to levels of load, one after the other. */
#include "traffic/server_load.h"

#include "base/mem.h"
#include "traffic/chunk.h"

#include <pith/names.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS_MOST = 64, CLIENTS_MOST = 20000, REQUESTS_MOST = 10000000 };

/* --- reading options -------------------------------------------------------------------------- */

static enum pith_status add_level(struct pith_server_load *t, struct pith_server_level level,
                                  struct pith_error *err)
{
    if (t->levels == LEVELS_MOST)
        return pith_fail(err, PITH_ARG, "at most %d levels in one run", LEVELS_MOST);
    void *more = pith_realloc(t->level, t->levels + 1, sizeof *t->level);
    if (!more) return pith_fail_nomem(err, "levels");
    t->level = more;
    t->level[t->levels++] = level;
    return PITH_OK;
}

/* "1,4,16" of clients, or "0.5,2" of requests a second. */
static enum pith_status read_list(struct pith_server_load *t, const char *text, bool rates,
                                  struct pith_error *err)
{
    for (const char *at = text;;) {
        char *end = NULL;
        const double x = *at >= '0' && *at <= '9' ? strtod(at, &end) : 0;
        const bool good = end && (*end == ',' || !*end) && x > 0 && x <= CLIENTS_MOST &&
                          (rates || x == floor(x));
        if (!good)
            return pith_fail(
                err, PITH_ARG, "`%s` %.100s: %s, at most %d", rates ? "rates" : "clients", text,
                rates ? "requests a second, like 0.5,2" : "numbers like 1,4,16", CLIENTS_MOST);
        const struct pith_server_level l = {rates ? 0 : (size_t)x, rates ? x : 0};
        PITH_TRY(add_level(t, l, err));
        if (!*end) return PITH_OK;
        at = end + 1;
    }
}

static enum pith_status read_levels(struct pith_server_load *t, struct pith_error *err)
{
    const struct pith_traffic_options *o = t->options;
    if ((o->clients != NULL) + (o->rates != NULL) + (o->trace != NULL) > 1)
        return pith_fail(err, PITH_ARG, "`clients`, `rates` and `trace`: one of them");
    if (o->trace) return add_level(t, (struct pith_server_level){0}, err);
    if (o->rates) return read_list(t, o->rates, true, err);
    return read_list(t, o->clients ? o->clients : "1", false, err);
}

static enum pith_status read_more(struct pith_server_load *t, struct pith_error *err)
{
    const char *more = t->options->more;
    if (!more) return PITH_OK;
    if (pith_json_parse(more, strlen(more), "`more`", &t->more, err) != PITH_OK)
        return pith_fail_as(err, PITH_ARG, NULL);
    if (json_is_object(t->more)) return PITH_OK;
    return pith_fail(err, PITH_ARG, "`more`: a JSON object, like {\"cache_prompt\": false}");
}

static enum pith_status read_names(struct pith_server_load *t, struct pith_error *err)
{
    const struct pith_traffic_options *o = t->options;
    const bool chat = pith_name_equal(o->endpoint, "chat");
    const bool ids = pith_name_equal(o->form, "ids");
    if (!chat && !pith_name_equal(o->endpoint, "completions"))
        return pith_fail(err, PITH_ARG, "`endpoint` %.64s: completions or chat", o->endpoint);
    if (!ids && !pith_name_equal(o->form, "text"))
        return pith_fail(err, PITH_ARG, "`form` %.64s: text or ids", o->form);
    if (ids && chat)
        return pith_fail(err, PITH_ARG, "`form` ids: a chat is text; with `endpoint=completions`");
    t->arrivals = pith_arrivals_find(o->arrivals);
    if (!t->arrivals)
        return pith_fail(err, PITH_ARG, "`arrivals` %.64s: poisson, even or bursts", o->arrivals);
    t->asking = (struct pith_traffic_asking){
        .chat = chat, .ignore_end = o->ignore_end != 0, .temperature = o->temperature};
    return PITH_OK;
}

static enum pith_status read_options(struct pith_server_load *t, struct pith_error *err)
{
    const struct pith_traffic_options *o = t->options;
    if (!o->url) return pith_fail(err, PITH_ARG, "an address of a server is needed");
    if (!(o->duration >= 0 && o->duration <= 1e6))
        return pith_fail(err, PITH_ARG, "`duration`: from 0 to 1000000 seconds");
    if (!(o->timeout > 0 && o->timeout <= 1e6))
        return pith_fail(err, PITH_ARG, "`timeout`: above 0, at most 1000000 seconds");
    if (!(o->temperature >= 0 && o->temperature <= 100))
        return pith_fail(err, PITH_ARG, "`temperature`: from 0 to 100");
    if (o->requests > REQUESTS_MOST || o->warmup > REQUESTS_MOST)
        return pith_fail(err, PITH_ARG, "`requests`, `warmup`: at most %d", REQUESTS_MOST);
    if (o->prefix > 1 << 24) return pith_fail(err, PITH_ARG, "`prefix`: at most %d", 1 << 24);
    PITH_TRY(read_levels(t, err));
    PITH_TRY(read_names(t, err));
    PITH_TRY(pith_lengths_parse(o->prompt, "`prompt`", &t->prompt, err));
    PITH_TRY(pith_lengths_parse(o->answer, "`answer`", &t->answer, err));
    if (o->limit) PITH_TRY(pith_goals_parse(o->limit, &t->goals, err));
    return read_more(t, err);
}

static void free_load(struct pith_server_load *t)
{
    pith_wire_close(t->wire);
    pith_words_free(&t->words);
    pith_trace_free(&t->trace);
    pith_free(t->level);
    pith_free(t->name);
    json_decref(t->more);
}

enum pith_status pith_server_load_check(const struct pith_traffic_options *options,
                                        struct pith_error *err)
{
    struct pith_server_load t = {.options = options};
    const enum pith_status s = read_options(&t, err);
    free_load(&t);
    return s;
}

/* --- before the load -------------------------------------------------------------------------- */

/* A question whose answer is a JSON object, *out. A status that is not 2xx is PITH_IO, with what
 * the server answered, but for `missing`: PITH_OK and NULL. */
struct query {
    const char *path;
    const json_t *body;
    long missing;
};
static enum pith_status ask(const struct pith_server_load *t, const struct query *q, json_t **out,
                            struct pith_error *err)
{
    struct pith_str answer = {0};
    struct pith_chunk reply = {.error = ""};
    const struct pith_plain_call question = {q->path, q->body, &t->options->progress};
    long status = 0;
    *out = NULL;
    enum pith_status s = pith_drive_ask(t->wire, &question, &answer, &status, err);
    if (s != PITH_OK) return pith_fail_in(err, s, t->options->url);
    if (status >= 200 && status <= 299)
        s = pith_json_parse(pith_str_text(&answer), answer.len, q->path, out, err);
    else if (status != q->missing) {
        (void)pith_answer_read(pith_str_text(&answer), answer.len, &reply, NULL);
        s = pith_fail(err, PITH_IO, "%s has status %ld%s%s", q->path, status,
                      reply.error[0] ? ": " : "", reply.error);
    }
    pith_str_free(&answer);
    if (s == PITH_FORMAT) s = pith_fail_as(err, PITH_IO, NULL);
    return s == PITH_OK ? s : pith_fail_in(err, s, t->options->url);
}

/* The first model of the list; none where there is no list. */
static enum pith_status find_name(struct pith_server_load *t, struct pith_error *err)
{
    const struct query q = {.path = "/models", .missing = 404};
    const char *name = t->options->name;
    json_t *j = NULL;
    if (!name) {
        PITH_TRY(ask(t, &q, &j, err));
        const json_t *first = json_array_get(json_object_get(j, "data"), 0);
        name = json_string_value(json_object_get(first, "id"));
    }
    if (name) t->name = pith_strdup(name);
    const bool good = !name || t->name;
    json_decref(j);
    t->asking.model = t->name;
    return good ? PITH_OK : pith_fail_nomem(err, "a name");
}

/* Tokens that a prompt of so many words has; NaN where the server does not say. */
static enum pith_status count_words(const struct pith_server_load *t, size_t words, double *out,
                                    struct pith_error *err)
{
    json_t *j = NULL, *body;
    body = pith_traffic_body(&t->asking, pith_words_text(&t->words, words, t->options->seed), 1, 0);
    if (!body) return pith_fail_nomem(err, "a request");
    json_object_del(body, "stream_options");
    pith_json_set(&body, "stream", json_false());
    const struct query q = {.path = t->asking.chat ? "/chat/completions" : "/completions",
                            .body = body};
    const enum pith_status s = body ? ask(t, &q, &j, err) : pith_fail_nomem(err, "a request");
    json_decref(body);
    PITH_TRY(s);
    const json_t *n = json_object_get(json_object_get(j, "usage"), "prompt_tokens");
    *out = json_is_integer(n) ? (double)json_integer_value(n) : (double)NAN;
    json_decref(j);
    return PITH_OK;
}

/* How many tokens a word comes to, and what stands around them: a prompt of one word (the words are
 * common ones: one token) and one of many, or of fewer where the model's context is short. */
static enum pith_status measure_words(struct pith_server_load *t, struct pith_error *err)
{
    static const size_t many[] = {200, 60, 12};
    double one, all = (double)NAN;
    size_t i = 0;
    enum pith_status s = count_words(t, 1, &one, err);
    for (; s == PITH_OK && i < PITH_COUNT(many); i++) {
        struct pith_error tried = {0};
        s = count_words(t, many[i], &all, &tried);
        if (s == PITH_OK) break;
        if (s != PITH_IO || i + 1 == PITH_COUNT(many)) return pith_fail(err, s, "%s", tried.text);
        s = PITH_OK;
    }
    PITH_TRY(s);
    const double slope = (all - one) / (double)(many[i] - 1);
    t->estimated = !(slope > 0 && one >= 1);
    t->words.per_word = t->estimated ? 4.0 / 3 : slope;
    t->words.fixed = t->estimated ? 0 : one - 1;
    return PITH_OK;
}

static enum pith_status keep_ids(struct pith_words *w, const json_t *tokens, struct pith_error *err)
{
    const json_t *one;
    size_t i;
    w->id = pith_alloc(json_array_size(tokens) + 1, sizeof *w->id);
    if (!w->id) return pith_fail_nomem(err, "token ids");
    json_array_foreach (tokens, i, one)
        if (json_is_integer(one)) w->id[w->ids++] = json_integer_value(one);
    return PITH_OK;
}

/* The ids that the server's tokenizer makes of many words. */
static enum pith_status find_ids(struct pith_server_load *t, struct pith_error *err)
{
    json_t *j = NULL, *text = pith_words_text(&t->words, 2000, t->options->seed), *body;
    body = json_pack("{s:O, s:o, s:b, s:b}", "content", text, "prompt", text, "add_special_tokens",
                     0, "add_special", 0);
    if (body && t->name) pith_json_set(&body, "model", json_string(t->name));
    const struct query q = {.path = "//tokenize", .body = body, .missing = 404};
    enum pith_status s = body ? ask(t, &q, &j, err) : pith_fail_nomem(err, "a request");
    json_decref(body);
    PITH_TRY(s);
    s = keep_ids(&t->words, json_object_get(j, "tokens"), err);
    json_decref(j);
    if (s == PITH_OK && t->words.ids == 0)
        s = pith_fail(err, PITH_UNSUPPORTED, "%s: `form` ids: it has no /tokenize",
                      t->options->url);
    return s;
}

static enum pith_status prepare(struct pith_server_load *t, struct pith_error *err)
{
    const struct pith_traffic_options *o = t->options;
    const struct pith_wire_options wire = {o->url, o->key, o->ca_file, o->timeout};
    PITH_TRY(read_options(t, err));
    t->asking.more = t->more;
    if (o->trace) PITH_TRY(pith_trace_read(o->trace, &t->trace, err));
    PITH_TRY(pith_words_open(o->text, &t->words, err));
    t->words.prefix = o->prefix;
    t->words.prefix_seed = o->seed ^ UINT64_C(0x70726566697821);
    PITH_TRY(pith_wire_open(&wire, &t->wire, err));
    PITH_TRY(find_name(t, err));
    return pith_name_equal(o->form, "ids") ? find_ids(t, err) : measure_words(t, err);
}

/* --- levels ----------------------------------------------------------------------------------- */

static size_t requests_of(const struct pith_server_load *t, const struct pith_server_level *l)
{
    const struct pith_traffic_options *o = t->options;
    if (o->requests || o->duration > 0 || o->trace) return o->requests;
    const double n = l->clients ? 4 * (double)l->clients : ceil(30 * l->rate);
    return (size_t)fmax(n, 16);
}

static struct pith_plan_options plan_of(const struct pith_server_load *t,
                                        const struct pith_server_level *l)
{
    return (struct pith_plan_options){.trace = t->options->trace ? &t->trace : NULL,
                                      .prompt = t->prompt,
                                      .answer = t->answer,
                                      .arrivals = t->arrivals,
                                      .rate = l->rate,
                                      .seed = t->options->seed,
                                      .level = 2 * (uint64_t)(l - t->level)};
}

/* Ranks that ask: no more than there are clients. */
static unsigned drivers(const struct pith_server_load *t, size_t clients)
{
    const unsigned all = pith_ranks_count(t->ranks);
    return clients && clients < all ? (unsigned)clients : all;
}

/* This rank's of a level's clients. */
static size_t own_clients(const struct pith_server_load *t, size_t clients)
{
    const unsigned n = drivers(t, clients), own = pith_ranks_own(t->ranks);
    return own < n ? pith_ranks_cut(n, own + 1, clients) - pith_ranks_cut(n, own, clients) : 0;
}

/* Requests that are not measured: connections, pages and packed weights are warm then. */
static enum pith_status warm_up(const struct pith_server_load *t, const struct pith_server_level *l,
                                struct pith_error *err)
{
    const struct pith_traffic_options *o = t->options;
    struct pith_plan_options plan = plan_of(t, l);
    struct pith_level_result ignored = {0};
    const size_t clients = l->clients ? own_clients(t, l->clients) : 1;
    plan.level++;
    plan.trace = NULL;
    plan.rate = 0;
    const struct pith_drive d = {.wire = t->wire,
                                 .words = &t->words,
                                 .asking = &t->asking,
                                 .plan = &plan,
                                 .clients = o->warmup < clients ? o->warmup : clients,
                                 .requests = o->warmup,
                                 .what = "warming up",
                                 .progress = &o->progress};
    if (o->warmup == 0 || clients == 0) return PITH_OK;
    PITH_TRY(pith_drive_run(&d, &ignored, err));
    pith_level_free(&ignored);
    return PITH_OK;
}

static enum pith_status run_level(struct pith_server_load *t, const struct pith_server_level *l,
                                  struct pith_report *to, struct pith_error *err)
{
    const struct pith_traffic_options *o = t->options;
    const struct pith_plan_options plan = plan_of(t, l);
    const unsigned own = pith_ranks_own(t->ranks);
    struct pith_level_result r = {0};
    char what[64] = "trace";
    if (l->clients) (void)snprintf(what, sizeof what, "%zu clients", l->clients);
    else if (l->rate > 0) (void)snprintf(what, sizeof what, "%g requests/s", l->rate);
    const struct pith_drive d = {.wire = t->wire,
                                 .words = &t->words,
                                 .asking = &t->asking,
                                 .plan = &plan,
                                 .driver = own,
                                 .drivers = drivers(t, l->clients),
                                 .clients = own_clients(t, l->clients),
                                 .requests = requests_of(t, l),
                                 .duration = o->duration,
                                 .what = what,
                                 .progress = &o->progress};
    PITH_TRY(warm_up(t, l, err));
    PITH_TRY(pith_ranks_meet(t->ranks, err)); /* all begin together */
    if (own < d.drivers) PITH_TRY(pith_drive_run(&d, &r, err));
    enum pith_status s = pith_level_gather(t->ranks, &r, err);
    if (s == PITH_OK && own == 0) s = pith_server_load_report_level(t, l, &r, to, err);
    pith_level_free(&r);
    return s;
}

static enum pith_status run(struct pith_server_load *t, struct pith_report **report,
                            struct pith_error *err)
{
    PITH_TRY(prepare(t, err));
    *report = pith_server_load_report(t);
    enum pith_status s = *report ? PITH_OK : pith_fail_nomem(err, "the report");
    for (size_t i = 0; i < t->levels && s == PITH_OK; i++)
        s = run_level(t, &t->level[i], *report, err);
    if (s == PITH_OK) pith_report_close(*report);
    if (s != PITH_OK || !pith_ranks_first(t->ranks)) pith_report_free(report);
    return s;
}

enum pith_status pith_server_load(const struct pith_traffic_options *options,
                                  struct pith_ranks *ranks, struct pith_report **report,
                                  struct pith_error *err)
{
    struct pith_server_load t = {.options = options, .ranks = ranks};
    *report = NULL;
    const enum pith_status s = run(&t, report, err);
    free_load(&t);
    return s;
}
