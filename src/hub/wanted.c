#include "hub/listing.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>

static const char *const wanted[] = {
#define WANTED(pattern) pattern,
#include "hub/wanted.def"
#undef WANTED
};

static bool matches(const struct pith_hub_listing *l, const char *pattern)
{
    for (size_t i = 0; i < l->count; i++)
        if (pith_glob_match(pattern, l->file[i].path)) return true;
    return false;
}

/* A pattern's '*' does not cross folders here. */
static bool is_wanted(const char *path)
{
    for (size_t i = 0; i < PITH_COUNT(wanted); i++)
        if (pith_glob_match(wanted[i], path) && !strchr(path, '/') == !strchr(wanted[i], '/'))
            return true;
    return false;
}

static bool is_chosen(const char *path, const char *const *patterns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pith_glob_match(patterns[i], path)) return true;
    return count == 0 && is_wanted(path);
}

/* The names of files that match, some of them. */
static void name_some(const struct pith_hub_listing *l, const char *pattern, struct pith_str *out)
{
    size_t named = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (!pith_glob_match(pattern, l->file[i].path)) continue;
        if (++named <= 4) pith_str_printf(out, "%s%s", named > 1 ? ", " : "", l->file[i].path);
    }
    if (named > 4) pith_str_printf(out, " and %zu more", named - 4);
}

static enum pith_status no_weights(const struct pith_hub_listing *l,
                                   const struct pith_hub_name *name, struct pith_error *err)
{
    struct pith_str some = {0};
    name_some(l, "*.gguf", &some);
    const enum pith_status s =
        some.len ? pith_fail(err, PITH_UNSUPPORTED,
                             "%s has no *.safetensors; name a file with `files`: %s", name->repo,
                             pith_str_text(&some))
                 : pith_fail(err, PITH_UNSUPPORTED,
                             "%s has no *.safetensors, and pith reads no other form "
                             "of weights but .gguf; `files` PATTERN takes files by name",
                             name->repo);
    pith_str_free(&some);
    return s;
}

enum pith_status pith_hub_choose(struct pith_hub_listing *listing, const char *const *patterns,
                                 size_t count, const struct pith_hub_name *name,
                                 struct pith_error *err)
{
    size_t taken = 0;
    bool weights = false;
    for (size_t i = 0; i < count; i++)
        if (!matches(listing, patterns[i]))
            return pith_fail(err, PITH_ARG, "`files` %s matches none of the %zu files of %s",
                             patterns[i], listing->count, name->repo);
    for (size_t i = 0; i < listing->count && !weights; i++)
        weights = is_wanted(listing->file[i].path) &&
                  pith_glob_match("*.safetensors", listing->file[i].path);
    if (!weights && count == 0) return no_weights(listing, name, err);
    /* Some repositories hold the weights twice, once as their maker's own code names them. */
    const bool second = count == 0 && matches(listing, "consolidated*.safetensors") &&
                        matches(listing, "model*.safetensors");
    for (size_t i = 0; i < listing->count; i++) {
        struct pith_hub_file *f = &listing->file[i];
        const bool take = is_chosen(f->path, patterns, count) &&
                          !(second && pith_glob_match("consolidated*.safetensors*", f->path));
        if (take) listing->file[taken++] = *f;
        else pith_free(f->path);
    }
    listing->count = taken;
    return PITH_OK;
}
