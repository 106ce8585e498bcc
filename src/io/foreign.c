#include "io/foreign.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

static const struct {
    const char *pattern, *what;
} forms[] = {
#define PITH_FOREIGN(pattern, what) {pattern, what},
#include "io/foreign.def"
#undef PITH_FOREIGN
};

/* The first name that fits, or NULL. */
static const char *first(const char *pattern, char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pith_glob_match(pattern, names[i])) return names[i];
    return NULL;
}

enum pith_status pith_foreign_check(const char *dir, struct pith_error *err)
{
    char **names;
    size_t count;
    PITH_TRY(pith_dir_list(dir, &names, &count, err));
    enum pith_status s = PITH_OK;
    if (!first("config.json", names, count))
        for (size_t i = 0; i < PITH_COUNT(forms) && s == PITH_OK; i++) {
            const char *name = first(forms[i].pattern, names, count);
            if (name)
                s = pith_fail(err, PITH_UNSUPPORTED, "%s: no config.json, but %.80s: %s", dir, name,
                              forms[i].what);
        }
    pith_names_free(names, count);
    return s;
}

enum pith_status pith_foreign_tensor(const char *dir, const char *tensor, struct pith_error *err)
{
    const char *what = "another form of a model";
    for (size_t i = PITH_COUNT(forms); i-- > 0;)
        if (pith_glob_match(forms[i].pattern, "consolidated.safetensors")) what = forms[i].what;
    return pith_fail(err, PITH_UNSUPPORTED, "%s: holds \"%s\", which is of %s", dir, tensor, what);
}
