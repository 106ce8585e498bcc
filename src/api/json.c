#include <pith/json.h>

#include "base/json.h"
#include "base/mem.h"

enum pith_status pith_tree_read(const char *text, size_t size, const char *where, json_t **out,
                                struct pith_error *err)
{
    *out = NULL;
    return pith_json_read(text, size, PITH_JSON_ANY, where, out, err);
}

const char *pith_tree_number(const json_t *tree)
{
    return pith_json_marked_text(tree);
}

char *pith_tree_text(const json_t *tree, size_t flags)
{
    struct pith_str s = {0};
    pith_json_dump(tree, flags, &s);
    return pith_str_take(&s);
}
