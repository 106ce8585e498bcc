/* Reading the golden files of this folder's tests. */
#ifndef PITH_TEST_IO_GOLDEN_H
#define PITH_TEST_IO_GOLDEN_H

#include "base/json.h"
#include "test.h"

static inline json_t *golden_load(const char *name)
{
    char path[128];
    json_error_t e;
    snprintf(path, sizeof path, "tests/golden/io/%s", name);
    json_t *j = json_load_file(path, 0, &e);
    if (!j) fail_msg("%s: %s (run from the repository root)", path, e.text);
    return j;
}

/* Bytes of a hex string; free() them. */
static inline uint8_t *golden_bytes(const json_t *hex, size_t *size)
{
    const char *s = json_string_value(hex);
    *size = strlen(s) / 2;
    uint8_t *out = malloc(*size ? *size : 1);
    for (size_t i = 0; i < *size; i++) {
        unsigned v;
        if (sscanf(s + 2 * i, "%2x", &v) != 1) fail_msg("not hex: %s", s);
        out[i] = (uint8_t)v;
    }
    return out;
}

#endif
