/* What a tokenizer.json that is made of a GGUF file takes; base/json.c counts a file's text so. */
#include "io/checkpoint.h"
#include "tok/files/gguf_lists.h"
#include "tok/files/spm_model.h"
#include "tok/tokenizer.h"

/* As a tree, with what malloc adds; as text with its indentation; besides what the words have. */
enum { TOKEN_TREE = 156, ADDED_TREE = 1200, MERGE_TREE = 96, PAIR_TREE = 448 };
enum { TOKEN_TEXT = 24, ADDED_TEXT = 260, MERGE_TEXT = 12, PAIR_TEXT = 48 };
enum { PAIRS = 2 /* ways to put a piece of SentencePiece's together, a piece: Llama 2 has 1.9 */ };

/* The bytes of a list's texts, without their lengths. */
static uint64_t words(const struct pith_gguf_key *list)
{
    return list ? list->size - list->count * sizeof(uint64_t) : 0;
}

uint64_t pith_tokenizer_json_bytes(const struct pith_checkpoint *c)
{
    struct pith_gguf_lists l;
    if (!c->gguf || pith_gguf_lists_get(c->gguf, &l, NULL) != PITH_OK) return 0;
    const uint64_t tokens = l.tokens->count, merges = l.merges ? l.merges->count : 0;
    const uint64_t pairs = l.merges ? 0 : PAIRS * tokens;
    const uint64_t paired = l.merges ? 0 : PAIRS * words(l.tokens);
    const uint64_t all = words(l.tokens) + words(l.merges) + paired;
    uint64_t added = 0;
    for (size_t i = 0; i < tokens; i++) {
        const int32_t type = pith_gguf_lists_type(&l, i);
        added += type == PITH_SPM_CONTROL || type == PITH_SPM_UNKNOWN || type == PITH_SPM_USER;
    }
    const uint64_t tree = tokens * TOKEN_TREE + added * ADDED_TREE + merges * MERGE_TREE +
                          pairs * PAIR_TREE + all;
    const uint64_t text = tokens * TOKEN_TEXT + added * ADDED_TEXT + merges * MERGE_TEXT +
                          pairs * PAIR_TEXT + all;
    return tree + 3 * text; /* the text, which grows by doubling, or a member of it sorted */
}
