#include "api/context.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/config/config.h"

void pith_context_report(const struct pith_context *context, const char *what, const char *text)
{
    struct pith_str line = {0};
    if (!context->log) return;
    pith_str_printf(&line, "%s: %s", what, text);
    if (!line.failed) context->log(context->log_ctx, pith_str_text(&line));
    pith_str_free(&line);
}

void pith_context_report_all(const struct pith_context *context, const char *what,
                             const json_t *texts)
{
    const json_t *text;
    size_t i;
    json_array_foreach (texts, i, text) pith_context_report(context, what, json_string_value(text));
}

struct naming {
    const struct pith_context *context;
    const char *model;
};

static void say(void *ctx, const char *object, const char *key, const char *near)
{
    const struct naming *n = ctx;
    struct pith_str line = {0};
    pith_str_printf(&line,
                    "%s/config.json: %s%s\"%s\" is no key that is read; did you mean \"%s\"?",
                    n->model, object, *object ? ": " : "", key, near);
    if (!line.failed) n->context->log(n->context->log_ctx, pith_str_text(&line));
    pith_str_free(&line);
}

void pith_context_look(const struct pith_context *context, const char *model)
{
    enum { LIMIT = 8 << 20 };
    struct naming n = {context, model};
    json_t *config = NULL;
    if (!context->log || !model) return;
    char *path = pith_path_join(model, "config.json");
    /* What is wrong with the file is reported when the model is opened. */
    if (path && pith_path_is_dir(model) && pith_path_exists(path))
        (void)pith_json_load(path, LIMIT, &config, NULL);
    pith_free(path);
    pith_config_misspelt(config, say, &n);
    json_decref(config);
}
