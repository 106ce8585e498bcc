#include "pipe/seal.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

#include <string.h>

enum { DIGITS = PITH_SHA256_HEX - 1, LIMIT = 1 << 30 };
static const char zeros[PITH_SHA256_HEX] =
    "0000000000000000000000000000000000000000000000000000000000000000";
static const char opening[] = "\"seal\": \"";

/* Where the digits of the seal stand: behind the last of its openings. NULL without. */
static char *find_digits(char *text, size_t size)
{
    const size_t n = sizeof opening - 1;
    for (size_t at = size; at-- > 0;)
        if (size - at >= n + DIGITS && text[at] == '"' && memcmp(text + at, opening, n) == 0)
            return text + at + n;
    return NULL;
}

enum pith_status pith_account_save(const char *path, json_t *account, struct pith_error *err)
{
    char hex[PITH_SHA256_HEX], *text;
    size_t size;
    /* The last member, also of an account that had one. */
    (void)json_object_del(account, "seal");
    if (json_object_set_new(account, "seal", json_string(zeros)) != 0)
        return pith_fail_nomem(err, path);
    PITH_TRY(pith_json_text(path, account, &text, &size, err));
    char *digits = find_digits(text, size);
    enum pith_status s = digits && pith_sha256_hex(text, size, hex) ? PITH_OK
                                                                    : pith_fail_nomem(err, path);
    if (s == PITH_OK && json_object_set_new(account, "seal", json_string(hex)) != 0)
        s = pith_fail_nomem(err, path);
    if (s == PITH_OK) {
        memcpy(digits, hex, DIGITS);
        s = pith_file_write(path, text, size, err);
    }
    pith_free(text);
    return s;
}

/* Puts zeros in the place of the digits. */
static bool is_intact(char *text, size_t size, const char *seal)
{
    char hex[PITH_SHA256_HEX], *digits = find_digits(text, size);
    if (!seal || !digits || memcmp(digits, seal, strlen(seal)) != 0) return false;
    memcpy(digits, zeros, DIGITS);
    return pith_sha256_hex(text, size, hex) && strcmp(hex, seal) == 0;
}

enum pith_status pith_account_load(const char *path, json_t **out, enum pith_seal *seal,
                                   struct pith_error *err)
{
    char *text;
    size_t size;
    json_t *j = NULL;
    PITH_TRY(pith_file_read(path, LIMIT, &text, &size, err));
    enum pith_status s = pith_json_parse(text, size, path, &j, err);
    if (s == PITH_OK && !json_is_object(j))
        s = pith_fail(err, PITH_FORMAT, "%s: not a JSON object", path);
    if (s == PITH_OK) {
        const json_t *is = json_object_get(j, "seal");
        const char *digits = json_string_length(is) == DIGITS ? json_string_value(is) : NULL;
        *seal = !is                             ? PITH_SEAL_NONE
                : is_intact(text, size, digits) ? PITH_SEAL_INTACT
                                                : PITH_SEAL_BROKEN;
        *out = json_incref(j);
    }
    json_decref(j);
    pith_free(text);
    return s;
}
