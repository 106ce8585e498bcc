/* What a folder made of a GGUF file has apart from its weights: tokenizer_config.json with chat
 * templates and special tokens, generation_config.json with the ends of an answer. */
#include "tok/files/gguf_folder.h"

#include "base/mem.h"
#include "tok/chat/templates.h"
#include "tok/files/gguf.h"

static bool set_text(json_t *object, const char *key, const char *text, size_t length)
{
    return json_object_set_new(object, key, json_stringn(text, length)) == 0;
}

/* The text of a special token's id, where the file names one. */
static enum pith_status put_token(const struct pith_gguf *g, const struct pith_tokenizer *t,
                                  const char *const names[2], json_t *config,
                                  struct pith_error *err)
{
    uint64_t id = UINT64_MAX;
    size_t length = 0;
    PITH_TRY(pith_gguf_get_uint(g, names[0], UINT32_MAX, &id, err));
    if (id >= pith_tokenizer_vocab(t)) return PITH_OK;
    const char *text = t->kind->token(t->model, (int32_t)id, false, &length);
    if (!text) return PITH_OK;
    return set_text(config, names[1], text, length) ? PITH_OK : pith_fail_nomem(err, names[1]);
}

/* Templates by name: a list, with the usual one as "default", where there are several. */
static enum pith_status put_templates(const struct pith_gguf *g, json_t *config,
                                      struct pith_error *err)
{
    struct pith_templates t;
    const char *name;
    json_t *text, *list = json_array();
    const enum pith_status s = pith_templates_of(g, &t, err);
    if (s != PITH_OK) {
        json_decref(list);
        return s;
    }
    json_object_foreach (t.text, name, text)
        pith_json_add(&list, json_pack("{s:s, s:O}", "name", name, "template", text));
    const size_t count = json_object_size(t.text);
    text = json_object_get(t.text, "default");
    const bool ok = list && (count == 0 || json_object_set(config, "chat_template",
                                                           count == 1 && text ? text : list) == 0);
    json_decref(list);
    pith_templates_free(&t);
    return ok ? PITH_OK : pith_fail_nomem(err, "templates");
}

static enum pith_status make_config(const struct pith_gguf *g, const struct pith_tokenizer *t,
                                    json_t *config, struct pith_error *err)
{
    static const char *const names[][2] = {
        {"tokenizer.ggml.bos_token_id", "bos_token"},
        {"tokenizer.ggml.eos_token_id", "eos_token"},
        {"tokenizer.ggml.unknown_token_id", "unk_token"},
        {"tokenizer.ggml.padding_token_id", "pad_token"},
        {"tokenizer.ggml.seperator_token_id", "sep_token"}, /* spelt so in the files */
        {"tokenizer.ggml.cls_token_id", "cls_token"},
        {"tokenizer.ggml.mask_token_id", "mask_token"}};
    for (size_t i = 0; i < PITH_COUNT(names); i++) PITH_TRY(put_token(g, t, names[i], config, err));
    return put_templates(g, config, err);
}

static enum pith_status make_generation(const struct pith_gguf *g, const struct pith_tokenizer *t,
                                        json_t **out, struct pith_error *err)
{
    struct pith_ids ends = {0};
    enum pith_status s = pith_tok_gguf_ends(t, g, &ends, err);
    json_t *config = json_object(), *list = json_array();
    if (t->bos >= 0) pith_json_set(&config, "bos_token_id", json_integer(t->bos));
    for (size_t i = 0; i < ends.count; i++) pith_json_add(&list, json_integer(ends.id[i]));
    if (ends.count == 1) pith_json_set(&config, "eos_token_id", json_integer(ends.id[0]));
    else if (ends.count > 1) pith_json_set(&config, "eos_token_id", json_incref(list));
    pith_ids_free(&ends);
    if (s == PITH_OK && (!config || !list)) s = pith_fail_nomem(err, "generation_config.json");
    json_decref(list);
    if (s == PITH_OK) *out = config;
    else json_decref(config);
    return s;
}

enum pith_status pith_gguf_folder(const struct pith_gguf *g, struct pith_gguf_folder *out,
                                  struct pith_error *err)
{
    struct pith_tokenizer *t;
    *out = (struct pith_gguf_folder){0};
    PITH_TRY(pith_tokenizer_from_gguf(g, &t, err));
    out->tokenizer_config =
        json_pack("{s:s, s:b, s:b, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                  "add_bos_token", (int)pith_tokenizer_adds_bos(t), "add_eos_token",
                  (int)pith_tokenizer_adds_eos(t), "clean_up_tokenization_spaces", 0);
    enum pith_status s = out->tokenizer_config ? make_config(g, t, out->tokenizer_config, err)
                                               : pith_fail_nomem(err, "tokenizer_config.json");
    if (s == PITH_OK) s = make_generation(g, t, &out->generation_config, err);
    pith_tokenizer_close(t);
    if (s != PITH_OK) pith_gguf_folder_free(out);
    return s;
}

void pith_gguf_folder_free(struct pith_gguf_folder *f)
{
    json_decref(f->tokenizer_config);
    json_decref(f->generation_config);
    *f = (struct pith_gguf_folder){0};
}
