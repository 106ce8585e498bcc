#include "cli/rank.h"

#include <stdlib.h>

struct ranked {
    const json_t *entry;
    double key;
    size_t place;
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? 1 : -1;
    return x->place < y->place ? -1 : 1;
}

json_t *rank(const json_t *list, const char *key, size_t most, size_t *left)
{
    const size_t count = json_array_size(list);
    struct ranked *all = calloc(count ? count : 1, sizeof *all);
    json_t *ranked = json_array();
    *left = 0;
    if (!all || !ranked) {
        free(all);
        return ranked;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(list, i), *value = json_object_get(entry, key);
        /* What has no number is not finite: worse than all that have one. */
        const double key_of = json_is_number(value) ? json_number_value(value) : 1e308;
        all[i] = (struct ranked){entry, key_of, i};
    }
    qsort(all, count, sizeof *all, compare);
    for (size_t i = 0; i < count && i < most; i++)
        json_array_append(ranked, (json_t *)(uintptr_t)all[i].entry);
    *left = count > most ? count - most : 0;
    free(all);
    return ranked;
}
