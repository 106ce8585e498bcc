#include "eval/labels.h"

#include "base/mem.h"
#include "base/str.h"
#include "hub/cache.h"

#include <string.h>

/* A path without slashes at its end. */
struct name {
    const char *text;
    size_t size;
};

static struct name name_of(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    return (struct name){path, n};
}

/* The last `parts` components; all of it when there are no more. */
static struct name tail(struct name whole, size_t parts)
{
    size_t at = whole.size;
    while (at > 0) {
        if (whole.text[at - 1] == '/' && at < whole.size && --parts == 0) break;
        at--;
    }
    return (struct name){whole.text + at, whole.size - at};
}

static bool same(struct name a, struct name b)
{
    return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

/* A label that no other item has, for names that differ already. */
static char *label_of(const struct pith_list *paths, size_t i)
{
    const struct name whole = name_of(paths->item[i]);
    struct name label = {0};
    struct pith_str text = {0};
    size_t before = 0;
    for (size_t parts = 1;; parts++) {
        bool alone = true;
        label = tail(whole, parts);
        for (size_t k = 0; k < paths->count; k++) {
            const struct name other = name_of(paths->item[k]);
            if (!same(other, whole) && same(tail(other, parts), label)) alone = false;
        }
        if (alone || label.size == whole.size) break;
    }
    for (size_t k = 0; k < i; k++) before += same(name_of(paths->item[k]), whole);
    pith_str_append(&text, label.text, label.size);
    if (before) pith_str_printf(&text, " (%zu)", before + 1);
    return pith_str_take(&text);
}

char *pith_label(const struct pith_list *paths, size_t i)
{
    char **titles = pith_zalloc(paths->count, sizeof *titles), *label = NULL;
    bool good = titles != NULL;
    for (size_t k = 0; good && k < paths->count; k++)
        good = (titles[k] = pith_hub_title(paths->item[k])) != NULL;
    if (good) label = label_of(&(struct pith_list){(const char *const *)titles, paths->count}, i);
    for (size_t k = 0; titles && k < paths->count; k++) pith_free(titles[k]);
    pith_free(titles);
    return label;
}
