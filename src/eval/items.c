#include "eval/items.h"

#include "base/json.h"
#include "base/mem.h"
#include "tok/door.h"

#include <stdio.h>
#include <string.h>

/* Where an item is being read from, for messages and limits. */
struct source {
    const char *path;
    const struct pith_tokenizer *tokenizer;
    size_t line, max_length;
    struct pith_str text; /* context and choice */
};

static enum pith_status bad(const struct source *s, struct pith_error *err, const char *what)
{
    return pith_fail(err, PITH_FORMAT, "%s: line %zu: %s", s->path, s->line, what);
}

static void *grow(void *array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap) return array;
    const size_t more = *cap ? *cap * 2 : 64;
    void *p = pith_realloc(array, more, size);
    if (p) *cap = more;
    return p;
}

static enum pith_status add_bos(const struct pith_tokenizer *t, struct pith_ids *ids,
                                struct pith_error *err)
{
    if (!pith_tokenizer_adds_bos(t)) return PITH_OK;
    int32_t *id = grow(ids->id, ids->count, &ids->cap, sizeof *id);
    if (!id) return pith_fail_nomem(err, "the tokens of a task");
    ids->id = id;
    id[ids->count++] = pith_tokenizer_bos(t);
    return PITH_OK;
}

/* Appends BOS (where the tokenizer has one in front) and the text, but no closing token. */
static enum pith_status encode(const struct pith_tokenizer *t, const char *text, size_t size,
                               struct pith_ids *ids, struct pith_error *err)
{
    PITH_TRY(add_bos(t, ids, err));
    return pith_tokenizer_encode(t, text, size, false, ids, err);
}

static enum pith_status add_choice(struct source *s, const json_t *context, const json_t *choice,
                                   size_t context_tokens, struct pith_items *out,
                                   struct pith_error *err)
{
    if (!json_is_string(choice)) return bad(s, err, "a choice is not a string");
    if (json_string_length(choice) == 0) return bad(s, err, "a choice is empty");
    pith_str_clear(&s->text);
    pith_str_append(&s->text, json_string_value(context), json_string_length(context));
    pith_str_append(&s->text, json_string_value(choice), json_string_length(choice));
    if (s->text.failed) return pith_fail_nomem(err, "the text of a task");
    struct pith_item_choice c = {out->ids.count, 0, context_tokens};
    PITH_TRY(encode(s->tokenizer, pith_str_text(&s->text), s->text.len, &out->ids, err));
    c.length = out->ids.count - c.first;
    if (c.length > s->max_length)
        return pith_fail(err, PITH_FORMAT,
                         "%s: line %zu: context and choice have %zu tokens, the model takes %zu",
                         s->path, s->line, c.length, s->max_length);
    if (c.length > out->longest) out->longest = c.length;
    struct pith_item_choice *all = grow(out->choice, out->choices, &out->choice_cap, sizeof *all);
    if (!all) return pith_fail_nomem(err, "the choices of a task");
    out->choice = all;
    all[out->choices++] = c;
    return PITH_OK;
}

static enum pith_status count_context(const struct source *s, const json_t *context, size_t *tokens,
                                      struct pith_error *err)
{
    struct pith_ids ids = {0};
    const enum pith_status status =
        encode(s->tokenizer, json_string_value(context), json_string_length(context), &ids, err);
    *tokens = ids.count;
    pith_ids_free(&ids);
    return status;
}

static enum pith_status add_item(struct source *s, const json_t *j, struct pith_items *out,
                                 struct pith_error *err)
{
    const json_t *context = json_object_get(j, "context"), *choices = json_object_get(j, "choices");
    const json_t *answer = json_object_get(j, "answer");
    if (!json_is_object(j)) return bad(s, err, "not a JSON object");
    if (!json_is_string(context)) return bad(s, err, "\"context\" is missing or not a string");
    if (!json_is_array(choices) || json_array_size(choices) < 2)
        return bad(s, err, "\"choices\" is not a list of two or more");
    if (!json_is_integer(answer)) return bad(s, err, "\"answer\" is missing or not an integer");
    const size_t n = json_array_size(choices);
    const json_int_t a = json_integer_value(answer);
    if (a < 0 || (uint64_t)a >= n)
        return pith_fail(err, PITH_FORMAT, "%s: line %zu: \"answer\" is %lld, outside 0..%zu",
                         s->path, s->line, (long long)a, n - 1);
    size_t context_tokens;
    PITH_TRY(count_context(s, context, &context_tokens, err));
    if (context_tokens == 0) return bad(s, err, "the context has no token to predict from");
    const struct pith_item item = {s->line, out->choices, n, (size_t)a};
    for (size_t i = 0; i < n; i++)
        PITH_TRY(add_choice(s, context, json_array_get(choices, i), context_tokens, out, err));
    struct pith_item *all = grow(out->item, out->count, &out->item_cap, sizeof *all);
    if (!all) return pith_fail_nomem(err, "the items of a task");
    out->item = all;
    all[out->count++] = item;
    return PITH_OK;
}

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!strchr(" \t\r", line[i]) || line[i] == '\0') return false;
    return true;
}

static enum pith_status add_line(struct source *s, const char *line, size_t size,
                                 struct pith_items *out, struct pith_error *err)
{
    char where[300];
    const char *name = strrchr(s->path, '/');
    snprintf(where, sizeof where, "%.250s: line %zu", name ? name + 1 : s->path, s->line);
    json_t *j;
    PITH_TRY(pith_json_parse(line, size, where, &j, err));
    const enum pith_status status = add_item(s, j, out, err);
    json_decref(j);
    return status;
}

static enum pith_status add_lines(struct source *s, const char *text, size_t size, size_t limit,
                                  struct pith_items *out, struct pith_error *err)
{
    for (size_t at = 0; at < size && (limit == 0 || out->count < limit);) {
        const char *stop = memchr(text + at, '\n', size - at);
        const size_t length = stop ? (size_t)(stop - text) - at : size - at;
        s->line++;
        if (!is_blank(text + at, length)) PITH_TRY(add_line(s, text + at, length, out, err));
        at += length + 1;
    }
    if (out->count == 0) return pith_fail(err, PITH_FORMAT, "%s: no items", s->path);
    return PITH_OK;
}

enum pith_status pith_items_parse(const char *text, size_t size,
                                  const struct pith_item_rules *rules, struct pith_items *out,
                                  struct pith_error *err)
{
    *out = (struct pith_items){0};
    struct source s = {.path = rules->path, .tokenizer = rules->tokenizer,
                       .max_length = rules->max_length};
    const enum pith_status status = add_lines(&s, text, size, rules->limit, out, err);
    pith_str_free(&s.text);
    if (status != PITH_OK) pith_items_free(out);
    return status;
}

enum pith_status pith_items_read(const struct pith_item_rules *rules, struct pith_items *out,
                                 struct pith_error *err)
{
    *out = (struct pith_items){0};
    struct pith_text text;
    PITH_TRY(pith_text_open(rules->path, NULL, &text, err));
    const enum pith_status parsed = pith_items_parse(text.data, text.size, rules, out, err);
    const enum pith_status status = pith_text_finish(&text, rules->path, parsed, err);
    if (status != PITH_OK) pith_items_free(out);
    return status;
}

void pith_items_free(struct pith_items *items)
{
    pith_free(items->item);
    pith_free(items->choice);
    pith_ids_free(&items->ids);
    *items = (struct pith_items){0};
}
