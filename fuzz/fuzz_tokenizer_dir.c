/* A folder of small files as a tokenizer: vocab.json with merges.txt, added tokens, what the
 * configs say of special tokens, in any state. Opening refuses it with a message or gives a
 * tokenizer whose special tokens are tokens and that equals itself.
 *
 *     for each file in the order below: u16 length, 0xffff when it is missing; then its bytes */
#include "folder.h"

#include "tok/compare.h"
#include "tok/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const files[] = {
    "vocab.json",        "merges.txt",      "tokenizer_config.json",
    "added_tokens.json", "config.json",     "generation_config.json",
    "tokenizer.json",    "tokenizer.model", "tiktoken.model",
    "tekken.json"};

static void use(struct pith_tokenizer *t)
{
    struct pith_error err = {0};
    struct pith_ids ids = {0};
    struct pith_str text = {0};
    const size_t vocab = pith_tokenizer_vocab(t);
    (void)pith_tokenizer_adds_bos(t);
    (void)pith_tokenizer_find(t, "a");
    if (pith_tokenizer_compare(t, t, &text, &err) != PITH_OK || text.len) abort();
    if (pith_tokenizer_eos(t) >= 0 && (size_t)pith_tokenizer_eos(t) >= vocab) abort();
    if (pith_tokenizer_bos(t) >= 0 && (size_t)pith_tokenizer_bos(t) >= vocab) abort();
    if (pith_tokenizer_encode(t, "a b<s>12", 8, true, &ids, &err) == PITH_OK) {
        for (size_t i = 0; i < ids.count; i++)
            if (ids.id[i] < 0 || (size_t)ids.id[i] >= vocab) abort();
        (void)pith_tokenizer_decode(t, ids.id, ids.count, false, &text, &err);
    }
    pith_ids_free(&ids);
    pith_str_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)folder_put_all(files, sizeof files / sizeof files[0], data, size);
    struct pith_tokenizer *t = NULL;
    bool present = false;
    struct pith_error err = {0};
    const enum pith_status looked = pith_tokenizer_present(folder(), &present, NULL);
    if (pith_tokenizer_open(folder(), &t, &err) == PITH_OK) {
        if (looked != PITH_OK || !present) abort();
        use(t);
    } else if (!err.text[0]) {
        abort();
    }
    pith_tokenizer_close(t);
    return 0;
}
