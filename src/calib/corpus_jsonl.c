/* JSON lines: a document a line, in "text" or in "messages"; blank lines are none. What ends a line
 * is no text. */
#include "calib/corpora.h"

#include "base/json.h"
#include "base/str.h"
#include "tok/chat/chat.h"

#include <stdio.h>
#include <string.h>

static bool takes(const char *path)
{
    const size_t n = strlen(path);
    return n > 6 &&
           (strcmp(path + n - 6, ".jsonl") == 0 || (n > 7 && strcmp(path + n - 7, ".ndjson") == 0));
}

static enum pith_status join_messages(const json_t *messages, const char *where,
                                      struct pith_str *text, struct pith_error *err)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *content =
            json_string_value(json_object_get(json_array_get(messages, i), "content"));
        if (!content)
            return pith_fail(err, PITH_FORMAT, "%s: message %zu has no \"content\" string", where,
                             i);
        if (text->len) pith_str_puts(text, "\n\n");
        pith_str_puts(text, content);
    }
    return PITH_OK;
}

/* The time in prompts that state one: the same bytes whenever a model is calibrated. It is noon of
 * 2025-01-01, UTC. */
enum { THE_TIME = 1735732800 };

/* A conversation by the model's chat template; *done false: it has none. */
static enum pith_status render(const json_t *line, struct pith_reading *to, bool *done,
                               struct pith_error *err)
{
    struct pith_rendered r = {0};
    *done = false;
    if (to->model && !to->looked_up) PITH_TRY(pith_chat_open(to->model, NULL, &to->chat, err));
    to->looked_up = true;
    if (!to->chat) return PITH_OK;
    *done = true;
    to->rendered++;
    enum pith_status s = pith_chat_render(to->chat, line, THE_TIME, &r, err);
    if (s == PITH_OK) s = to->prompt(to->ctx, &r, err);
    pith_rendered_free(&r);
    return s;
}

static enum pith_status read_messages(const json_t *line, const char *where,
                                      struct pith_reading *to, struct pith_error *err)
{
    struct pith_str text = {0};
    bool done;
    enum pith_status s = render(line, to, &done, err);
    if (s != PITH_OK) return pith_fail_in(err, s, where);
    if (done) return PITH_OK;
    to->joined++;
    s = join_messages(json_object_get(line, "messages"), where, &text, err);
    if (s == PITH_OK && text.failed) s = pith_fail_nomem(err, where);
    if (s == PITH_OK) s = to->document(to->ctx, pith_str_text(&text), text.len, err);
    pith_str_free(&text);
    return s;
}

static enum pith_status read_line(const char *line, size_t size, const char *where,
                                  struct pith_reading *to, struct pith_error *err)
{
    json_t *j = NULL;
    enum pith_status s = pith_json_parse(line, size, where, &j, err);
    if (s != PITH_OK) return s;
    const json_t *plain = json_object_get(j, "text");
    const json_t *messages = json_object_get(j, "messages");
    if (json_is_string(plain)) {
        s = to->document(to->ctx, json_string_value(plain), json_string_length(plain), err);
    } else if (json_is_array(messages)) {
        s = read_messages(j, where, to, err);
    } else {
        s = pith_fail(err, PITH_FORMAT,
                      "%s: neither \"text\" (a string) nor \"messages\" (an array)", where);
    }
    json_decref(j);
    return s;
}

static enum pith_status read(const char *path, struct pith_reading *to, struct pith_error *err)
{
    struct pith_text file;
    PITH_TRY(pith_text_open(path, NULL, &file, err));
    enum pith_status s = PITH_OK;
    const char *at = file.data;
    const char *const end = at + file.size;
    for (size_t number = 1; at < end && s == PITH_OK; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        char where[512];
        snprintf(where, sizeof where, "%s, line %zu", path, number);
        if (!pith_is_blank(at, (size_t)(stop - at)))
            s = read_line(at, (size_t)(stop - at), where, to, err);
        at = stop + 1;
    }
    return pith_text_finish(&file, path, s, err);
}

const struct pith_corpus pith_corpus_jsonl = {
    .name = "jsonl",
    .summary = "JSON lines with \"text\" or \"messages\", a document a line",
    .takes = takes,
    .read = read,
};
