#include "hub/store.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tree.h"
#include "hub/cache.h"

#include <stdio.h>
#include <string.h>

enum pith_status pith_store_make(const char *cache, const struct pith_hub_name *name,
                                 struct pith_error *err)
{
    static const char mark[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                               "# This folder is a cache of models from the Hugging Face hub.\n";
    char *blobs = pith_hub_folder(cache, name->repo, "blobs");
    char *tag = pith_path_join(cache, "CACHEDIR.TAG");
    enum pith_status s = blobs && tag ? PITH_OK : pith_fail_nomem(err, "a folder");
    if (s == PITH_OK) s = pith_tree_make(blobs, err);
    if (s == PITH_OK && !pith_path_exists(tag))
        s = pith_file_write(tag, mark, sizeof mark - 1, err);
    pith_free(blobs);
    pith_free(tag);
    return s;
}

/* snapshots/COMMIT/a/b -> ../../../blobs/BLOB */
static enum pith_status link_file(const char *snapshot, const struct pith_hub_file *f,
                                  struct pith_error *err)
{
    struct pith_str target = {0};
    char *path = pith_path_join(snapshot, f->path);
    for (const char *p = f->path; *p; p++)
        if (*p == '/') pith_str_puts(&target, "../");
    pith_str_printf(&target, "../../blobs/%s", f->blob);
    enum pith_status s = path && !target.failed ? PITH_OK : pith_fail_nomem(err, "a link");
    if (s == PITH_OK) s = pith_tree_make_above(path, err);
    if (s == PITH_OK) s = pith_link_make(target.data, path, err);
    pith_str_free(&target);
    pith_free(path);
    return s;
}

static enum pith_status write_ref(const char *cache, const struct pith_hub_name *name,
                                  const char *commit, struct pith_error *err)
{
    char part[PITH_HUB_REVISION_MOST + 8];
    if (strcmp(name->revision, commit) == 0) return PITH_OK;
    snprintf(part, sizeof part, "refs/%s", name->revision);
    char *path = pith_hub_folder(cache, name->repo, part);
    enum pith_status s = path ? pith_tree_make_above(path, err) : pith_fail_nomem(err, "a ref");
    if (s == PITH_OK) s = pith_file_write(path, commit, PITH_HUB_COMMIT, err);
    pith_free(path);
    return s;
}

enum pith_status pith_store_link(const char *cache, const struct pith_hub_name *name,
                                 const struct pith_hub_listing *listing, char **snapshot,
                                 struct pith_error *err)
{
    char part[16 + PITH_HUB_COMMIT];
    snprintf(part, sizeof part, "snapshots/%s", listing->commit);
    *snapshot = NULL;
    char *folder = pith_hub_folder(cache, name->repo, part);
    enum pith_status s = folder ? pith_tree_make(folder, err) : pith_fail_nomem(err, "a folder");
    for (size_t i = 0; s == PITH_OK && i < listing->count; i++)
        s = link_file(folder, &listing->file[i], err);
    if (s == PITH_OK) s = write_ref(cache, name, listing->commit, err);
    if (s == PITH_OK) *snapshot = folder;
    else pith_free(folder);
    return s;
}
