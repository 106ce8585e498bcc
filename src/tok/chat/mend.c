#include "tok/chat/mend.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tok/chat/tools.h"

#include <string.h>

/* ---- parts of a conversation ---- */

static json_t *messages_of(const struct pith_chat_mend *m)
{
    return json_object_get(m->given, "messages");
}

static bool is_role(const json_t *message, const char *role)
{
    const char *own = json_string_value(json_object_get(message, "role"));
    return own && strcmp(own, role) == 0;
}

static bool has_role(const struct pith_chat_mend *m, const char *role)
{
    const json_t *message;
    size_t i;
    json_array_foreach (messages_of(m), i, message)
        if (is_role(message, role)) return true;
    return false;
}

static bool has_calls(const json_t *message)
{
    return json_array_size(json_object_get(message, "tool_calls")) > 0;
}

/* Sets a member; takes the value, NULL: memory is out. */
static void put(struct pith_chat_mend *m, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0) m->failed = true;
    m->changed = true;
}

static void add(struct pith_chat_mend *m, json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) != 0) m->failed = true;
}

/* Messages in place of those that there were, where that is wanted; takes them. */
static void replace(struct pith_chat_mend *m, json_t *messages, bool wanted)
{
    if (wanted) put(m, m->given, "messages", messages);
    else json_decref(messages);
}

/* A member as a copy that may be changed; NULL where there is none. */
static json_t *own(struct pith_chat_mend *m, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!value) return NULL;
    const bool before = m->changed;
    put(m, object, key, json_deep_copy(value));
    m->changed = before;
    return m->failed ? NULL : json_object_get(object, key);
}

/* ---- calls ---- */

static enum pith_call_content content_of(const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    if (!content || json_is_null(content)) return PITH_CONTENT_NONE;
    return pith_chat_is_nothing(content) ? PITH_CONTENT_EMPTY : PITH_CONTENT_TEXT;
}

/* Nine letters and digits, the same ones for the same id. */
static json_t *short_id(const json_t *id)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const char *text = json_string_value(id);
    const size_t size = json_string_length(id);
    uint64_t seed = 0xcbf29ce484222325u; /* FNV-1a */
    size_t good = 0;
    char out[10] = {0};
    for (size_t i = 0; i < size; i++) {
        seed = (seed ^ (unsigned char)text[i]) * 0x100000001b3u;
        good += text[i] && strchr(digits, text[i]) != NULL;
    }
    if (size == 9 && good == 9) return json_string(text);
    struct pith_rng rng;
    pith_rng_seed(&rng, seed);
    for (size_t i = 0; i < 9; i++) out[i] = digits[pith_rng_below(&rng, 62)];
    return json_string(out);
}

static void shorten_ids(struct pith_chat_mend *m)
{
    json_t *message, *call;
    size_t i, k;
    json_array_foreach (messages_of(m), i, message) {
        const json_t *id = json_object_get(message, "tool_call_id");
        if (json_is_string(id)) put(m, message, "tool_call_id", short_id(id));
        if (!has_calls(message)) continue;
        json_array_foreach (own(m, message, "tool_calls"), k, call) {
            const json_t *given = json_object_get(call, "id");
            if (json_is_object(call))
                put(m, call, "id", short_id(json_is_string(given) ? given : NULL));
        }
    }
}

/* Arguments as text, or as the object that a text says. */
static void write_arguments(struct pith_chat_mend *m, json_t *message, bool text)
{
    json_t *call;
    size_t i;
    json_array_foreach (own(m, message, "tool_calls"), i, call) {
        json_t *function = json_object_get(call, "function");
        const json_t *given = json_object_get(function, "arguments");
        if (text && json_is_object(given)) {
            struct pith_str s = {0};
            pith_json_dump(given, JSON_ENCODE_ANY, &s); /* a number of many digits, too */
            put(m, function, "arguments", s.failed ? NULL : json_stringn(s.data, s.len));
            pith_str_free(&s);
        } else if (!text && json_is_string(given)) {
            json_t *read = NULL;
            if (pith_json_parse(json_string_value(given), json_string_length(given), "arguments",
                                &read, NULL) == PITH_NOMEM)
                m->failed = true;
            if (json_is_object(read)) put(m, function, "arguments", json_incref(read));
            json_decref(read);
        }
    }
}

/* Gives the change. */
static unsigned write_call(struct pith_chat_mend *m, json_t *message, unsigned change)
{
    if (change & PITH_CALL_EMPTY) put(m, message, "content", json_string(""));
    if (change & PITH_CALL_NULL) put(m, message, "content", json_null());
    write_arguments(m, message, (change & PITH_CALL_ARGUMENTS) != 0);
    return change;
}

static void write_calls(struct pith_chat_mend *m)
{
    json_t *message;
    size_t i;
    unsigned all = 0;
    json_array_foreach (messages_of(m), i, message) {
        if (!has_calls(message)) continue;
        all |= write_call(m, message, m->traits->calls[content_of(message)].change);
    }
    if (all & PITH_CALL_IDS) shorten_ids(m);
}

static void say_call(struct pith_chat_mend *m, json_t *message, const char *open,
                     const char *close)
{
    put(m, message, "content", pith_chat_call_text(message, open, close));
    json_object_del(message, "tool_calls");
}

/* The contents of messages that become one. */
struct run {
    json_t *message, *contents;
};

static void begin_run(struct pith_chat_mend *m, struct run *r, json_t *message, json_t *content)
{
    json_decref(r->contents);
    r->message = message;
    r->contents = json_pack("[O?]", content);
    m->failed |= !r->contents;
}

static void end_run(struct pith_chat_mend *m, struct run *r, const char *between)
{
    if (r->message && json_array_size(r->contents) > 1)
        put(m, r->message, "content", pith_chat_joined(r->contents, between));
    json_decref(r->contents);
    *r = (struct run){NULL, NULL};
}

/* Results become messages of the user, those behind each other one. */
static void say_results(struct pith_chat_mend *m)
{
    json_t *list = json_array(), *message;
    struct run r = {NULL, NULL};
    size_t i;
    json_array_foreach (messages_of(m), i, message) {
        if (!is_role(message, "tool")) {
            end_run(m, &r, "\n");
            add(m, list, json_incref(message));
            continue;
        }
        json_t *text = pith_chat_result_text(message);
        if (r.message) {
            add(m, r.contents, text);
            continue;
        }
        json_t *user = json_pack("{s:s, s:O}", "role", "user", "content", text);
        begin_run(m, &r, user, text);
        add(m, list, user);
        json_decref(text);
    }
    end_run(m, &r, "\n");
    replace(m, list, true);
}

static void calls_in_words(struct pith_chat_mend *m)
{
    json_t *message;
    size_t i;
    json_array_foreach (messages_of(m), i, message)
        if (has_calls(message)) say_call(m, message, m->traits->open, m->traits->close);
    if (has_role(m, "tool")) say_results(m);
}

/* A separate message for one of its calls. */
static json_t *one_call(const json_t *message, size_t at)
{
    json_t *one = json_copy((json_t *)(uintptr_t)message);
    json_t *calls = json_object_get(message, "tool_calls");
    json_t *list = json_pack("[O]", json_array_get(calls, at));
    if (at > 0) {
        json_object_del(one, "content");
        json_object_del(one, "reasoning_content");
        json_object_del(one, "thinking");
    }
    pith_json_set(&one, "tool_calls", list);
    return one;
}

/* The text of an id, "" where it has none. */
static const char *id_text(const json_t *id)
{
    return json_is_string(id) ? json_string_value(id) : "";
}

/* Results by the ids of their calls: {"id": [result, ...]}, of messages from..to. */
static json_t *results_by_id(struct pith_chat_mend *m, const json_t *all, size_t from, size_t to)
{
    json_t *by = json_object();
    for (size_t i = from; by && i < to; i++) {
        json_t *result = json_array_get(all, i);
        const char *id = id_text(json_object_get(result, "tool_call_id"));
        if (!json_object_get(by, id) && json_object_set_new(by, id, json_array()) != 0)
            m->failed = true;
        add(m, json_object_get(by, id), json_incref(result));
    }
    m->failed |= !by;
    return by;
}

static void part_message(struct pith_chat_mend *m, const json_t *message, json_t *results,
                         json_t *list)
{
    const json_t *calls = json_object_get(message, "tool_calls"), *call;
    const char *id;
    json_t *own;
    size_t i;
    json_array_foreach (calls, i, call) {
        add(m, list, one_call(message, i));
        id = id_text(json_object_get(call, "id"));
        own = json_object_get(results, id);
        if (!own) continue;
        if (json_array_extend(list, own) != 0) m->failed = true;
        json_object_del(results, id);
    }
    json_object_foreach (results, id, own)
        if (json_array_extend(list, own) != 0) m->failed = true;
}

static void part_calls(struct pith_chat_mend *m)
{
    json_t *all = messages_of(m), *list = json_array();
    bool some = false;
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *message = json_array_get(all, i);
        if (json_array_size(json_object_get(message, "tool_calls")) < 2) {
            add(m, list, json_incref(message));
            continue;
        }
        size_t to = i + 1;
        while (is_role(json_array_get(all, to), "tool")) to++;
        json_t *results = results_by_id(m, all, i + 1, to);
        part_message(m, message, results, list);
        json_decref(results);
        some = true;
        i = to - 1;
    }
    replace(m, list, some);
}

static void name_results(struct pith_chat_mend *m)
{
    json_t *message, *names = json_object();
    const json_t *call;
    size_t i, k;
    m->failed |= !names;
    json_array_foreach (messages_of(m), i, message) {
        json_array_foreach (json_object_get(message, "tool_calls"), k, call) {
            json_t *name = json_object_get(json_object_get(call, "function"), "name");
            const char *id = id_text(json_object_get(call, "id"));
            if (json_is_string(name) && json_object_set(names, id, name) != 0) m->failed = true;
        }
        if (!is_role(message, "tool") || json_object_get(message, "name")) continue;
        json_t *name = json_object_get(names, id_text(json_object_get(message, "tool_call_id")));
        if (name) put(m, message, "name", json_incref(name));
    }
    json_decref(names);
}

/* ---- content ---- */

static void fill_content(struct pith_chat_mend *m)
{
    json_t *message;
    size_t i;
    json_array_foreach (messages_of(m), i, message) {
        const json_t *content = json_object_get(message, "content");
        const struct pith_call_way *way = &m->traits->calls[PITH_CONTENT_NONE];
        if (content && !json_is_null(content)) continue;
        /* With calls it is as it must be. */
        if (has_calls(message) && way->change & PITH_CALL_NULL) continue;
        put(m, message, "content", json_string(""));
    }
}

/* Messages of the model that say nothing. */
static void drop_empty(struct pith_chat_mend *m)
{
    json_t *list = json_array(), *message;
    size_t i;
    bool some = false;
    json_array_foreach (messages_of(m), i, message) {
        if (is_role(message, "assistant") && !has_calls(message) &&
            content_of(message) != PITH_CONTENT_TEXT)
            some = true;
        else add(m, list, json_incref(message));
    }
    replace(m, list, some);
}

static void join_parts(struct pith_chat_mend *m)
{
    json_t *message;
    size_t i;
    if (m->traits->parts) return;
    json_array_foreach (messages_of(m), i, message) {
        const json_t *content = json_object_get(message, "content");
        if (json_is_array(content)) put(m, message, "content", pith_chat_text_of(content));
    }
}

static void make_parts(struct pith_chat_mend *m)
{
    json_t *message;
    size_t i;
    json_array_foreach (messages_of(m), i, message) {
        json_t *content = json_object_get(message, "content");
        if (json_is_string(content))
            put(m, message, "content",
                json_pack("[{s:s, s:O}]", "type", "text", "text", content));
    }
}

static void join_messages(struct pith_chat_mend *m)
{
    json_t *list = json_array(), *message;
    struct run r = {NULL, NULL};
    size_t i;
    bool some = false;
    json_array_foreach (messages_of(m), i, message) {
        const char *role = json_string_value(json_object_get(message, "role"));
        json_t *content = json_object_get(message, "content");
        if (r.message && role && !has_calls(message) && !has_calls(r.message) &&
            is_role(r.message, role) && strcmp(role, "tool") != 0) {
            add(m, r.contents, content ? json_incref(content) : json_null());
            some = true;
            continue;
        }
        end_run(m, &r, "\n\n");
        begin_run(m, &r, message, content);
        add(m, list, json_incref(message));
    }
    end_run(m, &r, "\n\n");
    replace(m, list, some);
}

/* ---- tools ---- */

static void fill_description(struct pith_chat_mend *m, json_t *of)
{
    if (json_is_object(of) && !json_object_get(of, "description"))
        put(m, of, "description", json_string(""));
}

static void fill_tools(struct pith_chat_mend *m)
{
    const char *key;
    json_t *tools = json_object_get(m->given, "tools"), *tool, *property;
    size_t i;
    if (!tools || json_is_null(tools)) {
        put(m, m->given, "tools", json_array());
        return;
    }
    tools = own(m, m->given, "tools");
    json_array_foreach (tools, i, tool) {
        json_t *function = json_object_get(tool, "function");
        json_t *parameters = json_object_get(function ? function : tool, "parameters");
        fill_description(m, function ? function : tool);
        if (function && !json_is_object(parameters)) {
            put(m, function, "parameters",
                json_pack("{s:s, s:{}}", "type", "object", "properties"));
            continue;
        }
        json_object_foreach (json_object_get(parameters, "properties"), key, property)
            fill_description(m, property);
    }
    if (!m->failed && !pith_chat_give_tools(m->given, json_incref(tools), m->traits, m->now))
        m->failed = true;
    json_decref(tools);
}

/* Whether tools are described to a template in words: it knows none, and there are some. */
static bool chat_described(const json_t *given, const struct pith_chat_traits *t)
{
    return !t->tools && json_array_size(json_object_get(given, "tools")) > 0;
}

/* A text behind that of the system message, which is made where there is none. */
static void add_to_system(struct pith_chat_mend *m, json_t *text)
{
    json_t *first = json_array_get(messages_of(m), 0);
    if (!text) {
        m->failed = true;
    } else if (is_role(first, "system")) {
        struct run r = {NULL, NULL};
        begin_run(m, &r, first, json_object_get(first, "content"));
        add(m, r.contents, json_incref(text));
        end_run(m, &r, "\n\n");
    } else if (json_array_insert_new(
                   messages_of(m), 0,
                   json_pack("{s:s, s:O}", "role", "system", "content", text)) != 0) {
        m->failed = true;
    }
    json_decref(text);
}

/* ---- roles ---- */

static void name_roles(struct pith_chat_mend *m)
{
    json_t *message;
    size_t i;
    json_array_foreach (messages_of(m), i, message) {
        if (!m->traits->developer && is_role(message, "developer"))
            put(m, message, "role", json_string("system"));
        if (is_role(message, "function")) put(m, message, "role", json_string("tool"));
    }
}

static void later_systems(struct pith_chat_mend *m)
{
    json_t *message;
    size_t i;
    json_array_foreach (messages_of(m), i, message)
        if (i > 0 && is_role(message, "system")) put(m, message, "role", json_string("user"));
}

/* System messages stand in front of what the user says next. */
static void move_systems(struct pith_chat_mend *m)
{
    json_t *list = json_array(), *message, *texts = json_array();
    size_t i;
    json_array_foreach (messages_of(m), i, message) {
        json_t *content = json_object_get(message, "content");
        if (is_role(message, "system")) {
            add(m, texts, content ? json_incref(content) : json_null());
            continue;
        }
        if (json_array_size(texts) > 0 && is_role(message, "user")) {
            add(m, texts, content ? json_incref(content) : json_null());
            put(m, message, "content", pith_chat_joined(texts, "\n\n"));
        } else if (json_array_size(texts) > 0) {
            add(m, list, json_pack("{s:s, s:o}", "role", "user", "content",
                                   pith_chat_joined(texts, "\n\n")));
        }
        json_array_clear(texts);
        add(m, list, json_incref(message));
    }
    if (json_array_size(texts) > 0)
        add(m, list, json_pack("{s:s, s:o}", "role", "user", "content",
                               pith_chat_joined(texts, "\n\n")));
    json_decref(texts);
    replace(m, list, true);
}

/* ---- the whole ---- */

void pith_chat_fit(struct pith_chat_mend *m)
{
    const struct pith_chat_traits *t = m->traits;
    const bool described = chat_described(m->given, t);
    json_t *tools = json_object_get(m->given, "tools"), *message;
    unsigned all = 0;
    size_t i;
    name_roles(m);
    if (t->flat) join_parts(m);
    if (t->first_system) later_systems(m);
    if (t->single) part_calls(m);
    if (described) add_to_system(m, pith_chat_describe(tools));
    json_array_foreach (messages_of(m), i, message) {
        if (!has_calls(message)) continue;
        const struct pith_call_way *way = &t->calls[content_of(message)];
        if (described) say_call(m, message, PITH_DESCRIBED_OPEN, PITH_DESCRIBED_CLOSE);
        else if (way->text) say_call(m, message, t->open, t->close);
        else if (way->change && !way->fails) all |= write_call(m, message, way->change);
    }
    if (all & PITH_CALL_IDS) shorten_ids(m);
    if ((described || !t->results) && has_role(m, "tool")) say_results(m);
    if (!t->system && has_role(m, "system")) move_systems(m);
    if (t->parts) make_parts(m);
    json_t *given = !described && json_is_array(tools) ? json_incref(tools) : NULL;
    if (!pith_chat_give_tools(m->given, given, t, m->now)) m->failed = true;
    json_decref(given);
}

/* What is changed in a conversation on which its template fails, one after the other until it does
 * not. */
static void (*const mends[])(struct pith_chat_mend *) = {
    write_calls,   /* calls as the template writes them: found once, by trying */
    fill_content,  /* content that is missing or null: the empty string */
    join_parts,    /* content that is a list of parts of text: a text, a line each */
    fill_tools,    /* no tools: an empty list; descriptions: the empty string */
    name_results,  /* the results of functions get the function's name */
    join_messages, /* messages of one role behind each other: one message */
    part_calls,    /* several calls of a message: each in its own, before its result */
    later_systems, /* system messages behind the first place: those of users */
    drop_empty,    /* messages of the model without content and calls: omitted */
    join_messages,
    calls_in_words, /* calls and results: parts of the content */
    join_messages,
};

bool pith_chat_mend(struct pith_chat_mend *m, size_t i)
{
    m->changed = false;
    if (i >= PITH_COUNT(mends)) return false;
    mends[i](m);
    return true;
}
