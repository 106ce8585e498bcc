#define _POSIX_C_SOURCE 200809L
#include "io/hf_files.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* A model card describes another model than the one that is made: it stays behind.
 * A name is taken when a `taken` pattern matches and no `left` pattern does. */
static const char *const taken[] = {
    "tokenizer*", "*.json", "*.model", "*.tiktoken", "*.jinja", "merges.txt", "vocab.txt", "*.py",
};
static const char *const texts[] = {"LICENSE*", "LICENCE*", "NOTICE*", "USE_POLICY*"};

static const char *const left[] = {
    ".*",
    "config.json",
    "*.index.json",
    "quantize_config.json",
    "quant_config.json",
    "hf_quant_config.json",
    "pith.json",
    "pith.kv.json",      /* of these weights alone: choose/kv_auto.h, */
    "pith.kvquant.json", /* choose/kv_levels.h */
    "*.safetensors",
    "*.bin",
    "*.pt",
    "*.pth",
    "*.gguf",
    "*.h5",
    "*.msgpack",
    "*.onnx",
    "*.tmp",
};

static bool matches(const char *const *patterns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (pith_glob_match(patterns[i], name)) return true;
    return false;
}

static bool is_taken(const char *name)
{
    return matches(taken, PITH_COUNT(taken), name) || matches(texts, PITH_COUNT(texts), name);
}

bool pith_checkpoint_reads(const char *name)
{
    return name[0] != '.' && !pith_glob_match("*.tmp", name) &&
           (matches(taken, PITH_COUNT(taken), name) || matches(left, PITH_COUNT(left), name));
}

static enum pith_status check_regular(const char *dir, const char *name, bool *regular,
                                      struct pith_error *err)
{
    char *path = pith_path_join(dir, name);
    if (!path) return pith_fail_nomem(err, dir);
    struct stat st;
    *regular = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    pith_free(path);
    return PITH_OK;
}

/* "additional_chat_templates/NAME" of each name in that folder; none where there is no such. */
static enum pith_status list_templates(const char *dir, char ***names, size_t *count,
                                       struct pith_error *err)
{
    char *path = pith_path_join(dir, PITH_TEMPLATES_DIR);
    *names = NULL;
    *count = 0;
    enum pith_status s = path ? PITH_OK : pith_fail_nomem(err, dir);
    if (s == PITH_OK && pith_path_is_dir(path)) s = pith_dir_list(path, names, count, err);
    pith_free(path);
    for (size_t i = 0; i < *count && s == PITH_OK; i++) {
        char *inner = pith_path_join(PITH_TEMPLATES_DIR, (*names)[i]);
        if (!inner) s = pith_fail_nomem(err, dir);
        else pith_free((*names)[i]), (*names)[i] = inner;
    }
    if (s != PITH_OK) pith_names_free(*names, *count);
    return s;
}

enum pith_status pith_checkpoint_names(const char *dir, char ***names, size_t *count,
                                       struct pith_error *err)
{
    char **inner;
    size_t more;
    PITH_TRY(pith_dir_list(dir, names, count, err));
    enum pith_status s = list_templates(dir, &inner, &more, err);
    if (s == PITH_OK) s = pith_names_add(names, count, inner, more, err);
    if (s != PITH_OK) pith_names_free(*names, *count);
    return s;
}

enum pith_status pith_checkpoint_copy(const char *from, const char *to, const char *name,
                                      struct pith_error *err)
{
    const bool inner = strncmp(name, PITH_TEMPLATES_DIR "/", sizeof PITH_TEMPLATES_DIR) == 0;
    char *is = pith_path_join(from, name), *will = pith_path_join(to, name);
    char *dir = pith_path_join(to, PITH_TEMPLATES_DIR);
    enum pith_status s = is && will && dir ? PITH_OK : pith_fail_nomem(err, name);
    if (s == PITH_OK && inner) s = pith_dir_make(dir, err);
    if (s == PITH_OK) s = pith_file_copy(is, will, err);
    if (s == PITH_OK && inner) s = pith_dir_sync(dir, err);
    pith_free(is);
    pith_free(will);
    pith_free(dir);
    return s;
}

enum pith_status pith_checkpoint_side_files(const char *dir, char ***names, size_t *count,
                                            struct pith_error *err)
{
    char **all;
    size_t n, chosen = 0;
    enum pith_status s = PITH_OK;
    PITH_TRY(pith_checkpoint_names(dir, &all, &n, err));
    for (size_t i = 0; i < n; i++) {
        bool keep = s == PITH_OK && is_taken(all[i]) && !matches(left, PITH_COUNT(left), all[i]);
        if (keep) s = check_regular(dir, all[i], &keep, err);
        if (keep && s == PITH_OK) all[chosen++] = all[i];
        else pith_free(all[i]);
    }
    if (s != PITH_OK) {
        pith_names_free(all, chosen);
        return s;
    }
    *names = all;
    *count = chosen;
    return PITH_OK;
}
