#include "tok/chat/traits.h"

#include "base/mem.h"
#include "tok/chat/tools.h"
#include "tok/reply/reply.h"

#include <string.h>

/* Words that no template writes by itself. */
#define TOOL "pith_probe_tool"
#define KEY "pith_probe_key"
#define VALUE "pith_probe_value"
#define SECOND "pith_probe_other"
#define RESULT "pith_probe_result"
#define SYSTEM "pith_probe_system"
#define QUESTION "pith_probe_question"
#define SPOKEN "pith_probe_spoken"

static const char one_tool[] =
    "{\"type\": \"function\", \"function\": {\"name\": \"" TOOL "\", \"description\": \"d\", "
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"" KEY "\": {\"type\": \"string\", "
    "\"description\": \"d\"}}, \"required\": [\"" KEY "\"]}}}";

struct probe {
    const struct pith_jinja *jinja;
    const json_t *own;
    enum pith_status status; /* PITH_NOMEM: nothing more is tried */
    struct pith_error *err;
};

enum outcome { SHOWN, LEFT_OUT, FAILS };

/* Renders a conversation, which is taken: whether a word is in the text. `quoted`: the word is the
 * value of a key, which must be JSON and no text of Python's or within another text. */
static enum outcome look(struct probe *p, json_t *given, const char *word, bool quoted)
{
    struct pith_rendered out = {0};
    struct pith_error why = {0};
    /* More than templates need for a few words; a hostile one is given up soon. */
    const struct pith_jinja_input in = {.own = p->own,
                                        .given = given,
                                        .now = 1,
                                        .steps = 200000,
                                        .memory = (size_t)16 << 20};
    enum pith_status s = given ? PITH_OK : pith_fail_nomem(&why, "a chat template");
    if (s == PITH_OK && p->status == PITH_OK) s = pith_jinja_render(p->jinja, &in, &out, &why);
    json_decref(given);
    if (s == PITH_NOMEM && p->status == PITH_OK) {
        p->status = s;
        if (p->err) *p->err = why;
    }
    enum outcome o = s != PITH_OK || p->status != PITH_OK ? FAILS
                     : strstr(out.text, word)             ? SHOWN
                                                          : LEFT_OUT;
    if (o == SHOWN && quoted &&
        (!strstr(out.text, VALUE) || strstr(out.text, "'" KEY) || strstr(out.text, "\\\"" KEY)))
        o = LEFT_OUT;
    pith_rendered_free(&out);
    return o;
}

static json_t *message(const char *role, const char *content)
{
    return json_pack("{s:s, s:s*}", "role", role, "content", content);
}

/* A conversation of messages, which are taken; with tools of that variable, or with none. */
static json_t *conversation(json_t *messages, const struct pith_chat_traits *t, bool tools)
{
    json_t *list = tools ? json_pack("[o]", json_loads(one_tool, 0, NULL)) : NULL;
    json_t *given = json_pack("{s:o, s:n, s:b}", "messages", messages, "documents",
                              "add_generation_prompt", 1);
    if (given && (!tools || list) && pith_chat_give_tools(given, list, t, 1)) {
        json_decref(list);
        return given;
    }
    json_decref(list);
    json_decref(given);
    return NULL;
}

/* Without tools, or with them where the template fails without. */
static enum outcome look_at(struct probe *p, json_t *messages, const struct pith_chat_traits *t,
                            const char *word)
{
    const bool quoted = strcmp(word, TOOL) == 0;
    enum outcome o = look(p, conversation(json_incref(messages), t, false), word, quoted);
    if (o == FAILS && t->tools) {
        /* The list of tools has the words of a call. */
        json_t *given = conversation(json_incref(messages), t, false);
        if (given && json_object_set_new(given, "tools", json_array()) != 0) {
            json_decref(given);
            given = NULL;
        }
        o = look(p, given, word, quoted);
    }
    json_decref(messages);
    return o;
}

static void find_tools(struct probe *p, const char *text, struct pith_chat_traits *t)
{
    /* Variables by which templates are given tools, the usual one first. */
    static const struct {
        const char *name;
        bool text; /* as JSON in a text */
    } variables[] = {
        {"tools", false},
        {"xml_tools", false},
        {"functions", true},
    };
    for (size_t i = 0; i < PITH_COUNT(variables); i++) {
        if (!strstr(text, variables[i].name)) continue;
        t->tools = variables[i].name;
        t->tools_text = variables[i].text;
        for (int bare = 0; bare < 2; bare++) {
            t->bare = bare != 0;
            json_t *m = json_pack("[o]", message("user", QUESTION));
            if (look(p, conversation(m, t, true), TOOL, false) == SHOWN) return;
            m = json_pack("[o, o]", message("system", SYSTEM), message("user", QUESTION));
            if (look(p, conversation(m, t, true), TOOL, false) == SHOWN) return;
        }
    }
    t->tools = NULL;
    t->tools_text = t->bare = false;
}

/* ---- calls ---- */

static const char *id_of(unsigned change)
{
    return change & PITH_CALL_IDS ? "abcDEF123" : "call_0123456789";
}

static json_t *calling(enum pith_call_content content, unsigned change)
{
    static const char *const contents[PITH_CONTENTS] = {NULL, "", SPOKEN};
    const char *id = id_of(change);
    json_t *m = message("assistant", contents[content]);
    json_t *arguments = change & PITH_CALL_ARGUMENTS
                            ? json_string("{\"" KEY "\": \"" VALUE "\"}")
                            : json_pack("{s:s}", KEY, VALUE);
    json_t *calls = json_pack("[{s:s, s:s, s:{s:s, s:o}}]", "id", id, "type", "function",
                              "function", "name", TOOL, "arguments", arguments);
    if (change & PITH_CALL_EMPTY) pith_json_set(&m, "content", json_string(""));
    if (change & PITH_CALL_NULL) pith_json_set(&m, "content", json_null());
    pith_json_set(&m, "tool_calls", calls);
    return m;
}

static json_t *result(unsigned change, const char *content)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "role", "tool", "name", TOOL, "content", content,
                     "tool_call_id", id_of(change));
}

/* Some templates write a call only behind which its result stands, others have no results. */
static enum outcome look_at_call(struct probe *p, const struct pith_chat_traits *t,
                                 enum pith_call_content content, unsigned change)
{
    json_t *m = json_pack("[o, o, o]", message("user", QUESTION), calling(content, change),
                          result(change, RESULT));
    const enum outcome o = look_at(p, m, t, TOOL);
    if (o == SHOWN) return o;
    m = json_pack("[o, o]", message("user", QUESTION), calling(content, change));
    return look_at(p, m, t, TOOL);
}

/* The change that is least, of those that make the template write a call. */
static struct pith_call_way find_way(struct probe *p, const struct pith_chat_traits *t,
                                     enum pith_call_content content)
{
    static const unsigned contents[] = {0, PITH_CALL_EMPTY, PITH_CALL_NULL},
                          others[] = {0, PITH_CALL_ARGUMENTS, PITH_CALL_IDS,
                                      PITH_CALL_ARGUMENTS | PITH_CALL_IDS};
    struct pith_call_way way = {.text = false};
    for (size_t k = 0; k < PITH_COUNT(others); k++) {
        for (size_t i = 0; i < PITH_COUNT(contents); i++) {
            if (contents[i] && content == PITH_CONTENT_TEXT) break;
            if (contents[i] == PITH_CALL_EMPTY && content == PITH_CONTENT_EMPTY) continue;
            way.change = contents[i] | others[k];
            const enum outcome o = look_at_call(p, t, content, way.change);
            if (way.change == 0) way.fails = o == FAILS;
            if (o == SHOWN) return way;
        }
    }
    return (struct pith_call_way){.text = true};
}

static void find_calls(struct probe *p, const char *text, struct pith_chat_traits *t)
{
    for (int i = 0; i < PITH_CONTENTS; i++)
        t->calls[i] = strstr(text, "tool_calls") ? find_way(p, t, (enum pith_call_content)i)
                                                 : (struct pith_call_way){.text = true};
}

/* What a function gave back, behind its call as it is written. */
static void find_results(struct probe *p, struct pith_chat_traits *t)
{
    const struct pith_call_way *way = &t->calls[PITH_CONTENT_NONE];
    json_t *call = way->text ? message("assistant", SPOKEN)
                             : calling(PITH_CONTENT_NONE, way->change);
    json_t *m =
        json_pack("[o, o, o]", message("user", QUESTION), call, result(way->change, RESULT));
    t->results = look_at(p, m, t, RESULT) == SHOWN;
    if (way->text || !t->results) return;
    /* The second of two calls. */
    call = calling(PITH_CONTENT_NONE, way->change);
    json_t *two = json_deep_copy(json_object_get(call, "tool_calls"));
    json_t *other = json_object_get(json_array_get(two, 0), "function");
    if (!two || json_object_set_new(other, "name", json_string(SECOND)) != 0 ||
        json_array_extend(json_object_get(call, "tool_calls"), two) != 0) {
        json_decref(call);
        call = NULL;
    }
    json_decref(two);
    m = json_pack("[o, o, o, o]", message("user", QUESTION), call, result(way->change, RESULT),
                  result(way->change, RESULT));
    t->single = look_at(p, m, t, SECOND) == LEFT_OUT;
}

/* ---- the rest ---- */

static json_t *message_in_parts(const char *text)
{
    return json_pack("{s:s, s:[{s:s, s:s}]}", "role", "user", "content", "type", "text", "text",
                     text);
}

static void find_content(struct probe *p, struct pith_chat_traits *t)
{
    const bool text = look_at(p, json_pack("[o]", message("user", QUESTION)), t, QUESTION) == SHOWN;
    const enum outcome parts =
        look_at(p, json_pack("[o]", message_in_parts(QUESTION)), t, QUESTION);
    t->parts = !text && parts == SHOWN;
    t->flat = text && parts == LEFT_OUT;
}

/* Which messages of a system are written, in a word of the first and of a later one. */
static void find_systems(struct probe *p, struct pith_chat_traits *t)
{
    json_t *m = json_pack("[o, o]", message("system", SYSTEM), message("user", QUESTION));
    const bool shown = look_at(p, m, t, SYSTEM) == SHOWN;
    t->system = t->parts || shown;
    if (t->developer) {
        m = json_pack("[o, o]", message("developer", SYSTEM), message("user", QUESTION));
        t->developer = look_at(p, m, t, SYSTEM) == SHOWN;
    }
    const char *const words[] = {SYSTEM, SECOND};
    for (size_t i = 0; i < 2 && t->system && !t->parts; i++) {
        m = json_pack("[o, o, o, o, o]", message("system", SYSTEM), message("user", QUESTION),
                      message("assistant", SPOKEN), message("system", SECOND),
                      message("user", QUESTION));
        t->first_system |= look_at(p, m, t, words[i]) == LEFT_OUT;
    }
}

bool pith_chat_mentions(const char *text, const char *word)
{
    const size_t size = strlen(word);
    for (const char *at = text; size && (at = strstr(at, word)) != NULL; at += size)
        if (at > text && strchr("'\"", at[-1]) && at[size] == at[-1]) return true;
    return false;
}

enum pith_status pith_chat_traits_of(const struct pith_jinja *jinja, const char *text,
                                     const json_t *own, struct pith_chat_traits *out,
                                     struct pith_error *err)
{
    struct probe p = {.jinja = jinja, .own = own, .err = err};
    *out = (struct pith_chat_traits){.developer = pith_chat_mentions(text, "developer")};
    pith_reply_call_marks(text, &out->open, &out->close);
    find_tools(&p, text, out);
    find_content(&p, out);
    find_systems(&p, out);
    find_calls(&p, text, out);
    find_results(&p, out);
    return p.status;
}
