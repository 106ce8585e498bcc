/* Which tokens end an answer: what the files say, and what tokens are called. */
#include "base/mem.h"
#include "io/gguf/model.h"
#include "tok/files/gguf.h"
#include "tok/special.h"

#include <string.h>

/* The ends of a message in llama.cpp: end of turn and of message. */
static enum pith_status put_keys(const struct pith_gguf *g, size_t vocab, struct pith_ids *out,
                                 struct pith_error *err)
{
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < PITH_COUNT(keys); i++) {
        uint64_t id = UINT64_MAX;
        PITH_TRY(pith_gguf_get_uint(g, keys[i], UINT32_MAX, &id, err));
        if (id < vocab && !pith_ids_push(out, (int32_t)id)) return pith_fail_nomem(err, "ids");
    }
    return PITH_OK;
}

/* Tokens that end an answer by what they are called, wherever a file says nothing of them. */
enum unless { ALWAYS, MESSAGES, RESPONSES };
static const struct {
    const char *text;
    enum unless unless;
} names[] = {
#define PITH_END(text, unless) {text, unless},
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
    const bool has[] = {[ALWAYS] = false,
                        [MESSAGES] = has_messages(t),
                        [RESPONSES] = has_token(t, "<|tool_response>")};
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        const int32_t id = pith_tokenizer_find(t, names[i].text);
        size_t len = 0;
        if (id < 0 || has[names[i].unless]) continue;
        const char *shown = t->kind->token(t->model, id, true, &len);
        if ((!shown || len == 0) && !pith_ids_push(out, id)) return pith_fail_nomem(err, "ids");
    }
    return PITH_OK;
}

/* Each id once. */
static void drop_doubles(struct pith_ids *ids, size_t from)
{
    size_t count = from;
    for (size_t i = from, k; i < ids->count; i++) {
        for (k = from; k < count && ids->id[k] != ids->id[i]; k++) continue;
        if (k == count) ids->id[count++] = ids->id[i];
    }
    ids->count = count;
}

/* Of an open file, else of a folder. */
static enum pith_status put_ends(const struct pith_tokenizer *t, const struct pith_gguf *g,
                                 const char *dir, struct pith_ids *out, struct pith_error *err)
{
    const size_t from = out->count;
    if (t->eos >= 0 && !pith_ids_push(out, t->eos)) return pith_fail_nomem(err, "ids");
    if (g) PITH_TRY(put_keys(g, pith_tokenizer_vocab(t), out, err));
    else PITH_TRY(pith_special_ends(t, dir, out, err));
    PITH_TRY(pith_special_named_ends(t, out, err));
    drop_doubles(out, from);
    return PITH_OK;
}

enum pith_status pith_tok_gguf_ends(const struct pith_tokenizer *t, const struct pith_gguf *g,
                                    struct pith_ids *out, struct pith_error *err)
{
    return put_ends(t, g, NULL, out, err);
}

enum pith_status pith_tokenizer_ends(const struct pith_tokenizer *t, const char *model,
                                     struct pith_ids *out, struct pith_error *err)
{
    char *file;
    struct pith_gguf g;
    PITH_TRY(pith_gguf_at(model, &file, err));
    if (!file) return put_ends(t, NULL, model, out, err);
    enum pith_status s = pith_gguf_open(file, &g, err);
    pith_free(file);
    PITH_TRY(s);
    s = put_ends(t, &g, NULL, out, err);
    pith_gguf_close(&g);
    return s;
}
