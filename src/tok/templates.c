#include "tok/templates.h"

#include "base/file.h"
#include "base/mem.h"
#include "io/gguf_model.h"
#include "io/hf_files.h"
#include "tok/component.h"
#include "tok/utf8.h"

#include <string.h>

#define MOST_FILE ((size_t)4 << 20)

static const char file_name[] = "chat_template.jinja", file_end[] = ".jinja";

/* The first text of a name holds. */
static enum pith_status put(struct pith_templates *t, const char *name, const char *text,
                            size_t size, struct pith_error *err)
{
    if (json_object_get(t->text, name)) return PITH_OK;
    json_t *value = json_stringn(text, size);
    if (!value && pith_utf8_valid(text, size)) return pith_fail_nomem(err, "a chat template");
    if (!value) return pith_fail(err, PITH_FORMAT, "%s: is not UTF-8", t->where);
    return json_object_set_new(t->text, name, value) == 0 ? PITH_OK
                                                         : pith_fail_nomem(err, "a chat template");
}

static enum pith_status put_file(struct pith_templates *t, const char *name, const char *path,
                                 struct pith_error *err)
{
    char *text;
    size_t size;
    PITH_TRY(pith_file_read(path, MOST_FILE, &text, &size, err));
    const enum pith_status s = put(t, name, text, size, err);
    pith_free(text);
    return s;
}

static bool set_where(struct pith_templates *t, const char *where)
{
    t->where = pith_strdup(where);
    return t->where != NULL;
}

/* --- folders ---------------------------------------------------------------------------------- */

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

static enum pith_status put_value(struct pith_templates *t, const char *name, const json_t *text,
                                  struct pith_error *err)
{
    if (!json_is_string(text))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is not a text", t->where, name);
    return put(t, name, json_string_value(text), json_string_length(text), err);
}

/* A text, a list of {"name", "template"}, or an object of texts. */
static enum pith_status put_values(struct pith_templates *t, const json_t *v,
                                   struct pith_error *err)
{
    const json_t *one;
    const char *key;
    size_t i;
    if (!v || json_is_null(v)) return PITH_OK;
    if (json_is_string(v)) return put_value(t, "default", v, err);
    if (!json_is_array(v) && !json_is_object(v))
        return pith_fail(err, PITH_FORMAT, "%s: neither a text nor a list", t->where);
    json_array_foreach (v, i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        const json_t *text = json_object_get(one, "template");
        if (!name || !json_is_string(text))
            return pith_fail(err, PITH_FORMAT, "%s: entry %zu has no \"name\" and \"template\"",
                             t->where, i);
        PITH_TRY(put_value(t, name, text, err));
    }
    json_object_foreach ((json_t *)(uintptr_t)v, key, one) PITH_TRY(put_value(t, key, one, err));
    return PITH_OK;
}

static enum pith_status read_config(struct pith_templates *t, const char *dir, const char *file,
                                    struct pith_error *err)
{
    struct pith_str where = {0};
    json_t *config = NULL;
    PITH_TRY(pith_component_file(dir, file, &config, err));
    pith_str_printf(&where, "%s: chat_template", file);
    enum pith_status s = !where.failed && set_where(t, where.data)
                             ? PITH_OK
                             : pith_fail_nomem(err, "a chat template");
    if (s == PITH_OK) s = put_values(t, json_object_get(config, "chat_template"), err);
    pith_str_free(&where);
    json_decref(config);
    return s;
}

static enum pith_status read_dir(struct pith_templates *t, const char *dir, struct pith_error *err)
{
    static const char *const files[] = {"chat_template.json", "tokenizer_config.json"};
    char *path = pith_path_join(dir, file_name);
    enum pith_status s = path && set_where(t, path) ? PITH_OK : pith_fail_nomem(err, dir);
    const bool there = path && pith_path_exists(path);
    if (s == PITH_OK && there) s = put_file(t, "default", path, err);
    if (s == PITH_OK && there) s = put_additional(t, dir, err);
    pith_free(path);
    for (size_t i = 0; i < PITH_COUNT(files) && s == PITH_OK && !there; i++) {
        if (json_object_size(t->text) > 0) break;
        pith_free(t->where);
        t->where = NULL;
        s = read_config(t, dir, files[i], err);
    }
    return s;
}

/* --- GGUF files ------------------------------------------------------------------------------- */

static enum pith_status read_keys(struct pith_templates *t, const struct pith_gguf *g,
                                  struct pith_error *err)
{
    static const char start[] = "tokenizer.chat_template";
    const size_t n = sizeof start - 1;
    if (!set_where(t, g->path)) return pith_fail_nomem(err, "a chat template");
    for (size_t i = 0; i < g->key_count; i++) {
        const char *key = g->keys[i].name;
        char *text = NULL;
        if (strncmp(key, start, n) != 0 || (key[n] != '\0' && key[n] != '.')) continue;
        PITH_TRY(pith_gguf_get_text(g, key, &text, err));
        const enum pith_status s =
            text ? put(t, key[n] ? key + n + 1 : "default", text, strlen(text), err) : PITH_OK;
        pith_free(text);
        PITH_TRY(s);
    }
    return PITH_OK;
}

/* --- either ----------------------------------------------------------------------------------- */

static enum pith_status done(struct pith_templates *t, enum pith_status s)
{
    if (s != PITH_OK) pith_templates_free(t);
    return s;
}

enum pith_status pith_templates_of(const struct pith_gguf *g, struct pith_templates *out,
                                   struct pith_error *err)
{
    *out = (struct pith_templates){json_object(), NULL};
    if (!out->text) return pith_fail_nomem(err, "chat templates");
    return done(out, read_keys(out, g, err));
}

enum pith_status pith_templates_read(const char *model, struct pith_templates *out,
                                     struct pith_error *err)
{
    char *file;
    struct pith_gguf g;
    PITH_TRY(pith_gguf_at(model, &file, err));
    if (!file) {
        *out = (struct pith_templates){json_object(), NULL};
        if (!out->text) return pith_fail_nomem(err, "chat templates");
        return done(out, read_dir(out, model, err));
    }
    enum pith_status s = pith_gguf_open(file, &g, err);
    pith_free(file);
    PITH_TRY(s);
    s = pith_templates_of(&g, out, err);
    pith_gguf_close(&g);
    return s;
}

void pith_templates_free(struct pith_templates *t)
{
    json_decref(t->text);
    pith_free(t->where);
    *t = (struct pith_templates){0};
}

const char *pith_templates_get(const struct pith_templates *t, const char *name)
{
    return json_string_value(json_object_get(t->text, name));
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
