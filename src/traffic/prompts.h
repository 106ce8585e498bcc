/* traffic/prompts.h: prompts of so many tokens, as text or as token ids. */
#ifndef PITH_TRAFFIC_PROMPTS_H
#define PITH_TRAFFIC_PROMPTS_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What prompts are made of. Start with pith_words_open(). */
struct pith_words {
    char *text;      /* owned: the words, each with its NUL */
    uint32_t *start; /* owned: [count], where in it they begin */
    size_t count;
    bool runs;       /* words of a text stay in its order */
    double per_word; /* tokens that a word comes to */
    double fixed;    /* tokens of a prompt without words: what the server puts around it */
    json_int_t *id;  /* owned: [ids], tokens that prompts of ids are drawn from; NULL: text */
    size_t ids;
    size_t prefix; /* tokens before every prompt, always the same */
    uint64_t prefix_seed;
};

/* The words of a file (UTF-8; what is not is skipped), or for NULL those of pith, common English
 * ones, which most vocabularies have whole. PITH_FORMAT: a file without words; PITH_IO. */
enum pith_status pith_words_open(const char *path, struct pith_words *out, struct pith_error *err);
void pith_words_free(struct pith_words *w); /* all of it */

/* A prompt of so many tokens, the prefix before it not counted, as exactly as `per_word` and
 * `fixed` are: a string, or an array of ids. NULL when memory is out. */
json_t *pith_words_prompt(const struct pith_words *w, size_t tokens, uint64_t seed);
/* A text of so many words. */
json_t *pith_words_text(const struct pith_words *w, size_t count, uint64_t seed);

#endif
