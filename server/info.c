/* What the server says of itself. */
#include "server/routes.h"

#include <pith/json.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct pith_service_state state_of(const struct exchange *e)
{
    struct pith_service_state state = {.size = sizeof state};
    struct pith_service *service = atomic_load(&e->server->service);
    if (service) pith_service_state(service, &state);
    return state;
}

void info_page(struct exchange *e)
{
    const struct page *p = e->server->page;
    struct buffer b = {0};
    buffer_add(&b, p->text, p->size);
    snprintf(e->csp, sizeof e->csp, "%s", p->policy);
    exchange_answer(e, 200, "text/html; charset=utf-8", &b);
}

void info_health(struct exchange *e)
{
    struct refusal r = {0};
    switch (atomic_load(&e->server->phase)) {
    case SERVER_READY: exchange_json(e, 200, json_pack("{s:s}", "status", "ok")); return;
    case SERVER_LOADING: (void)refuse(&r, 503, NULL, "Loading model"); break;
    default: (void)refuse(&r, 503, NULL, "the server ends"); break;
    }
    exchange_refuse(e, &r);
}

void info_version(struct exchange *e)
{
    exchange_json(e, 200, json_pack("{s:s}", "version", pith_version()));
}

void info_metrics(struct exchange *e)
{
    struct buffer b = {0};
    metrics_write(e->server->metrics, atomic_load(&e->server->service), e->server->settings.name,
                  &b);
    exchange_answer(e, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
}

static json_t *model_of(const struct exchange *e)
{
    const struct server *s = e->server;
    const struct pith_service_state state = state_of(e);
    return json_pack("{s:s, s:s, s:I, s:s, s:o, s:I, s:{s:I, s:I}}", "id", s->settings.name,
                     "object", "model", "created", (json_int_t)s->started, "owned_by", "pith",
                     "root", json_any_text(s->settings.model, strlen(s->settings.model)),
                     "max_model_len", (json_int_t)state.context, "meta", "n_ctx",
                     (json_int_t)state.context, "n_vocab", (json_int_t)state.vocab);
}

void info_models(struct exchange *e)
{
    exchange_json(e, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_of(e)));
}

void info_model(struct exchange *e)
{
    const struct server_settings *s = &e->server->settings;
    struct refusal r = {0};
    if (strcmp(e->rest, s->name) == 0 || strcmp(e->rest, s->model) == 0) {
        exchange_json(e, 200, model_of(e));
        return;
    }
    (void)refuse_model(&r, e->rest, s->name);
    exchange_refuse(e, &r);
}

void info_props(struct exchange *e)
{
    const struct server *s = e->server;
    const struct pith_service_state t = state_of(e);
    char build[64];
    snprintf(build, sizeof build, "pith %s", pith_version());
    json_t *j = json_pack(
        "{s:{s:I}, s:s, s:s, s:s, s:o, s:o, s:{s:I, s:I, s:I, s:I}}", "default_generation_settings",
        "n_ctx", (json_int_t)t.context, "build_info", build, "model_alias", s->settings.name,
        "mode", s->settings.mode ? s->settings.mode : "exact", "kv",
        s->settings.kv ? json_any_text(s->settings.kv, strlen(s->settings.kv)) : json_null(),
        "model_path", json_any_text(s->settings.model, strlen(s->settings.model)), "limits", "body",
        (json_int_t)s->settings.body, "prompts", (json_int_t)s->settings.prompts, "choices",
        (json_int_t)s->settings.choices, "connections", (json_int_t)s->settings.connections);
    if (s->format) {
        const char *form = pith_reply_format_name(s->format);
        json_object_set_new(j, "tool_form", json_string(form));
        json_object_set_new(j, "tools_described", json_boolean(strcmp(form, "described") == 0));
    }
    exchange_json(e, 200, j);
}

/* The tree of a file of at most so many bytes; NULL when there is none. */
static json_t *tree_of(const char *path, size_t most)
{
    struct stat st;
    json_t *j = NULL;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || (uintmax_t)st.st_size > most) return NULL;
    FILE *f = fopen(path, "rb");
    char *text = f ? malloc((size_t)st.st_size + 1) : NULL;
    const size_t size = text ? fread(text, 1, (size_t)st.st_size, f) : 0;
    if (text) (void)pith_tree_read(text, size, path, &j, NULL);
    free(text);
    if (f) fclose(f);
    return j;
}

/* tokenizer_config.json of a folder, or an empty object. */
static json_t *config_of(const char *model)
{
    enum { MOST = 16 << 20 };
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/tokenizer_config.json", model);
    json_t *j = n > 0 && (size_t)n < sizeof path ? tree_of(path, MOST) : NULL;
    if (json_is_object(j)) return j;
    json_decref(j);
    return json_object();
}

/* Tokens that are written as objects, {"content", "lstrip", ...}, become their texts. */
static void flatten(json_t *config)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *text = json_object_get(json_object_get(config, names[i]), "content");
        if (json_is_string(text)) json_object_set(config, names[i], text);
    }
}

/* tokenizer_config.json as the checkpoint has it, which is what clients look into; what it lacks,
 * and the template that is used, come from the service. */
void info_tokenizer(struct exchange *e)
{
    struct pith_error err = {0};
    struct refusal r = {0};
    char *text = NULL;
    const char *key;
    json_t *value;
    const enum pith_status s =
        pith_service_tokenizer(atomic_load(&e->server->service), &text, &err);
    if (s != PITH_OK) {
        (void)refuse_failure(&r, s, &err);
        exchange_refuse(e, &r);
        return;
    }
    json_t *own = NULL, *config = config_of(e->server->settings.model);
    (void)pith_tree_read(text, strlen(text), "the tokenizer", &own, NULL);
    pith_text_free(text);
    flatten(config);
    json_object_foreach (own, key, value)
        if (!json_object_get(config, key) || json_is_null(json_object_get(config, key)) ||
            strcmp(key, "chat_template") == 0)
            json_object_set(config, key, value);
    json_decref(own);
    exchange_json(e, 200, config);
}
