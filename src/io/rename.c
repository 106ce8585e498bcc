/* Other names for a checkpoint's tensors. */
#include "io/checkpoint.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

/* Whether some name becomes another. Memory is that of one name: most models need nothing. */
static bool changes(const struct pith_checkpoint *c, pith_rename_fn *fn, const void *ctx,
                    bool *failed)
{
    struct pith_str one = {0};
    bool changed = false;
    for (size_t i = 0; i < c->count && !changed; i++) {
        pith_str_clear(&one);
        fn(ctx, c->tensors[i].name, &one);
        changed = strcmp(pith_str_text(&one), c->tensors[i].name) != 0;
    }
    *failed = one.failed;
    pith_str_free(&one);
    return changed;
}

/* All names, one behind the other with their NULs. */
static char *new_names(const struct pith_checkpoint *c, pith_rename_fn *fn, const void *ctx)
{
    struct pith_str all = {0}, one = {0};
    for (size_t i = 0; i < c->count; i++) {
        pith_str_clear(&one);
        fn(ctx, c->tensors[i].name, &one);
        pith_str_append(&all, pith_str_text(&one), one.len + 1);
        all.failed |= one.failed;
    }
    pith_str_free(&one);
    return pith_str_take(&all);
}

enum pith_status pith_checkpoint_rename(struct pith_checkpoint *c, pith_rename_fn *fn,
                                        const void *ctx, struct pith_error *err)
{
    bool failed;
    const bool changed = changes(c, fn, ctx, &failed);
    if (failed) return pith_fail_nomem(err, "names of tensors");
    if (!changed) return PITH_OK;
    char *names = new_names(c, fn, ctx);
    struct pith_tensor *tensors = pith_alloc(c->count, sizeof *tensors);
    enum pith_status s = names && tensors ? PITH_OK : pith_fail_nomem(err, "names of tensors");
    const char *at = names;
    for (size_t i = 0; i < c->count && s == PITH_OK; i++, at += strlen(at) + 1) {
        tensors[i] = c->tensors[i];
        tensors[i].name = at;
        const char *fault = pith_tensor_name_fault(at);
        if (fault) s = pith_fail(err, PITH_FORMAT, "tensor \"%.100s\": %s", at, fault);
    }
    if (s == PITH_OK) qsort(tensors, c->count, sizeof *tensors, pith_tensor_by_name);
    for (size_t i = 1; i < c->count && s == PITH_OK; i++)
        if (strcmp(tensors[i - 1].name, tensors[i].name) == 0)
            s = pith_fail(err, PITH_FORMAT, "%s: two tensors are \"%.100s\" by their names", c->dir,
                          tensors[i].name);
    if (s != PITH_OK) {
        pith_free(tensors);
        pith_free(names);
        return s;
    }
    memcpy(c->tensors, tensors, c->count * sizeof *tensors);
    pith_free(tensors);
    pith_free(c->new_names);
    c->new_names = names;
    c->renamed = true;
    return PITH_OK;
}
