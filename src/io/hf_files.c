#define _POSIX_C_SOURCE 200809L
#include "io/hf_files.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdbool.h>
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
    "pith.kv.json",      /* of these weights alone: pipe/kv_auto.h, */
    "pith.kvquant.json", /* pipe/kv_levels.h */
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

enum pith_status pith_checkpoint_side_files(const char *dir, char ***names, size_t *count,
                                            struct pith_error *err)
{
    char **all;
    size_t n, kept = 0;
    enum pith_status s = PITH_OK;
    PITH_TRY(pith_dir_list(dir, &all, &n, err));
    for (size_t i = 0; i < n; i++) {
        bool keep = s == PITH_OK && is_taken(all[i]) && !matches(left, PITH_COUNT(left), all[i]);
        if (keep) s = check_regular(dir, all[i], &keep, err);
        if (keep && s == PITH_OK) all[kept++] = all[i];
        else pith_free(all[i]);
    }
    if (s != PITH_OK) {
        pith_names_free(all, kept);
        return s;
    }
    *names = all;
    *count = kept;
    return PITH_OK;
}
