/* Which tokens end an answer: what the files say, and what tokens are called. */
#include "base/mem.h"
#include "io/gguf_model.h"
#include "tok/kind.h"
#include "tok/special.h"

#include <string.h>

/* What llama.cpp calls the end of a turn, and of a message. */
static enum pith_status gguf_ends(const char *path, struct pith_ids *out, size_t vocab,
                                  struct pith_error *err)
{
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    struct pith_gguf g;
    PITH_TRY(pith_gguf_open(path, &g, err));
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < PITH_COUNT(keys) && s == PITH_OK; i++) {
        uint64_t id = UINT64_MAX;
        s = pith_gguf_get_uint(&g, keys[i], UINT32_MAX, &id, err);
        if (s == PITH_OK && id < vocab && !pith_ids_push(out, (int32_t)id))
            s = pith_fail_nomem(err, "ids");
    }
    pith_gguf_close(&g);
    return s;
}

/* Tokens that end an answer by what they are called, wherever a file says nothing of them. */
static const char *const names[] = {
#define PITH_END(text) text,
#include "tok/ends.def"
#undef PITH_END
};

static bool has_token(const struct pith_tokenizer *t, const char *text)
{
    return pith_tokenizer_find(t, text) >= 0;
}

/* Whether an answer may have several messages, each of which <|end|> ends: other tokens end the
 * answer (gpt-oss, Solar Open). */
static bool has_messages(const struct pith_tokenizer *t)
{
    const bool calls = has_token(t, "<|call|>") || has_token(t, "<|calls|>");
    return calls && (has_token(t, "<|return|>") || has_token(t, "<|flush|>"));
}

/* Only what never stands for itself in a text. */
enum pith_status pith_special_named_ends(const struct pith_tokenizer *t, struct pith_ids *out,
                                         struct pith_error *err)
{
    const bool messages = has_messages(t), responses = has_token(t, "<|tool_response>");
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        const int32_t id = pith_tokenizer_find(t, names[i]);
        size_t len = 0;
        if (id < 0 || (messages && strcmp(names[i], "<|end|>") == 0)) continue;
        if (responses && strcmp(names[i], "</s>") == 0) continue; /* a tag of HTML, to Gemma 4 */
        const char *shown = t->kind->token(t->model, id, true, &len);
        if ((!shown || len == 0) && !pith_ids_push(out, id)) return pith_fail_nomem(err, "ids");
    }
    return PITH_OK;
}

/* Each id once. */
static void drop_doubles(struct pith_ids *ids, size_t from)
{
    size_t kept = from;
    for (size_t i = from, k; i < ids->count; i++) {
        for (k = from; k < kept && ids->id[k] != ids->id[i]; k++) continue;
        if (k == kept) ids->id[kept++] = ids->id[i];
    }
    ids->count = kept;
}

enum pith_status pith_tokenizer_ends(const struct pith_tokenizer *t, const char *model,
                                     struct pith_ids *out, struct pith_error *err)
{
    char *file;
    const size_t from = out->count;
    if (t->eos >= 0 && !pith_ids_push(out, t->eos)) return pith_fail_nomem(err, "ids");
    PITH_TRY(pith_gguf_at(model, &file, err));
    const enum pith_status s = file
                                   ? gguf_ends(file, out, pith_tokenizer_vocab(t), err)
                                   : pith_special_ends(t, model, out, err);
    pith_free(file);
    PITH_TRY(s);
    PITH_TRY(pith_special_named_ends(t, out, err));
    drop_doubles(out, from);
    return PITH_OK;
}
