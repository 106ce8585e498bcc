/* Every byte of the files that is no tensor's data, against the account. */
#include "verify/verify.h"

#include "io/digest.h"
#include "io/hf_files.h"

#include <string.h>

/* --- pith.json itself ------------------------------------------------------------------------- */

static void check_seal(struct pith_verification *v)
{
    const size_t before = pith_problems(v);
    const int64_t version = pith_account_version(v->account);
    if (version < 1 || version > PITH_ACCOUNT_VERSION)
        pith_problem(v, "pith.json: is of version %lld, and this pith knows those up to %d",
                     (long long)version, PITH_ACCOUNT_VERSION);
    if (v->file.seal == PITH_SEAL_BROKEN)
        pith_problem(v, "pith.json: was changed after pith wrote it: its seal does not fit");
    else if (v->file.seal == PITH_SEAL_NONE && json_object_get(v->account, "files"))
        pith_problem(v, "pith.json: was changed after pith wrote it: its seal is gone");
    pith_checked(v, before, "pith.json: as pith sealed it");
}

/* --- files ------------------------------------------------------------------------------------ */

/* What of `is` differs from `was`, key by key; the number of problems. */
static size_t compare_keys(struct pith_verification *v, const char *file, const json_t *was,
                           const json_t *is)
{
    const size_t before = pith_problems(v);
    const char *key;
    json_t *hash;
    json_object_foreach ((json_t *)(uintptr_t)was, key, hash) {
        const json_t *now = json_object_get(is, key);
        if (!now) pith_problem(v, "%s: \"%s\" is gone", file, key);
        else if (!json_equal(now, hash))
            pith_problem(v, "%s: \"%s\" is not as pith wrote it", file, key);
    }
    json_object_foreach ((json_t *)(uintptr_t)is, key, hash)
        if (!json_object_get(was, key)) pith_problem(v, "%s: \"%s\" was added", file, key);
    return pith_problems(v) - before;
}

static void compare_file(struct pith_verification *v, const char *name, const json_t *was,
                         const json_t *is)
{
    const json_t *keys = json_object_get(was, "keys"), *now = json_object_get(is, "keys");
    if (json_equal(json_object_get(was, "sha256"), json_object_get(is, "sha256")) &&
        json_equal(json_object_get(was, "bytes"), json_object_get(is, "bytes")))
        return;
    if (now && compare_keys(v, name, keys, now) > 0) return;
    pith_problem(v, "%s: what it holds besides tensors is not as pith wrote it", name);
}

/* Files that somebody added: a loader may take them, or nobody does. */
static void check_added(struct pith_verification *v, const json_t *is, const json_t *recorded)
{
    const json_t *entry;
    size_t i;
    json_array_foreach (is, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (json_object_get(recorded, name)) continue;
        if (pith_checkpoint_reads(name))
            pith_problem(v, "%s: is not in pith.json, and engines read files of that name", name);
        else pith_note(v, "%s: is not in pith.json", name);
    }
}

static enum pith_status by_name(const json_t *list, json_t **out, struct pith_error *err)
{
    json_t *entry;
    size_t i;
    *out = json_object();
    if (!*out) return pith_fail_nomem(err, "the list of files");
    json_array_foreach (list, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name && json_object_set(*out, name, entry) != 0) {
            json_decref(*out);
            return pith_fail_nomem(err, "the list of files");
        }
    }
    return PITH_OK;
}

static void compare_lists(struct pith_verification *v, json_t *was, const json_t *list, json_t *is)
{
    const char *name;
    json_t *entry;
    json_object_foreach (was, name, entry) {
        const json_t *now = json_object_get(is, name);
        if (now) compare_file(v, name, entry, now);
        else pith_problem(v, "%s: missing", name);
    }
    check_added(v, list, was);
}

enum pith_status pith_verify_files(struct pith_verification *v, struct pith_error *err)
{
    const size_t before = pith_problems(v);
    const json_t *files = json_object_get(v->account, "files");
    json_t *list = NULL, *was = NULL, *is = NULL;
    check_seal(v);
    if (!files && pith_account_version(v->account) < 2) {
        pith_note(v, "pith.json is of version 1: it covers tensors, not configs and tokenizers");
        return PITH_OK;
    }
    PITH_TRY(pith_checkpoint_digest(v->checkpoint, &list, err));
    enum pith_status s = by_name(files, &was, err);
    if (s == PITH_OK) {
        s = by_name(list, &is, err);
        if (s == PITH_OK) compare_lists(v, was, list, is);
        json_decref(s == PITH_OK ? is : NULL);
        json_decref(was);
    }
    json_decref(list);
    if (s == PITH_OK)
        pith_checked(v, before, "%zu file%s: headers, configs, keys and tokenizer as written",
                     json_array_size(files), json_array_size(files) == 1 ? "" : "s");
    return s;
}
