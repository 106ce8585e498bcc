#include <pith/inspect.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/keys.h"

static void add_line(void *ctx, const char *object, const char *key, const char *near)
{
    pith_str_printf(ctx, "config.json: %s%s\"%s\" is no key that is read; did you mean \"%s\"?\n",
                    object, *object ? ": " : "", key, near);
}

enum pith_status pith_config_look(const char *model, char **lines, struct pith_error *err)
{
    enum { LIMIT = 8 << 20 };
    struct pith_str text = {0};
    json_t *config = NULL;
    *lines = NULL;
    char *path = pith_path_join(model, "config.json");
    if (!path) return pith_fail_nomem(err, model);
    /* What is wrong with the file is for whoever opens the model to say. */
    if (pith_path_is_dir(model) && pith_path_exists(path))
        (void)pith_json_load(path, LIMIT, &config, NULL);
    pith_free(path);
    pith_config_misspelt(config, add_line, &text);
    json_decref(config);
    if (text.failed) {
        pith_str_free(&text);
        return pith_fail_nomem(err, model);
    }
    *lines = pith_str_take(&text);
    return PITH_OK;
}
