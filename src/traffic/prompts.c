#include "traffic/prompts.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

enum { TEXT_MOST = 1 << 28, WORD_MOST = 200 };

static const char common[] =
    "the of and to in a is that for it was on are as with his they at be this from have or by one "
    "had not but what all were when we there can an your which their said if do will each about "
    "how up out them then she many some so these would other into has more her two like him see "
    "time could no make than first been its who now people my made over did down only way find "
    "use may water long little very after words called just where most know get through back "
    "much before go good new write our used me man too any day same right look think also around "
    "another came come work three word must because does part even place well such here take why "
    "things help put years different away again off went old number great tell men say small "
    "every found still between name should home big give air line set own under read last never "
    "us left end along while might next sound below saw something thought both few those always "
    "looked show large often together asked house world going want school important until form "
    "food keep children feet land side without boy once animals life enough took sometimes four "
    "head above kind began almost live page got earth need far hand high year mother light parts "
    "country father let night following picture being study second eyes soon times story boys "
    "since white days ever paper hard near sentence better best across during today others "
    "however sure means knew try told young miles sun ways thing whole hear example heard several "
    "change answer room sea against top turned learn point city play toward five using himself";

static bool is_space(char c)
{
    return (unsigned char)c <= ' ' || c == 0x7f;
}

static bool is_utf8(const char *word, size_t size)
{
    json_t *j = json_stringn(word, size);
    json_decref(j);
    return j != NULL;
}

/* Takes the words apart; `text` has them as they are sent: cut, each with its NUL. */
static size_t split(char *text, size_t size, uint32_t *start)
{
    size_t count = 0, to = 0;
    for (size_t at = 0; at < size;) {
        size_t n = 0;
        while (at + n < size && !is_space(text[at + n])) n++;
        if (n > 0 && n <= WORD_MOST && is_utf8(text + at, n)) {
            if (start) {
                memmove(text + to, text + at, n);
                start[count] = (uint32_t)to;
                to += n;
                text[to++] = '\0';
            }
            count++;
        }
        at += n + 1;
    }
    return count;
}

enum pith_status pith_words_open(const char *path, struct pith_words *out, struct pith_error *err)
{
    size_t size = sizeof common - 1;
    *out = (struct pith_words){.per_word = 1, .runs = path != NULL};
    if (path) PITH_TRY(pith_file_read(path, TEXT_MOST, &out->text, &size, err));
    else out->text = pith_strdup(common);
    if (!out->text) return pith_fail_nomem(err, "the words of prompts");
    out->count = split(out->text, size, NULL);
    if (out->count == 0) {
        pith_words_free(out);
        return pith_fail(err, PITH_FORMAT, "%s: no words in it", path);
    }
    out->start = pith_alloc(out->count, sizeof *out->start);
    if (out->start) {
        (void)split(out->text, size, out->start);
        return PITH_OK;
    }
    pith_words_free(out);
    return pith_fail_nomem(err, "the words of prompts");
}

void pith_words_free(struct pith_words *w)
{
    pith_free(w->text);
    pith_free(w->start);
    pith_free(w->id);
    *w = (struct pith_words){0};
}

/* Appends words, a blank before each but the first of all. */
static void append(struct pith_str *out, const struct pith_words *w, size_t count, uint64_t seed)
{
    struct pith_rng rng;
    pith_rng_seed(&rng, seed);
    size_t at = (size_t)pith_rng_below(&rng, w->count);
    for (size_t i = 0; i < count; i++) {
        if (out->len > 0) pith_str_putc(out, ' ');
        pith_str_puts(out, w->text + w->start[at]);
        at = w->runs ? (at + 1) % w->count : (size_t)pith_rng_below(&rng, w->count);
    }
}

static json_t *take(struct pith_str *s)
{
    json_t *j = s->failed ? NULL : json_stringn(pith_str_text(s), s->len);
    pith_str_free(s);
    return j;
}

json_t *pith_words_text(const struct pith_words *w, size_t count, uint64_t seed)
{
    struct pith_str s = {0};
    append(&s, w, count, seed);
    return take(&s);
}

static void append_ids(json_t **list, const struct pith_words *w, size_t count, uint64_t seed)
{
    struct pith_rng rng;
    pith_rng_seed(&rng, seed);
    for (size_t i = 0; i < count; i++)
        pith_json_add(list, json_integer(w->id[pith_rng_below(&rng, w->ids)]));
}

/* Words that come to so many tokens. */
static size_t words_for(const struct pith_words *w, double tokens)
{
    return (size_t)fmax(round(tokens / w->per_word), 0);
}

json_t *pith_words_prompt(const struct pith_words *w, size_t tokens, uint64_t seed)
{
    struct pith_str s = {0};
    const double own = fmax((double)tokens - w->fixed, 1);
    if (w->id) {
        json_t *list = json_array();
        append_ids(&list, w, w->prefix, w->prefix_seed);
        append_ids(&list, w, (size_t)own, seed);
        return list;
    }
    append(&s, w, words_for(w, (double)w->prefix), w->prefix_seed);
    append(&s, w, (size_t)fmax((double)words_for(w, own), 1), seed);
    return take(&s);
}
