#include "tok/chat/chat.h"

#include "base/file.h"
#include "base/mem.h"
#include "io/gguf/model.h"
#include "tok/chat/mend.h"
#include "tok/chat/templates.h"
#include "tok/chat/traits.h"
#include "tok/component.h"
#include "tok/kind.h"

#include <string.h>
#include <time.h>

enum { MOST_FILE = 4 << 20 };

struct template {
    struct pith_jinja *jinja;
    char *text;
    struct pith_chat_traits traits;
};
struct pith_chat {
    struct template usual, tools; /* tools: empty: the usual one */
    json_t *special;
};

void pith_chat_close(struct pith_chat *c)
{
    if (!c) return;
    pith_jinja_free(c->usual.jinja);
    pith_jinja_free(c->tools.jinja);
    pith_free(c->usual.text);
    pith_free(c->tools.text);
    json_decref(c->special);
    pith_free(c);
}

static enum pith_status read_template(const char *text, size_t size, const char *where,
                                      struct template *out, struct pith_error *err)
{
    const enum pith_status s = pith_jinja_new(text, size, &out->jinja, err);
    if (s != PITH_OK) return where ? pith_fail_in(err, s, where) : s;
    out->text = pith_strndup(text, size);
    return out->text ? PITH_OK : pith_fail_nomem(err, "a chat template");
}

static enum pith_status read_file(const char *path, struct template *out, struct pith_error *err)
{
    char *text;
    size_t size;
    PITH_TRY(pith_file_read(path, MOST_FILE, &text, &size, err));
    const enum pith_status s = read_template(text, size, path, out, err);
    pith_free(text);
    return s;
}

/* What it has under that name, if anything. */
static enum pith_status take(const struct pith_templates *t, const char *name, struct template *out,
                             struct pith_error *err)
{
    const json_t *text = json_object_get(t->text, name);
    if (!text) return PITH_OK;
    return read_template(json_string_value(text), json_string_length(text),
                         json_string_value(json_object_get(t->where, name)), out, err);
}

/* The usual template, and that for tools. */
static enum pith_status read_templates(struct pith_chat *c, const char *model,
                                       struct pith_error *err)
{
    struct pith_templates t;
    PITH_TRY(pith_templates_read(model, &t, err));
    enum pith_status s = take(&t, "default", &c->usual, err);
    if (s == PITH_OK) s = take(&t, "tool_use", &c->tools, err);
    pith_templates_free(&t);
    return s;
}

/* ---- special tokens ---- */

/* "bos_token": "<s>" or {"content": "<s>"} of a file, where it is not known yet. */
static void take_special(struct pith_chat *c, const json_t *config)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        const json_t *v = pith_component_token(json_object_get(config, names[i]));
        if (v && !json_object_get(c->special, names[i]))
            pith_json_set(&c->special, names[i], json_incref((json_t *)(uintptr_t)v));
    }
}

static void take_id(struct pith_chat *c, const struct pith_tokenizer *t, const char *name,
                    int32_t id)
{
    size_t len = 0;
    const char *text = id < 0 ? NULL : t->kind->token(t->model, id, false, &len);
    /* Where spaces become marks, one may stand before what is found in a text without. */
    static const char mark[] = "\xe2\x96\x81";
    if (text && len > 3 && memcmp(text, mark, 3) == 0 &&
        t->kind->find(t->model, text + 3, len - 3) == id) {
        text += 3;
        len -= 3;
    }
    if (text) pith_json_set(&c->special, name, json_stringn(text, len));
}

/* Of a model without tokenizer_config.json: what its tokenizer begins and ends a text with. */
static enum pith_status ask_tokenizer(struct pith_chat *c, const char *model,
                                      struct pith_error *err)
{
    bool present = false;
    struct pith_tokenizer *t = NULL;
    PITH_TRY(pith_tokenizer_present(model, &present, err));
    if (!present) return PITH_OK;
    PITH_TRY(pith_tokenizer_open(model, &t, err));
    take_id(c, t, "bos_token", t->bos);
    take_id(c, t, "eos_token", t->eos);
    pith_tokenizer_close(t);
    return PITH_OK;
}

static enum pith_status take_specials(struct pith_chat *c, const char *dir, struct pith_error *err)
{
    json_t *config = NULL, *map = NULL;
    enum pith_status s = pith_component_file(dir, "tokenizer_config.json", &config, err);
    if (s == PITH_OK) s = pith_component_file(dir, "special_tokens_map.json", &map, err);
    const bool newer = json_object_get(config, "added_tokens_decoder") != NULL;
    take_special(c, newer ? config : map); /* as the tokenizer has it: tok/special.h */
    take_special(c, newer ? map : config);
    if (s == PITH_OK && !config && !map) s = ask_tokenizer(c, dir, err);
    json_decref(config);
    json_decref(map);
    return s;
}

/* What its templates can take. */
static enum pith_status find_traits(struct pith_chat *c, struct pith_error *err)
{
    struct template *const both[] = {&c->usual, &c->tools};
    for (size_t i = 0; i < PITH_COUNT(both); i++)
        if (both[i]->jinja)
            PITH_TRY(pith_chat_traits_of(both[i]->jinja, both[i]->text, c->special,
                                         &both[i]->traits, err));
    return PITH_OK;
}

enum pith_status pith_chat_open(const char *model, const char *file, struct pith_chat **out,
                                struct pith_error *err)
{
    struct pith_chat *c = pith_zalloc(1, sizeof *c);
    char *gguf = NULL;
    *out = NULL;
    if (!c) return pith_fail_nomem(err, "a chat template");
    c->special = json_object();
    enum pith_status s = file ? read_file(file, &c->usual, err) : read_templates(c, model, err);
    if (s == PITH_OK) s = pith_gguf_at(model, &gguf, err);
    if (s == PITH_OK) s = gguf ? ask_tokenizer(c, gguf, err) : take_specials(c, model, err);
    pith_free(gguf);
    if (s == PITH_OK && !c->special) s = pith_fail_nomem(err, "special tokens");
    if (s == PITH_OK) s = find_traits(c, err);
    if (s == PITH_OK && c->usual.jinja) *out = c;
    else pith_chat_close(c);
    return s;
}

enum pith_status pith_chat_from(const char *text, size_t size, const json_t *special,
                                struct pith_chat **out, struct pith_error *err)
{
    struct pith_chat *c = pith_zalloc(1, sizeof *c);
    if (!c) return pith_fail_nomem(err, "a chat template");
    c->special = special ? json_deep_copy(special) : json_object();
    enum pith_status s = c->special ? read_template(text, size, NULL, &c->usual, err)
                                    : pith_fail_nomem(err, "special tokens");
    if (s == PITH_OK) s = find_traits(c, err);
    if (s == PITH_OK) *out = c;
    else pith_chat_close(c);
    return s;
}

const char *pith_chat_text(const struct pith_chat *c, bool tools)
{
    return tools ? c->tools.text : c->usual.text;
}

const char *pith_chat_token(const struct pith_chat *c, const char *name)
{
    return json_string_value(json_object_get(c->special, name));
}

/* ---- conversations ---- */

/* A message as templates see it; NULL when memory is out. */
static json_t *message_of(const json_t *m)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *out = json_object(), *reasoning = NULL, *value;
    const char *key;
    size_t size;
    for (size_t i = 0; i < PITH_COUNT(names) && !reasoning; i++) {
        reasoning = json_object_get(m, names[i]);
        if (json_is_null(reasoning)) reasoning = NULL;
    }
    if (reasoning) pith_json_set(&out, "thinking", json_incref(reasoning));
    json_object_keylen_foreach ((json_t *)(uintptr_t)m, key, size, value)
        if (!json_is_null(value) && !memchr(key, '\0', size))
            pith_json_set(&out, key, json_incref(value));
    if (reasoning) pith_json_set(&out, "reasoning_content", json_incref(reasoning));
    return out;
}

static enum pith_status prepare(const json_t *conversation, json_t **out, struct pith_error *err)
{
    const json_t *m = json_is_array(conversation) ? conversation
                                                  : json_object_get(conversation, "messages");
    json_t *messages = json_array(), *one;
    size_t i;
    if (!json_is_array(m)) {
        json_decref(messages);
        return pith_fail(err, PITH_FORMAT, "a conversation has \"messages\", a list");
    }
    json_array_foreach (m, i, one) {
        if (!json_is_object(one) || pith_json_marked_text(one)) {
            json_decref(messages);
            return pith_fail(err, PITH_FORMAT, "message %zu is no object", i);
        }
        pith_json_add(&messages, message_of(one));
    }
    *out = json_object();
    pith_json_set(out, "tools", json_null());
    pith_json_set(out, "documents", json_null());
    pith_json_set(out, "add_generation_prompt", json_false());
    if (*out && json_is_object(conversation) &&
        json_object_update(*out, (json_t *)(uintptr_t)conversation) != 0) {
        json_decref(*out);
        *out = NULL;
    }
    pith_json_set(out, "messages", messages);
    return *out ? PITH_OK : pith_fail_nomem(err, "a conversation");
}

/* The template of conversations with tools, or without. */
static const struct template *template_for(const struct pith_chat *c, bool tools)
{
    return tools && c->tools.jinja ? &c->tools : &c->usual;
}

bool pith_chat_knows_tools(const struct pith_chat *c)
{
    return template_for(c, true)->traits.tools != NULL;
}

enum pith_status pith_chat_roles(const struct pith_chat *c, const json_t *conversation,
                                 struct pith_error *err)
{
    static const char *const usual[] = {"system", "developer", "user",
                                        "assistant", "tool", "function"};
    const json_t *list = json_is_array(conversation) ? conversation
                                                     : json_object_get(conversation, "messages"),
                 *one;
    size_t i;
    json_array_foreach (list, i, one) {
        const char *role = json_string_value(json_object_get(one, "role"));
        bool known = !role;
        for (size_t k = 0; k < PITH_COUNT(usual) && !known; k++)
            known = strcmp(role, usual[k]) == 0;
        if (known || pith_chat_mentions(c->usual.text, role) ||
            (c->tools.text && pith_chat_mentions(c->tools.text, role)))
            continue;
        return pith_fail(err, PITH_FORMAT,
                         "messages[%zu]: there is no role '%.40s'; roles are system, developer, "
                         "user, assistant and tool",
                         i, role);
    }
    return PITH_OK;
}

/* Renders what is given; after a failure as it is mended, as long as there is something to mend.
 * The failure that is reported is the first one. */
static enum pith_status render_mended(const struct template *t, const struct pith_jinja_input *in,
                                      struct pith_chat_mend *m, struct pith_rendered *out,
                                      struct pith_error *err)
{
    enum pith_status s = pith_jinja_render(t->jinja, in, out, err);
    const enum pith_status first = s;
    for (size_t i = 0; s == PITH_FORMAT && pith_chat_mend(m, i); i++) {
        struct pith_error why = {0};
        if (m->failed) {
            if (err) *err = why;
            return pith_fail_nomem(err, "a conversation");
        }
        if (!m->changed) continue;
        s = pith_jinja_render(t->jinja, in, out, &why);
        if (err && (s == PITH_OK || s == PITH_NOMEM)) *err = why;
        if (s == PITH_NOMEM) return s;
    }
    return s == PITH_OK ? s : first;
}

/* Cuts off what the template writes behind the content of the last message. Templates trim what
 * they write: the end of the content is its last letter, or the blanks behind it that are there. */
static enum pith_status leave_open(const json_t *given, struct pith_rendered *out,
                                   struct pith_error *err)
{
    static const char blanks[] = " \t\r\n";
    const json_t *list = json_object_get(given, "messages");
    const size_t count = json_array_size(list);
    const json_t *last = json_object_get(json_array_get(list, count ? count - 1 : 0), "content");
    const char *text = json_string_value(last);
    if (json_is_true(json_object_get(given, "add_generation_prompt")))
        return pith_fail(err, PITH_FORMAT,
                         "continue_final_message and add_generation_prompt exclude each other");
    const size_t skip = text ? strspn(text, blanks) : 0, all = text ? strlen(text) : 0;
    size_t n = all - skip;
    while (n > 0 && strchr(blanks, text[skip + n - 1])) n--;
    for (size_t at = n > 0 && out->size >= n ? out->size - n + 1 : 0; at-- > 0;) {
        if (memcmp(out->text + at, text + skip, n) != 0 || !out->marks || !out->marks[at])
            continue;
        size_t end = at + n;
        while (end - at < all - skip && end < out->size && out->text[end] == text[skip + end - at])
            end++;
        out->text[end] = '\0';
        out->size = end;
        return PITH_OK;
    }
    return pith_fail(err, PITH_FORMAT,
                     "continue_final_message: the last message has no content that the template "
                     "writes");
}

enum pith_status pith_chat_render(const struct pith_chat *c, const json_t *conversation,
                                  int64_t now, struct pith_rendered *out, struct pith_error *err)
{
    json_t *given = NULL;
    PITH_TRY(prepare(conversation, &given, err));
    const struct template *t =
        template_for(c, !json_is_null(json_object_get(given, "tools")));
    const struct pith_jinja_input in = {
        .own = c->special, .given = given, .now = now ? now : (int64_t)time(NULL)};
    struct pith_chat_mend m = {.given = given, .traits = &t->traits, .now = in.now};
    pith_chat_fit(&m);
    enum pith_status s = m.failed ? pith_fail_nomem(err, "a conversation")
                                  : render_mended(t, &in, &m, out, err);
    if (s == PITH_OK && json_is_true(json_object_get(given, "continue_final_message"))) {
        s = leave_open(given, out, err);
        if (s != PITH_OK) pith_rendered_free(out);
    }
    json_decref(given);
    return s == PITH_OK ? s : pith_fail_in(err, s, "the chat template");
}
