#include "hub/cache.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *pith_hub_folder(const char *cache, const char *repo, const char *part)
{
    struct pith_str s = {0};
    const char *slash = strchr(repo, '/');
    pith_str_printf(&s, "%s/models--%.*s--%s", cache, (int)(slash - repo), repo, slash + 1);
    if (part) pith_str_printf(&s, "/%s", part);
    return pith_str_take(&s);
}

/* "org/name", or with its revision where that is not the default: what is to be typed. */
static void typed(const struct pith_hub_name *name, char text[400])
{
    const bool plain = strcmp(name->revision, "main") == 0;
    snprintf(text, 400, "%s%s%s", name->repo, plain ? "" : "@", plain ? "" : name->revision);
}

static enum pith_status not_there(const char *cache, const struct pith_hub_name *name,
                                  struct pith_error *err)
{
    char what[400];
    typed(name, what);
    return pith_fail(err, PITH_IO,
                     "%s: no such file or folder, and no such model in the cache %s; 'pith pull "
                     "%s' downloads it",
                     what, cache, what);
}

/* The commit that the cache has for the name's revision. PITH_IO when it has none (err says what
 * to type), or its file cannot be read. */
static enum pith_status hub_commit(const char *cache, const struct pith_hub_name *name,
                                   char commit[PITH_HUB_COMMIT + 1], struct pith_error *err)
{
    char part[PITH_HUB_REVISION_MOST + 8], *text = NULL;
    size_t size = 0;
    if (pith_hub_is_commit(name->revision)) {
        memcpy(commit, name->revision, PITH_HUB_COMMIT + 1);
        return PITH_OK;
    }
    snprintf(part, sizeof part, "refs/%s", name->revision);
    char *path = pith_hub_folder(cache, name->repo, part);
    if (!path) return pith_fail_nomem(err, "the name of a model");
    enum pith_status s = PITH_OK;
    if (!pith_path_exists(path)) s = not_there(cache, name, err);
    if (s == PITH_OK) s = pith_file_read(path, 4096, &text, &size, err);
    if (s == PITH_OK) {
        while (size > 0 && strchr(" \r\n", text[size - 1])) text[--size] = '\0';
        if (size == PITH_HUB_COMMIT && pith_hub_is_commit(text))
            memcpy(commit, text, PITH_HUB_COMMIT + 1);
        else
            s = pith_fail(err, PITH_FORMAT, "%s: holds no commit; 'pith pull %s@%s' renews it",
                          path, name->repo, name->revision);
    }
    pith_free(text);
    pith_free(path);
    return s;
}

/* What a snapshot holds. */
struct holds {
    bool config, gone; /* config.json; a link whose blob is not there */
    size_t weights, wanted, ggufs;
    const char *gguf;
};

static struct holds look(const char *folder, char **names, size_t count)
{
    struct holds h = {0};
    for (size_t i = 0; i < count; i++) {
        char *path = pith_path_join(folder, names[i]);
        uint64_t size;
        int64_t changed;
        const bool there = path && pith_file_stat(path, &size, &changed, NULL) == PITH_OK;
        pith_free(path);
        if (!there) h.gone = true;
        if (strcmp(names[i], "config.json") == 0) h.config = true;
        unsigned number = 1, parts = 1;
        if (!pith_name_part(names[i], &number, &parts)) number = parts = 1;
        if (pith_ends_in(names[i], ".gguf") && number == 1) { /* which stands for the other parts */
            h.gguf = names[i];
            h.ggufs++;
        }
        if (!pith_ends_in(names[i], ".safetensors")) continue;
        h.weights++;
        if (parts > h.wanted) h.wanted = parts;
    }
    return h;
}

static enum pith_status choose(const char *folder, const struct holds *h,
                               const struct pith_hub_name *name, char **path,
                               struct pith_error *err)
{
    char what[400];
    typed(name, what);
    if (h->config && h->weights > 0 && h->weights >= h->wanted && !h->gone) {
        *path = pith_strdup(folder);
    } else if (h->weights == 0 && h->ggufs == 1 && !h->gone) {
        *path = pith_path_join(folder, h->gguf);
    } else if (h->weights == 0 && h->ggufs > 1) {
        return pith_fail(err, PITH_IO, "%s: %zu .gguf files lie in %s; name one of them", what,
                         h->ggufs, folder);
    } else {
        return pith_fail(err, PITH_IO, "%s: the cache holds a part of it (%s); 'pith pull %s' "
                         "gets the rest", what, folder, what);
    }
    return *path ? PITH_OK : pith_fail_nomem(err, "the name of a model");
}

enum pith_status pith_hub_find_model(const char *cache, const struct pith_hub_name *name,
                                     char **path, struct pith_error *err)
{
    char commit[PITH_HUB_COMMIT + 1], part[64], **names = NULL;
    size_t count = 0;
    *path = NULL;
    PITH_TRY(hub_commit(cache, name, commit, err));
    snprintf(part, sizeof part, "snapshots/%s", commit);
    char *folder = pith_hub_folder(cache, name->repo, part);
    if (!folder) return pith_fail_nomem(err, "the name of a model");
    enum pith_status s = PITH_OK;
    if (!pith_path_exists(folder)) s = not_there(cache, name, err);
    if (s == PITH_OK) s = pith_dir_list(folder, &names, &count, err);
    if (s == PITH_OK) {
        const struct holds h = look(folder, names, count);
        s = choose(folder, &h, name, path, err);
    }
    pith_names_free(names, count);
    pith_free(folder);
    return s;
}

char *pith_hub_title(const char *path)
{
    static const char models[] = "models--", snapshots[] = "/snapshots/";
    const char *at = NULL;
    struct pith_str s = {0};
    for (const char *p = strstr(path, models); p; p = strstr(p + 1, models))
        if (p == path || p[-1] == '/') at = p;
    const char *repo = at ? at + strlen(models) : "";
    const char *name = strstr(repo, "--"), *end = strchr(repo, '/');
    const char *commit = end && strncmp(end, snapshots, strlen(snapshots)) == 0
                             ? end + strlen(snapshots)
                             : NULL;
    if (!name || !commit || name > end || strcspn(commit, "/") != PITH_HUB_COMMIT)
        return pith_strdup(path);
    pith_str_printf(&s, "%.*s/%.*s/%.*s%s", PITH_HUB_COMMIT, commit, (int)(name - repo), repo,
                    (int)(end - name - 2), name + 2, commit + PITH_HUB_COMMIT);
    return pith_str_take(&s);
}
