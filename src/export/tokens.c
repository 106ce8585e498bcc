#include "export/tokens.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "export/gguf.h"
#include "tok/tokenizer.h"

#include <string.h>

#define MOST_FILE ((size_t)512 << 20)

/* Appends "ENGINE: TEXT". */
static enum pith_status add(json_t *problems, const char *engine, const char *text,
                            struct pith_error *err)
{
    struct pith_str s = {0};
    pith_str_printf(&s, "%s: %s", engine, text);
    const bool ok = !s.failed && json_array_append_new(problems, pith_json_name(s.data)) == 0;
    pith_str_free(&s);
    return ok ? PITH_OK : pith_fail_nomem(err, "a message");
}

/* --- Hugging Face ----------------------------------------------------------------------------- */

/* A tokenizer.json by its rules; other files are read by programs of the model's own class. */
static enum pith_status check_hf(const struct pith_checkpoint *c, const char *engine,
                                 json_t *problems, struct pith_error *err)
{
    char whose[80], *path = pith_path_join(c->dir, "tokenizer.json"), *text = NULL;
    size_t size = 0;
    enum pith_status s = path ? PITH_OK : pith_fail_nomem(err, "tokenizer");
    if (s == PITH_OK && pith_path_exists(path))
        s = pith_file_read(path, MOST_FILE, &text, &size, err);
    pith_free(path);
    snprintf(whose, sizeof whose, "%s: tokenizer.json", engine);
    if (text) s = pith_hf_tokenizer(whose, text, size, problems, err);
    pith_free(text);
    return s;
}

/* --- llama.cpp -------------------------------------------------------------------------------- */

/* A file has a token for each row of the embedding; of a folder its converter makes one. */
static enum pith_status check_llamacpp(const struct pith_model *m, const char *engine,
                                       json_t *problems, struct pith_error *err)
{
    const struct pith_checkpoint *c = m->checkpoint;
    struct pith_gguf_keys keys = {0};
    struct pith_error why = {0};
    char text[120];
    if (!c->gguf) {
        const enum pith_status s =
            pith_gguf_put_tokenizer(c->dir, NULL, m->shape.vocab, &keys, &why);
        pith_gguf_keys_free(&keys);
        if (s == PITH_NOMEM) return pith_fail_nomem(err, "tokenizer");
        return s == PITH_OK ? PITH_OK : add(problems, engine, why.text, err);
    }
    const struct pith_gguf_key *tokens = pith_gguf_find(c->gguf, "tokenizer.ggml.tokens");
    if (!tokens || tokens->count == m->shape.vocab) return PITH_OK;
    snprintf(text, sizeof text, "%llu tokens, and %u rows in the embedding",
             (unsigned long long)tokens->count, (unsigned)m->shape.vocab);
    return add(problems, engine, text, err);
}

enum pith_status pith_preflight_tokens(const struct pith_model *m, const char *target,
                                       json_t *problems, struct pith_error *err)
{
    struct pith_target t;
    bool present = false;
    PITH_TRY(pith_target_parse(target, &t, err));
    PITH_TRY(pith_tokenizer_present(m->checkpoint->dir, &present, err));
    if (!present) return PITH_OK;
    switch (t.engine->tokens) {
    case PITH_TOKENS_HF:
        return m->checkpoint->file_form
                   ? PITH_OK
                   : check_hf(m->checkpoint, t.engine->name, problems, err);
    case PITH_TOKENS_LLAMACPP: return check_llamacpp(m, t.engine->name, problems, err);
    case PITH_TOKENS_ANY: break;
    }
    return PITH_OK;
}
