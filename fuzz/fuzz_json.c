/* Any bytes as JSON: refused with a message, or a tree whose text is read again to the same tree,
 * and to the same text. What the standard has is read alike with the flag that allows no more. */
#include "base/json.h"
#include "base/mem.h"
#include "tok/unicode/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good) abort();
}

static json_t *again(const json_t *j, size_t flags)
{
    struct pith_str s = {0}, twice = {0};
    json_t *out = NULL;
    pith_json_dump(j, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17), &s);
    must(!s.failed && pith_utf8_valid(s.data, s.len));
    must(pith_json_read(s.data, s.len, PITH_JSON_ANY, "x", &out, NULL) == PITH_OK);
    pith_json_dump(out, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17), &twice);
    must(s.len == twice.len && memcmp(s.data, twice.data, s.len) == 0);
    pith_str_free(&s);
    pith_str_free(&twice);
    return out;
}

/* jansson 2.14 compares and copies names up to a NUL: of those the texts alone are compared. */
static bool may_have_nul(const char *text, size_t size)
{
    for (size_t i = 0; i + 5 <= size; i++)
        if (memcmp(text + i, "u0000", 5) == 0) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_error err = {0};
    json_t *j = NULL, *strict = NULL, *other, *copy;
    const char *text = (const char *)data;
    const enum pith_status s = pith_json_read(text, size, PITH_JSON_ANY, "x", &j, &err),
                           t = pith_json_read(text, size, PITH_JSON_ANY | PITH_JSON_STRICT, "x",
                                              &strict, NULL);
    if (s != PITH_OK) {
        must(s == PITH_FORMAT && t != PITH_OK && strncmp(err.text, "x: not valid JSON: ", 19) == 0);
        return 0;
    }
    other = again(j, size % 2 ? JSON_COMPACT : JSON_INDENT(2) | JSON_SORT_KEYS);
    copy = json_deep_copy(j);
    must(may_have_nul(text, size) || (json_equal(j, other) && json_equal(j, copy)));
    must(t != PITH_OK || json_equal(j, strict));
    json_decref(j);
    json_decref(other);
    json_decref(copy);
    json_decref(strict);
    return 0;
}
