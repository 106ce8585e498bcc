/* JSON lines: a document a line, in "text" or in the contents of "messages"; blank lines are none.
 */
#include "calib/corpora.h"

#include "base/json.h"

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

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!strchr(" \t\r", line[i]) || line[i] == '\0') return false;
    return true;
}

static enum pith_status read_line(const char *line, size_t size, const char *where,
                                  pith_document_fn *fn, void *ctx, struct pith_error *err)
{
    json_t *j = NULL;
    struct pith_str text = {0};
    enum pith_status s = pith_json_parse(line, size, where, &j, err);
    if (s != PITH_OK) return s;
    const json_t *plain = json_object_get(j, "text");
    const json_t *messages = json_object_get(j, "messages");
    if (json_is_string(plain)) {
        s = fn(ctx, json_string_value(plain), json_string_length(plain), err);
    } else if (json_is_array(messages)) {
        s = join_messages(messages, where, &text, err);
        if (s == PITH_OK && text.failed) s = pith_fail_nomem(err, where);
        if (s == PITH_OK) s = fn(ctx, pith_str_text(&text), text.len, err);
    } else {
        s = pith_fail(err, PITH_FORMAT,
                      "%s: neither \"text\" (a string) nor \"messages\" (an array)", where);
    }
    pith_str_free(&text);
    json_decref(j);
    return s;
}

static enum pith_status read(const char *path, struct pith_door *door, pith_document_fn *fn,
                             void *ctx, struct pith_error *err)
{
    (void)door; /* what ends a line of JSON is no text */
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
        if (!is_blank(at, (size_t)(stop - at)))
            s = read_line(at, (size_t)(stop - at), where, fn, ctx, err);
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
