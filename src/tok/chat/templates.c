#include "tok/chat/templates.h"

#include "base/file.h"
#include "base/mem.h"
#include "io/gguf/model.h"
#include "io/hf_files.h"
#include "tok/component.h"
#include "tok/unicode/utf8.h"

#include <string.h>

#define MOST_FILE ((size_t)4 << 20)

static const char file_name[] = "chat_template.jinja", file_end[] = ".jinja";

/* The first text of a name holds. */
static enum pith_status put(struct pith_templates *t, const char *name, const char *where,
                            const char *text, size_t size, struct pith_error *err)
{
    if (!pith_utf8_valid(name, strlen(name)) || !pith_utf8_valid(text, size))
        return pith_fail(err, PITH_FORMAT, "%s: is not UTF-8", where);
    if (json_object_get(t->text, name)) return PITH_OK;
    if (json_object_set_new(t->text, name, json_stringn(text, size)) != 0 ||
        json_object_set_new(t->where, name, pith_json_name(where)) != 0)
        return pith_fail_nomem(err, "a chat template");
    return PITH_OK;
}

/* --- folders ---------------------------------------------------------------------------------- */

static enum pith_status put_file(struct pith_templates *t, const char *name, const char *path,
                                 struct pith_error *err)
{
    char *text;
    size_t size;
    PITH_TRY(pith_file_read(path, MOST_FILE, &text, &size, err));
    const enum pith_status s = put(t, name, path, text, size, err);
    pith_free(text);
    return s;
}

/* additional_chat_templates/NAME.jinja. */
static enum pith_status put_additional(struct pith_templates *t, const char *dir,
                                       struct pith_error *err)
{
    const size_t tail = sizeof file_end - 1;
    char *inner = pith_path_join(dir, PITH_TEMPLATES_DIR), **names = NULL;
    size_t count = 0;
    enum pith_status s = inner ? PITH_OK : pith_fail_nomem(err, dir);
    if (s == PITH_OK && pith_path_is_dir(inner)) s = pith_dir_list(inner, &names, &count, err);
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        const size_t n = strlen(names[i]);
        if (n <= tail || strcmp(names[i] + n - tail, file_end) != 0) continue;
        char *path = pith_path_join(inner, names[i]);
        names[i][n - tail] = '\0';
        s = path ? put_file(t, names[i], path, err) : pith_fail_nomem(err, dir);
        pith_free(path);
    }
    pith_names_free(names, count);
    pith_free(inner);
    return s;
}

static enum pith_status put_value(struct pith_templates *t, const char *name, const char *where,
                                  const json_t *text, struct pith_error *err)
{
    if (!json_is_string(text))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is not a text", where, name);
    return put(t, name, where, json_string_value(text), json_string_length(text), err);
}

/* A text, a list of {"name", "template"}, or an object of texts. */
static enum pith_status put_values(struct pith_templates *t, const char *where, const json_t *v,
                                   struct pith_error *err)
{
    const json_t *one;
    const char *key;
    size_t i;
    if (!v || json_is_null(v)) return PITH_OK;
    if (json_is_string(v)) return put_value(t, "default", where, v, err);
    if (!json_is_array(v) && !json_is_object(v))
        return pith_fail(err, PITH_FORMAT, "%s: neither a text nor a list", where);
    json_array_foreach (v, i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        const json_t *text = json_object_get(one, "template");
        if (!name || !json_is_string(text))
            return pith_fail(err, PITH_FORMAT, "%s: entry %zu has no \"name\" and \"template\"",
                             where, i);
        PITH_TRY(put_value(t, name, where, text, err));
    }
    json_object_foreach ((json_t *)(uintptr_t)v, key, one)
        PITH_TRY(put_value(t, key, where, one, err));
    return PITH_OK;
}

/* The first config that has some. */
static enum pith_status put_configs(struct pith_templates *t, const char *dir,
                                    struct pith_error *err)
{
    static const struct {
        const char *file, *where;
    } configs[] = {{"chat_template.json", "chat_template.json: chat_template"},
                   {"tokenizer_config.json", "tokenizer_config.json: chat_template"}};
    for (size_t i = 0; i < PITH_COUNT(configs) && json_object_size(t->text) == 0; i++) {
        json_t *config = NULL;
        PITH_TRY(pith_component_file(dir, configs[i].file, &config, err));
        const json_t *value = json_object_get(config, "chat_template");
        const enum pith_status s = put_values(t, configs[i].where, value, err);
        json_decref(config);
        PITH_TRY(s);
    }
    return PITH_OK;
}

static enum pith_status read_dir(struct pith_templates *t, const char *dir, struct pith_error *err)
{
    char *path = pith_path_join(dir, file_name);
    if (!path) return pith_fail_nomem(err, dir);
    const bool there = pith_path_exists(path);
    enum pith_status s = there ? put_file(t, "default", path, err) : put_configs(t, dir, err);
    pith_free(path);
    return s == PITH_OK && there ? put_additional(t, dir, err) : s;
}

/* --- GGUF files ------------------------------------------------------------------------------- */

static enum pith_status put_key(struct pith_templates *t, const char *name,
                                const struct pith_gguf *g, const char *key, struct pith_error *err)
{
    char *text = NULL;
    PITH_TRY(pith_gguf_get_text(g, key, &text, err));
    const enum pith_status s = text ? put(t, name, g->path, text, strlen(text), err) : PITH_OK;
    pith_free(text);
    return s;
}

static enum pith_status read_keys(struct pith_templates *t, const struct pith_gguf *g,
                                  struct pith_error *err)
{
    static const char start[] = "tokenizer.chat_template.";
    const size_t n = sizeof start - 1;
    PITH_TRY(put_key(t, "default", g, "tokenizer.chat_template", err));
    for (size_t i = 0; i < g->key_count; i++) {
        const char *key = g->keys[i].name;
        if (strncmp(key, start, n) == 0) PITH_TRY(put_key(t, key + n, g, key, err));
    }
    return PITH_OK;
}

/* --- either ----------------------------------------------------------------------------------- */

static enum pith_status begin(struct pith_templates *t, struct pith_error *err)
{
    *t = (struct pith_templates){json_object(), json_object()};
    return t->text && t->where ? PITH_OK : pith_fail_nomem(err, "chat templates");
}

static enum pith_status done(struct pith_templates *t, enum pith_status s)
{
    if (s != PITH_OK) pith_templates_free(t);
    return s;
}

enum pith_status pith_templates_of(const struct pith_gguf *g, struct pith_templates *out,
                                   struct pith_error *err)
{
    enum pith_status s = begin(out, err);
    if (s == PITH_OK) s = read_keys(out, g, err);
    return done(out, s);
}

static enum pith_status of_file(const char *path, struct pith_templates *out,
                                struct pith_error *err)
{
    struct pith_gguf g;
    PITH_TRY(pith_gguf_open(path, &g, err));
    const enum pith_status s = pith_templates_of(&g, out, err);
    pith_gguf_close(&g);
    return s;
}

enum pith_status pith_templates_read(const char *model, struct pith_templates *out,
                                     struct pith_error *err)
{
    char *file;
    *out = (struct pith_templates){NULL, NULL};
    PITH_TRY(pith_gguf_at(model, &file, err));
    if (file) {
        const enum pith_status s = of_file(file, out, err);
        pith_free(file);
        return s;
    }
    enum pith_status s = begin(out, err);
    if (s == PITH_OK) s = read_dir(out, model, err);
    return done(out, s);
}

void pith_templates_free(struct pith_templates *t)
{
    json_decref(t->text);
    json_decref(t->where);
    *t = (struct pith_templates){NULL, NULL};
}

void pith_template_key(const char *name, char key[PITH_TEMPLATE_NAME])
{
    size_t n = 0;
    for (; name[n] && n + 1 < PITH_TEMPLATE_NAME; n++) {
        const char c = name[n];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        key[n] = letter || (c >= '0' && c <= '9') ? c : '_';
    }
    key[n] = '\0';
}
