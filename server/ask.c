/* Bodies of /v1/completions and /v1/chat/completions. */
#include "server/ask.h"

#include "server/buffer.h"
#include "server/fields.h"

#include <pith/json.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { MOST_STOPS = 64, MOST_STOP_IDS = 256, MOST_BIAS = 8192, MOST_TOPS = 20 };

/* --- numbers that are rows of params.def ------------------------------------------------------ */

enum param_kind { REAL, SIZE, WIDTH, TOP, FLAG };

static const struct param {
    const char *name;
    enum param_kind kind;
    size_t offset;
    double least, most;
} params[] = {
#define PARAM(name, kind, member, least, most)                                                     \
    {#name, kind, offsetof(struct pith_request, member), least, most},
#include "server/params.def"
#undef PARAM
};

static bool read_param(const struct param *p, const json_t *body, struct pith_request *q,
                       struct refusal *r)
{
    const json_t *j = body_get(body, p->name);
    void *at = (char *)q + p->offset;
    if (!j) return true;
    if (p->kind == FLAG) {
        if (!json_is_boolean(j))
            return refuse(r, 400, p->name, "'%s' must be true or false", p->name);
        *(int *)at = json_is_true(j);
        return true;
    }
    json_int_t whole = 0;
    const bool good = p->kind == REAL ? json_is_number(j) : body_whole(j, &whole);
    const double x = p->kind == REAL ? json_number_value(j) : (double)whole;
    if (!good)
        return refuse(r, 400, p->name, "'%s' must be a %snumber", p->name,
                      p->kind == REAL ? "" : "whole ");
    if (!(x >= p->least && x <= p->most))
        return refuse(r, 400, p->name, "'%s' must be from %g to %g", p->name, p->least, p->most);
    switch (p->kind) {
    case REAL: *(float *)at = (float)x; break;
    case SIZE: *(size_t *)at = (size_t)x; break;
    case WIDTH: *(uint32_t *)at = (uint32_t)x; break;
    case TOP: *(uint32_t *)at = x < 0 ? 0 : (uint32_t)x; break;
    case FLAG: break;
    }
    return true;
}

/* A whole number from `least` to `most`; `missing` where it is not there. */
static bool read_whole(const json_t *body, const char *name, const json_int_t range[2],
                       json_int_t *out, struct refusal *r)
{
    const json_t *j = body_get(body, name);
    if (!j) return true;
    if (!body_whole(j, out)) return refuse(r, 400, name, "'%s' must be a whole number", name);
    if (*out >= range[0] && *out <= range[1]) return true;
    return refuse(r, 400, name, "'%s' must be from %lld to %lld", name, (long long)range[0],
                  (long long)range[1]);
}

static bool read_seed(struct ask *ask, struct refusal *r)
{
    const json_t *j = body_get(ask->body, "seed");
    const char *unsigned_one = j ? pith_tree_number(j) : NULL;
    json_int_t whole = 0;
    char *end = NULL;
    errno = 0;
    const uint64_t large = unsigned_one ? strtoull(unsigned_one, &end, 10) : 0;
    if (j && (unsigned_one ? errno || *end || *unsigned_one == '-' : !body_whole(j, &whole)))
        return refuse(r, 400, "seed", "'seed' must be a whole number of 64 bits");
    if (j) ask->request.seed = unsigned_one ? large : (uint64_t)whole;
    else if (getrandom(&ask->request.seed, sizeof ask->request.seed, 0) < 0)
        return refuse(r, 500, NULL, "no random numbers for a seed");
    return true;
}

/* --- lengths and choices ---------------------------------------------------------------------- */

static bool read_length(struct ask *ask, struct refusal *r)
{
    const bool chat = ask->kind == ASK_CHAT;
    const bool newer = body_get(ask->body, "max_completion_tokens") != NULL;
    const char *name = newer ? "max_completion_tokens" : "max_tokens";
    json_int_t most = chat ? 0 : 16;
    bool echo = false;
    if (!chat && !body_flag(ask->body, "echo", false, &echo, r)) return false;
    if (body_get(ask->body, name)) {
        /* llama-server: -1 is no limit. */
        const json_t *j = body_get(ask->body, name);
        const bool endless = json_is_integer(j) && json_integer_value(j) == -1;
        const json_int_t range[2] = {endless ? -1 : echo ? 0 : 1, INT32_MAX};
        if (!read_whole(ask->body, name, range, &most, r)) return false;
        ask->scored = most == 0;
        if (endless) most = 0;
    }
    ask->request.echo = echo;
    ask->request.prompt_only = ask->scored;
    ask->request.max_tokens = (size_t)most;
    return true;
}

static bool read_choices(struct ask *ask, uint32_t limit, struct refusal *r)
{
    const json_int_t range[2] = {1, limit};
    json_int_t n = 1, best = 0;
    if (!read_whole(ask->body, "n", range, &n, r)) return false;
    if (ask->kind == ASK_COMPLETION && !read_whole(ask->body, "best_of", range, &best, r))
        return false;
    if (best && best < n) return refuse(r, 400, "best_of", "'best_of' must be at least 'n'");
    if (best > n && ask->stream)
        return refuse(r, 400, "best_of", "a stream cannot choose the best of several answers");
    if (ask->scored && (n > 1 || best > 1))
        return refuse(r, 400, "n", "without new tokens there is one choice");
    ask->request.n = (uint32_t)n;
    ask->request.best_of = (uint32_t)best;
    return true;
}

static bool read_logprobs(struct ask *ask, struct refusal *r)
{
    static const json_int_t range[2] = {0, MOST_TOPS};
    json_int_t tops = -1;
    if (ask->kind == ASK_CHAT) {
        bool wanted;
        if (!body_flag(ask->body, "logprobs", false, &wanted, r)) return false;
        if (wanted) tops = 0;
        if (!read_whole(ask->body, "top_logprobs", range, &tops, r)) return false;
        if (!wanted && tops > 0)
            return refuse(r, 400, "top_logprobs", "'top_logprobs' needs 'logprobs': true");
        if (!wanted) tops = -1;
    } else if (json_is_true(body_get(ask->body, "logprobs"))) {
        tops = 1;
    } else if (!json_is_false(body_get(ask->body, "logprobs"))) {
        if (!read_whole(ask->body, "logprobs", range, &tops, r)) return false;
    }
    ask->request.logprobs = (int)tops;
    ask->request.prompt_logprobs = ask->request.echo ? (int)tops : -1;
    return true;
}

/* --- what ends an answer, what is favoured ---------------------------------------------------- */

static bool read_stops(struct ask *ask, struct refusal *r)
{
    const json_t *j = body_get(ask->body, "stop");
    const size_t n = json_is_array(j) ? json_array_size(j) : j != NULL;
    if (n > MOST_STOPS) return refuse(r, 400, "stop", "at most %d texts may stop", MOST_STOPS);
    if (n > 0) {
        ask->stop = calloc(n, sizeof *ask->stop);
        if (!ask->stop) return refuse_failure(r, PITH_NOMEM, NULL);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_is_array(j) ? json_array_get(j, i) : j;
        if (!json_is_string(text) || json_string_length(text) == 0)
            return refuse(r, 400, "stop", "'stop' must be a text, or a list of them, none empty");
        ask->stop[i] = json_string_value(text);
    }
    ask->request.stop = (struct pith_list){ask->stop, n};
    const json_t *ids = body_get(ask->body, "stop_token_ids");
    size_t count = 0;
    if (ids && !body_ids(ids, "stop_token_ids", &ask->stop_ids, &count, r)) return false;
    if (count > MOST_STOP_IDS)
        return refuse(r, 400, "stop_token_ids", "at most %d tokens may stop", MOST_STOP_IDS);
    ask->request.stop_ids = ask->stop_ids;
    ask->request.stop_id_count = count;
    return true;
}

static bool read_bias(struct ask *ask, struct refusal *r)
{
    static const char name[] = "logit_bias";
    json_t *j = json_object_get(ask->body, name), *value;
    const char *key;
    size_t n = 0;
    if (!j || json_is_null(j)) return true;
    if (json_is_array(j) && json_array_size(j) == 0) return true;
    if (!json_is_object(j) || json_object_size(j) > MOST_BIAS)
        return refuse(r, 400, name, "'%s' must be an object of at most %d token ids", name,
                      MOST_BIAS);
    ask->bias = calloc(json_object_size(j) + 1, sizeof *ask->bias);
    ask->bias_value = calloc(json_object_size(j) + 1, sizeof *ask->bias_value);
    if (!ask->bias || !ask->bias_value) return refuse_failure(r, PITH_NOMEM, NULL);
    json_object_foreach (j, key, value) {
        char *end;
        const long id = strtol(key, &end, 10);
        const double x = json_number_value(value);
        if (key[0] < '0' || key[0] > '9' || *end || id > INT32_MAX)
            return refuse(r, 400, name, "'%s': a key is no token id", name);
        if (!json_is_number(value) || !(fabs(x) <= 100))
            return refuse(r, 400, name, "'%s' of token %ld must be from -100 to 100", name, id);
        ask->bias[n] = (int32_t)id;
        ask->bias_value[n++] = (float)x;
    }
    ask->request.bias = ask->bias;
    ask->request.bias_value = ask->bias_value;
    ask->request.bias_count = n;
    return true;
}

/* --- constraints ------------------------------------------------------------------------------ */

static bool constrain(struct ask *ask, enum pith_constraint kind, const json_t *what,
                      const char *name, struct refusal *r)
{
    if (ask->request.constraint != PITH_ANY)
        return refuse(r, 400, name, "an answer can follow one constraint");
    ask->request.constraint = kind;
    ask->constraint_field = name;
    if (kind == PITH_JSON) return true;
    if (kind == PITH_EXPRESSION && !json_is_string(what))
        return refuse(r, 400, name, "'%s' must be a regular expression", name);
    /* vLLM takes a schema as text too. */
    if (json_is_string(what)) ask->constraint = strdup(json_string_value(what));
    else if (json_is_object(what) || json_is_boolean(what))
        ask->constraint = json_written(what, JSON_COMPACT | JSON_ENCODE_ANY);
    else return refuse(r, 400, name, "'%s' must be a JSON schema", name);
    if (!ask->constraint) return refuse_failure(r, PITH_NOMEM, NULL);
    ask->request.constraint_text = ask->constraint;
    return true;
}

static bool read_format(struct ask *ask, struct refusal *r)
{
    static const char name[] = "response_format";
    static const char *const members[] = {"type", "schema", "json_schema", "value"};
    static const char *const named[] = {"name", "description", "schema", "strict"};
    const json_t *j = body_get(ask->body, name);
    const char *type = json_string_value(json_object_get(j, "type"));
    if (!j) return true;
    if (!type) return refuse(r, 400, name, "'%s' must be an object with a 'type'", name);
    if (!fields_within(j, name, members, sizeof members / sizeof members[0], r) ||
        !fields_within(json_object_get(j, "json_schema"), "json_schema", named,
                       sizeof named / sizeof named[0], r))
        return false;
    if (strcmp(type, "text") == 0) return true;
    const json_t *value = body_get(j, "value"); /* text-generation-inference's name of a schema */
    if (value && (body_get(j, "schema") || strcmp(type, "json_object") != 0))
        return refuse(r, 400, "response_format.value",
                      "a 'value' is the schema of a 'json_object'");
    if (strcmp(type, "json_object") == 0) {
        const json_t *schema = value ? value : body_get(j, "schema");
        return constrain(ask, schema ? PITH_SCHEMA : PITH_JSON, schema, name, r);
    }
    if (strcmp(type, "json_schema") == 0) {
        const json_t *outer = body_get(j, "json_schema");
        const json_t *schema = body_get(outer, "schema");
        if (!schema) schema = body_get(j, "schema");
        if (!schema) return refuse(r, 400, name, "'%s' has no schema at json_schema.schema", name);
        return constrain(ask, PITH_SCHEMA, schema, name, r);
    }
    return refuse(r, 400, name,
                  "'%s' of type '%.40s' is not supported: text, json_object and json_schema are",
                  name, type);
}

/* An answer that is one of some texts, as an expression. */
static bool constrain_choice(struct ask *ask, const json_t *list, const char *name,
                             struct refusal *r)
{
    static const char syntax[] = "^$\\.*+?()[]{}|/";
    struct buffer b = {0};
    bool good = json_array_size(list) > 0;
    for (size_t i = 0; good && i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *text = json_string_value(one);
        good = text && strlen(text) == json_string_length(one);
        buffer_text(&b, i ? "|" : "");
        for (; good && *text; text++)
            buffer_print(&b, strchr(syntax, *text) ? "\\%c" : "%c", *text);
    }
    json_t *expression = good && !b.failed ? json_stringn(b.text ? b.text : "", b.size) : NULL;
    buffer_free(&b);
    if (!good) return refuse(r, 400, name, "'%s' must be a list of texts", name);
    if (!expression) return refuse_failure(r, PITH_NOMEM, NULL);
    good = constrain(ask, PITH_EXPRESSION, expression, name, r);
    json_decref(expression);
    return good;
}

/* vLLM's "structured_outputs". */
static bool read_structured(struct ask *ask, struct refusal *r)
{
    static const char *const known[] = {"json", "regex", "choice", "json_object",
                                        "disable_fallback"};
    static const char path[] = "structured_outputs";
    const json_t *j = body_get(ask->body, path), *json, *regex, *choice;
    bool object = false;
    if (!j) return true;
    if (!json_is_object(j)) return refuse(r, 400, path, "'%s' must be an object", path);
    if (!fields_within(j, path, known, sizeof known / sizeof known[0], r) ||
        !body_flag(j, "json_object", false, &object, r))
        return false;
    json = body_get(j, "json"), regex = body_get(j, "regex"), choice = body_get(j, "choice");
    return (!json || constrain(ask, PITH_SCHEMA, json, "structured_outputs.json", r)) &&
           (!regex || constrain(ask, PITH_EXPRESSION, regex, "structured_outputs.regex", r)) &&
           (!choice || constrain_choice(ask, choice, "structured_outputs.choice", r)) &&
           (!object || constrain(ask, PITH_JSON, NULL, "structured_outputs.json_object", r));
}

static bool read_constraint(struct ask *ask, struct refusal *r)
{
    static const struct {
        const char *name;
        enum pith_constraint kind;
    } extensions[] = {{"guided_json", PITH_SCHEMA},
                      {"json_schema", PITH_SCHEMA},
                      {"guided_regex", PITH_EXPRESSION}};
    if (!read_format(ask, r)) return false;
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        const json_t *j = body_get(ask->body, extensions[i].name);
        if (j && !constrain(ask, extensions[i].kind, j, extensions[i].name, r)) return false;
    }
    const json_t *choice = body_get(ask->body, "guided_choice");
    if (choice && !constrain_choice(ask, choice, "guided_choice", r)) return false;
    return read_structured(ask, r);
}

/* The word of a constraint that an answer may follow in place of calls; NULL: there is none. */
static const char *other_kind(enum pith_constraint kind)
{
    return kind == PITH_JSON ? "json" : kind == PITH_SCHEMA ? "schema" : NULL;
}

/* Calls that must be made, or that may be in place of an answer of "response_format". Other
 * constraints are of the whole answer, calls and all. */
static bool force_call(struct ask *ask, const struct pith_reply_format *format, struct refusal *r)
{
    struct forced_call f;
    const bool form = ask->request.constraint != PITH_ANY,
               given = form && body_get(ask->body, "response_format") != NULL;
    if (!forced_read(ask->body, &f, r)) return false;
    ask->single = !f.many;
    ask->function = f.name;
    if (!f.must && !(ask->tools && given && format)) return true;
    if (f.must && form && !given)
        return refuse(r, 400, "tool_choice", "an answer can follow one constraint");
    char *schema = forced_schema(ask->body, &f, r), *text = schema;
    if (!schema) return false;
    ask->forced = f.must ? 1 : 2;
    enum pith_constraint kind = PITH_SCHEMA;
    if (!f.must || (format && strcmp(pith_reply_format_name(format), "described") == 0)) {
        /* A forced call may be followed by others: several calls only on request. */
        const bool many = f.must ? json_is_true(body_get(ask->body, "parallel_tool_calls"))
                                 : f.many;
        text = forced_text(schema, format, many,
                           f.must ? NULL : other_kind(ask->request.constraint), ask->constraint);
        kind = PITH_CALLS;
        free(schema);
    }
    free(ask->constraint);
    if (!form) ask->constraint_field = "tools";
    ask->request.constraint = kind;
    ask->request.constraint_text = ask->constraint = text;
    return text || refuse_failure(r, PITH_NOMEM, NULL);
}

/* --- the whole -------------------------------------------------------------------------------- */

static bool read_stream(struct ask *ask, struct refusal *r)
{
    static const char *const known[] = {"include_usage", "continuous_usage_stats",
                                        "include_obfuscation"};
    static const char path[] = "stream_options";
    const json_t *options = body_get(ask->body, path);
    if (!body_flag(ask->body, "stream", false, &ask->stream, r)) return false;
    if (!options) return true;
    if (!json_is_object(options))
        return refuse(r, 400, "stream_options", "'stream_options' must be an object");
    if (!ask->stream)
        return refuse(r, 400, "stream_options", "'stream_options' needs 'stream': true");
    return body_flag(options, "include_usage", false, &ask->usage, r) &&
           body_flag(options, "continuous_usage_stats", false, &ask->counts, r) &&
           fields_within(options, path, known, sizeof known / sizeof known[0], r);
}

static bool read_all(struct ask *ask, const struct ask_limits *limits, struct refusal *r)
{
    bool skip;
    const enum field_route route = ask->kind == ASK_CHAT ? FIELD_CHAT : FIELD_TEXT;
    if (!body_model(ask->body, limits->name, limits->model, r) ||
        !fields_check(ask->body, route, &ask->ignored, r) || !read_stream(ask, r) ||
        !choose_tools(ask->body, r))
        return false;
    for (size_t i = 0; i < sizeof params / sizeof params[0]; i++)
        if (!read_param(&params[i], ask->body, &ask->request, r)) return false;
    if (!body_flag(ask->body, "skip_special_tokens", true, &skip, r) ||
        !body_flag(ask->body, "return_tokens_as_token_ids", false, &ask->ids_for_texts, r))
        return false;
    ask->request.special = !skip;
    if (!read_seed(ask, r) || !read_length(ask, r) || !read_choices(ask, limits->choices, r) ||
        !read_logprobs(ask, r) || !read_stops(ask, r) || !read_bias(ask, r) ||
        !read_constraint(ask, r))
        return false;
    /* Who scores a prompt takes the last entry off the lists for the token that was made: the
     * token that ends a text is one, as with other servers. */
    if (ask->request.echo && ask->request.max_tokens == 1 && ask->request.logprobs >= 0)
        ask->request.ignore_end = 1;
    if (ask->kind == ASK_COMPLETION) {
        bool front;
        if (!body_flag(ask->body, "add_special_tokens", true, &front, r)) return false;
        ask->request.bare = !front;
        return body_inputs(ask->body, "prompt", limits->prompts, &ask->prompt, &ask->prompts, r);
    }
    ask->prompts = 1;
    ask->conversation = conversation_of(ask->body, &ask->tools, r);
    return ask->conversation && force_call(ask, limits->format, r);
}

bool ask_read(struct ask *ask, enum ask_kind kind, const char *body, size_t size,
              const struct ask_limits *limits, struct refusal *r)
{
    *ask = (struct ask){.kind = kind};
    pith_request_defaults(&ask->request);
    ask->request.temperature = 1;
    ask->body = body_read(body, size, r);
    if (ask->body && read_all(ask, limits, r)) return true;
    ask_free(ask);
    return false;
}

void ask_free(struct ask *ask)
{
    body_inputs_free(ask->prompt, ask->prompts);
    free(ask->conversation);
    free(ask->bias);
    free(ask->bias_value);
    free(ask->stop);
    free(ask->stop_ids);
    free(ask->constraint);
    json_decref(ask->body);
    json_decref(ask->ignored);
    *ask = (struct ask){0};
}

struct pith_request ask_request(const struct ask *ask, size_t i)
{
    struct pith_request q = ask->request;
    if (ask->kind == ASK_CHAT) {
        q.conversation = ask->conversation;
    } else if (ask->prompt[i].text) {
        q.text = ask->prompt[i].text;
        q.text_size = ask->prompt[i].text_size;
    } else {
        q.ids = ask->prompt[i].ids;
        q.id_count = ask->prompt[i].id_count;
    }
    return q;
}
