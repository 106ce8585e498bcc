/* Finding the form of a task file, its answers and its examples. */
#include "eval/task/questions.h"

#include "base/mem.h"
#include "base/names.h"
#include "eval/task/synthetic_tasks.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* A form is in question when the wish names none, or it. */
static bool is_wanted(const struct pith_task_form *f, const char *name, size_t size)
{
    return !name || (strlen(f->name) == size && strncasecmp(f->name, name, size) == 0);
}

/* "arc" of "arc:FILE" when that names a form; *path is what follows. */
static const char *split_name(const char **path, size_t *size)
{
    const char *start = *path, *colon = strchr(start, ':');
    if (!colon) return NULL;
    *size = (size_t)(colon - start);
    for (const struct pith_task_form *f = pith_task_forms; f->name; f++)
        if (is_wanted(f, start, *size)) {
            *path = colon + 1;
            return start;
        }
    return NULL;
}

/* The i-th name of a form; those of a name stand one behind the other. */
static const char *form_name(size_t i)
{
    const struct pith_task_form *f = pith_task_forms;
    for (; f->name; f++) {
        if (f[1].name && strcmp(f[0].name, f[1].name) == 0) continue;
        if (i-- == 0) return f->name;
    }
    return pith_made_name(i);
}

/* Why there is nothing at a path: a name of no form before the colon, or a form without a file. */
static enum pith_status nothing_there(const char *path, struct pith_error *err)
{
    char name[32];
    size_t ignored;
    const size_t n = strcspn(path, ":"), letters = strcspn(path, ":/.\\");
    for (const struct pith_task_form *f = pith_task_forms; f->name; f++)
        if (is_wanted(f, path, strlen(path)))
            return pith_fail(err, PITH_IO,
                             "%s: no such file or folder; tasks are not downloaded: "
                             "name where it lies, %s:PATH",
                             path, path);
    if (!path[n] || letters != n || n >= sizeof name)
        return pith_fail(err, PITH_IO, "%s: no such file or folder", path);
    memcpy(name, path, n);
    name[n] = '\0';
    if (pith_made_find(name, &ignored))
        return pith_fail(err, PITH_ARG, "%s: behind the colon stands a length in tokens, %s:4096",
                         path, name);
    return pith_fail_name(err, "task", name, form_name);
}

static bool has_keys(const json_t *j, const char *keys)
{
    char key[32];
    for (const char *at = keys; *at;) {
        const size_t n = strcspn(at, " ");
        memcpy(key, at, n);
        key[n] = '\0';
        if (!json_object_get(j, key)) return false;
        at += n + (at[n] == ' ');
    }
    return true;
}

static bool fits(const struct pith_task_form *f, const struct pith_records *r, bool named)
{
    if (f->keys && !has_keys(r->json, f->keys)) return false;
    return !f->probe || (named && f->keys) || f->probe(r);
}

static bool looks_like_json(const struct pith_records *text)
{
    for (size_t i = 0; i < text->size; i++)
        if (!isspace((unsigned char)text->text[i])) return text->text[i] == '{';
    return false;
}

static enum pith_status no_form(const char *path, const char *name, size_t size,
                                struct pith_error *err)
{
    struct pith_str names = {0};
    pith_task_form_names(&names);
    const enum pith_status s =
        name ? pith_fail(err, PITH_FORMAT, "%s: not in a form of %.*s", path, (int)size, name)
             : pith_fail(err, PITH_FORMAT,
                         "%s: line 1: not valid JSON with the keys of a task, nor another form of "
                         "one: %s (docs/measuring.md lists them)",
                         path, pith_str_text(&names));
    pith_str_free(&names);
    return s;
}

/* The first form that fits the first record; PITH_OK and NULL when none does. */
static enum pith_status find_form(const struct pith_records *text, const char *name, size_t size,
                                  const struct pith_task_form **out, struct pith_error *err)
{
    const bool json = looks_like_json(text);
    *out = NULL;
    for (const struct pith_task_form *f = pith_task_forms; f->name && !*out; f++) {
        if (!is_wanted(f, name, size) || (f->cut == PITH_CUT_JSON) != json) continue;
        struct pith_records r = {
            .path = text->path, .text = text->text, .size = text->size, .cut = f->cut};
        struct pith_error why = {0};
        bool more;
        const enum pith_status s = pith_records_next(&r, &more, &why);
        if (s == PITH_OK && more && fits(f, &r, name != NULL)) *out = f;
        pith_records_free(&r);
        if (s == PITH_NOMEM || (s != PITH_OK && json)) {
            if (err) *err = why;
            return s;
        }
    }
    return PITH_OK;
}

static bool is_empty(const struct pith_records *text)
{
    for (size_t i = 0; i < text->size; i++)
        if (!strchr(" \t\r\n", text->text[i]) || !text->text[i]) return false;
    return true;
}

/* '0' or '1' on each line. */
static enum pith_status read_labels(const char *path, struct pith_str *out, struct pith_error *err)
{
    struct pith_task_text t;
    PITH_TRY(pith_task_text_open(path, &t, err));
    enum pith_status s = PITH_OK;
    size_t line = 0;
    for (size_t i = 0; i < t.size && s == PITH_OK;) {
        const char *at = t.text + i, *stop = memchr(at, '\n', t.size - i);
        const size_t size = stop ? (size_t)(stop - at) : t.size - i;
        const size_t n = size && at[size - 1] == '\r' ? size - 1 : size;
        line++;
        if (n == 1 && (*at == '0' || *at == '1')) pith_str_putc(out, *at);
        else s = pith_fail(err, PITH_FORMAT, "%s: line %zu: not 0 or 1", path, line);
        i += size + (stop != NULL);
    }
    if (s == PITH_OK && out->failed) s = pith_fail_nomem(err, "the answers of a task");
    return pith_task_text_finish(&t, path, s, err);
}

/* The answers to "valid.jsonl" in "valid-labels.lst" next to it; nothing when there is none. */
static enum pith_status find_labels(const struct pith_task_form *f, const char *path,
                                    struct pith_str *out, struct pith_error *err)
{
    struct pith_str name = {0};
    if (!f->labels) return PITH_OK;
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    pith_str_append(&name, path, dot ? (size_t)(dot - path) : strlen(path));
    pith_str_puts(&name, f->labels);
    enum pith_status s = PITH_OK;
    if (name.failed) s = pith_fail_nomem(err, path);
    else if (pith_path_exists(name.data)) s = read_labels(name.data, out, err);
    pith_str_free(&name);
    return s;
}

static enum pith_status read_all(const struct pith_task_form *f, struct pith_records *r,
                                 const char *labels, size_t limit, struct pith_questions *out,
                                 struct pith_error *err)
{
    struct pith_asking a = {
        .form = f, .labels = labels, .out = out, .label_count = labels ? strlen(labels) : 0};
    r->cut = f->cut;
    PITH_TRY(pith_questions_read(r, &a, limit, err));
    if (!limit && a.label_count > out->count)
        return pith_fail(err, PITH_FORMAT,
                         "%s: %zu questions, but %zu answers in the file next to it", r->path,
                         out->count, a.label_count);
    return PITH_OK;
}

/* The whole file as one subject, whose examples are its own questions until others are found. */
static enum pith_status read_subject(struct pith_task_source *s, struct pith_records *r,
                                     const char *labels, const struct pith_task_wish *wish,
                                     struct pith_error *err)
{
    PITH_TRY(read_all(s->form, r, labels, wish->shots ? 0 : wish->limit, &s->questions, err));
    struct pith_subject *only = pith_subject_add(s, err);
    if (!only) return PITH_NOMEM;
    only->count = only->pool_count = s->questions.count;
    if (wish->limit && wish->limit < only->count) only->count = wish->limit;
    s->own_examples = true;
    return PITH_OK;
}

static enum pith_status parse(const struct pith_records *text, const char *labels, const char *name,
                              size_t size, const struct pith_task_wish *wish,
                              struct pith_task_source *out, struct pith_error *err)
{
    *out = (struct pith_task_source){0};
    if (is_empty(text)) return pith_fail(err, PITH_FORMAT, "%s: no items", text->path);
    PITH_TRY(find_form(text, name, size, &out->form, err));
    if (!out->form) return no_form(text->path, name, size, err);
    struct pith_str answers = {0};
    struct pith_records r = {.path = text->path, .text = text->text, .size = text->size};
    enum pith_status s = PITH_OK;
    if (!labels) s = find_labels(out->form, text->path, &answers, err);
    if (s == PITH_OK) s = read_subject(out, &r, labels ? labels : answers.data, wish, err);
    pith_records_free(&r);
    pith_str_free(&answers);
    if (s != PITH_OK) pith_task_source_free(out);
    return s;
}

enum pith_status pith_task_source_parse(const struct pith_records *text, const char *labels,
                                        const struct pith_task_wish *wish,
                                        struct pith_task_source *out, struct pith_error *err)
{
    return parse(text, labels ? labels : "", NULL, 0, wish, out, err);
}

/* "train.jsonl" for "valid.jsonl", in the same folder; *name stays empty when the path names no
 * split. */
static void name_training_file(const char *path, struct pith_str *name)
{
    static const char *const splits[] = {"validation", "valid", "val", "tests", "test", "dev",
                                         "Validation", "Valid", "Val", "Tests", "Test", "Dev"};
    const char *base = pith_name_of_path(path);
    for (size_t i = 0; i < PITH_COUNT(splits); i++) {
        const size_t n = strlen(splits[i]);
        for (const char *at = strstr(base, splits[i]); at; at = strstr(at + 1, splits[i])) {
            const bool whole = (at == base || !isalpha((unsigned char)at[-1])) &&
                               !isalpha((unsigned char)at[n]);
            if (!whole) continue;
            pith_str_append(name, path, (size_t)(at - path));
            pith_str_puts(name, isupper((unsigned char)*at) ? "Train" : "train");
            pith_str_puts(name, at + n);
            return;
        }
    }
}

static enum pith_status read_examples(struct pith_task_source *s, const char *path,
                                      struct pith_error *err)
{
    struct pith_task_text t;
    struct pith_str labels = {0};
    PITH_TRY(pith_task_text_open(path, &t, err));
    struct pith_records r = {.path = path, .text = t.text, .size = t.size};
    enum pith_status status = find_labels(s->form, path, &labels, err);
    if (status == PITH_OK) status = read_all(s->form, &r, labels.data, 0, &s->examples, err);
    s->own_examples = false;
    s->subject[0].pool = 0;
    s->subject[0].pool_count = s->examples.count;
    pith_records_free(&r);
    pith_str_free(&labels);
    return pith_task_text_finish(&t, path, status, err);
}

static enum pith_status open_file(const struct pith_task_wish *wish, const char *name, size_t size,
                                  struct pith_task_source *out, struct pith_error *err)
{
    struct pith_task_text t;
    PITH_TRY(pith_task_text_open(wish->path, &t, err));
    const struct pith_records text = {.path = wish->path, .text = t.text, .size = t.size};
    enum pith_status s = parse(&text, NULL, name, size, wish, out, err);
    s = pith_task_text_finish(&t, wish->path, s, err);
    if (s != PITH_OK) {
        pith_task_source_free(out);
        return s;
    }
    if (out->form->flags & PITH_TASK_FOLDER) {
        const struct pith_task_form *form = out->form;
        pith_task_source_free(out);
        out->form = form;
        s = pith_mmlu_read(wish, false, out, err);
    } else if (wish->shots) {
        struct pith_str train = {0};
        name_training_file(wish->path, &train);
        if (train.failed) s = pith_fail_nomem(err, wish->path);
        else if (train.len && pith_path_exists(train.data)) s = read_examples(out, train.data, err);
        pith_str_free(&train);
    }
    if (s != PITH_OK) pith_task_source_free(out);
    return s;
}

static enum pith_status open_folder(const struct pith_task_wish *wish, const char *name,
                                    size_t size, struct pith_task_source *out,
                                    struct pith_error *err)
{
    for (const struct pith_task_form *f = pith_task_forms; f->name; f++) {
        if (!is_wanted(f, name, size) || !(f->flags & PITH_TASK_FOLDER)) continue;
        *out = (struct pith_task_source){.form = f};
        const enum pith_status s = pith_mmlu_read(wish, true, out, err);
        if (s != PITH_OK) pith_task_source_free(out);
        return s;
    }
    return pith_fail(err, PITH_FORMAT, "%s: a folder; %.*s is in a file", wish->path, (int)size,
                     name);
}

enum pith_status pith_task_source_open(const struct pith_task_wish *wish,
                                       struct pith_task_source *out, struct pith_error *err)
{
    struct pith_task_wish w = *wish;
    size_t size = 0;
    *out = (struct pith_task_source){0};
    const char *name = pith_path_exists(w.path) ? NULL : split_name(&w.path, &size);
    if (!name && !pith_path_exists(w.path) && pith_made_find(w.path, &size))
        return pith_made_open(&w, out, err);
    if (!pith_path_exists(w.path) && !name) return nothing_there(w.path, err);
    return pith_path_is_dir(w.path) ? open_folder(&w, name, size, out, err)
                                    : open_file(&w, name, size, out, err);
}
