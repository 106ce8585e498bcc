#include "quantize/output/seal.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "io/json_members.h"

#include <string.h>

enum { DIGITS = PITH_SHA256_HEX - 1 };
static const char zeros[PITH_SHA256_HEX] =
    "0000000000000000000000000000000000000000000000000000000000000000";
static const char opening[] = "\"seal\": \"";

/* Where the digits of the seal stand: behind the last of its openings. NULL without. */
static const char *find_digits(const char *text, size_t size)
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
    const char *digits = find_digits(text, size);
    enum pith_status s = digits && pith_sha256_hex(text, size, hex) ? PITH_OK
                                                                    : pith_fail_nomem(err, path);
    if (s == PITH_OK && json_object_set_new(account, "seal", json_string(hex)) != 0)
        s = pith_fail_nomem(err, path);
    if (s == PITH_OK) {
        memcpy(text + (digits - text), hex, DIGITS);
        s = pith_file_write(path, text, size, err);
    }
    pith_free(text);
    return s;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The hash is that of the file with zeros in the place of the digits. */
static bool is_intact(const struct pith_map *map, const char *seal)
{
    char hex[PITH_SHA256_HEX];
    const char *text = (const char *)map->data, *digits = find_digits(text, map->size);
    if (!digits || memcmp(digits, seal, DIGITS) != 0) return false;
    struct pith_sha256 *h = pith_sha256_new();
    pith_sha256_update(h, text, (size_t)(digits - text));
    pith_sha256_update(h, zeros, DIGITS);
    digits += DIGITS;
    pith_sha256_update(h, digits, map->size - (size_t)(digits - text));
    pith_sha256_finish(h, hex);
    return strcmp(hex, seal) == 0;
}

static enum pith_seal seal_of(const struct pith_account *a)
{
    const json_t *is = json_object_get(a->head, "seal");
    if (!is) return PITH_SEAL_NONE;
    return json_string_length(is) == DIGITS && is_intact(&a->map, json_string_value(is))
               ? PITH_SEAL_INTACT
               : PITH_SEAL_BROKEN;
}

static struct pith_entries *list_of(struct pith_account *a, const struct pith_member *m)
{
    if (m->value[0] != '[') return NULL;
    if (pith_member_is(m, "linears")) return &a->linears;
    return pith_member_is(m, "tensors") ? &a->tensors : NULL;
}

/* The text without what stands in the lists, which are read; one that is there twice is in that
 * text twice. */
static enum pith_status read_lists(struct pith_account *a, struct pith_str *head,
                                   struct pith_error *err)
{
    const char *text = (const char *)a->map.data, *rest = text;
    struct pith_members walk;
    struct pith_member m;
    bool more = true;
    enum pith_status s = pith_members_begin(&walk, text, a->map.size, err);
    while (s == PITH_OK && (s = pith_members_next(&walk, &m, &more, err)) == PITH_OK && more) {
        struct pith_entries *list = list_of(a, &m);
        if (!list) continue;
        pith_entries_close(list);
        s = pith_entries_open(&a->map, m.value, m.value_size, list, err);
        pith_str_append(head, rest, (size_t)(m.value - rest));
        pith_str_puts(head, "[]");
        rest = m.value + m.value_size;
    }
    pith_members_end(&walk);
    if (s == PITH_OK) pith_str_append(head, rest, a->map.size - (size_t)(rest - text));
    return s == PITH_OK && head->failed ? pith_fail_nomem(err, "pith.json") : s;
}

static enum pith_status read_account(struct pith_account *a, struct pith_error *err)
{
    struct pith_str head = {0};
    enum pith_status s = read_lists(a, &head, err);
    if (s != PITH_OK) s = pith_fail_in(err, s, a->path);
    else s = pith_json_parse(pith_str_text(&head), head.len, a->path, &a->head, err);
    pith_str_free(&head);
    PITH_TRY(s);
    a->seal = seal_of(a);
    pith_map_release(&a->map, 0, a->map.size);
    return PITH_OK;
}

enum pith_status pith_account_open(const char *path, struct pith_account *out,
                                   struct pith_error *err)
{
    *out = (struct pith_account){.path = pith_strdup(path)};
    if (!out->path) return pith_fail_nomem(err, path);
    enum pith_status s = pith_map_open(path, &out->map, err);
    if (s == PITH_OK) s = read_account(out, err);
    if (s != PITH_OK) pith_account_close(out);
    return s;
}

void pith_account_close(struct pith_account *a)
{
    pith_entries_close(&a->linears);
    pith_entries_close(&a->tensors);
    json_decref(a->head);
    if (a->path) pith_map_close(&a->map);
    pith_free(a->path);
    *a = (struct pith_account){0};
}
