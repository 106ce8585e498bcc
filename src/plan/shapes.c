/* shapes.json, made part of the program by the assembler. */
#include "plan/shapes.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

__asm__(".section .rodata\n"
        ".global pith_shapes_text\n"
        ".hidden pith_shapes_text\n"
        ".balign 16\n"
        "pith_shapes_text:\n"
        ".incbin \"src/plan/shapes.json\"\n"
        "pith_shapes_text_end:\n"
        ".byte 0\n"
        ".balign 8\n"
        ".global pith_shapes_text_size\n"
        ".hidden pith_shapes_text_size\n"
        "pith_shapes_text_size:\n"
        ".quad pith_shapes_text_end - pith_shapes_text\n"
        ".previous\n");
extern const char pith_shapes_text[];
extern const uint64_t pith_shapes_text_size;

enum pith_status pith_shapes_read(json_t **out, struct pith_error *err)
{
    return pith_json_parse(pith_shapes_text, (size_t)pith_shapes_text_size, "shapes.json", out,
                           err);
}

const json_t *pith_shapes_find(const json_t *shapes, const char *name)
{
    const json_t *s;
    size_t i;
    json_array_foreach (shapes, i, s)
        if (strcasecmp(json_string_value(json_object_get(s, "name")), name) == 0) return s;
    return NULL;
}

/* --- names as people write them --------------------------------------------------------------- */

enum { WORDS = 16, WORD = 16 };

/* "meta-llama/Llama-3.1-70B-Instruct": llama, 3.1, 70b. */
struct words {
    char word[WORDS][WORD];
    size_t count;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Words that name a way of training or a date, and no shape. */
static bool is_idle(const char *word)
{
    static const char *const idle[] = {"instruct", "chat", "it", "base",    "hf", "meta",
                                       "pt",       "gguf", "v",  "preview", "1.0"};
    const bool date = strlen(word) == 4 && word[0] == '2' && strspn(word, "0123456789") == 4;
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++)
        if (strcmp(word, idle[i]) == 0) return true;
    return date;
}

/* One word from *at on: letters, or a number with what follows it; "" at the end. */
static void next_word(const char **at, char word[WORD])
{
    const char *p = *at;
    size_t n = 0;
    while (*p && !is_digit(*p) && !is_letter(*p)) p++;
    const bool number = is_digit(*p);
    for (; *p; p++) {
        const bool dot = *p == '.' && number && is_digit(p[-1]) && is_digit(p[1]);
        if (!dot && !is_letter(*p) && (!is_digit(*p) || !number)) break;
        if (n + 1 < WORD) word[n++] = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    }
    word[n] = '\0';
    *at = p;
}

/* Without who published it. */
static void split(const char *name, struct words *out)
{
    const char *slash = strrchr(name, '/'), *at = slash ? slash + 1 : name;
    char word[WORD];
    out->count = 0;
    for (next_word(&at, word); *word && out->count < WORDS; next_word(&at, word))
        if (!is_idle(word)) memcpy(out->word[out->count++], word, WORD);
}

static bool is_version(const char *word)
{
    return strspn(word, "0123456789.") == strlen(word);
}

/* Whether all wanted words occur in that order among a shape's. *version: the first number of the
 * remaining ones; *rest: whether a word remains that is no number. */
static bool matches(const struct words *wanted, const struct words *shape, double *version,
                    bool *rest)
{
    size_t at = 0;
    *version = 0;
    *rest = false;
    for (size_t i = 0; i < shape->count; i++) {
        const char *word = shape->word[i];
        if (at < wanted->count && strcmp(wanted->word[at], word) == 0) at++;
        else if (!is_version(word)) *rest = true;
        else if (*version == 0) *version = strtod(word, NULL);
    }
    return wanted->count > 0 && at == wanted->count;
}

static void add_name(char *names, size_t size, const json_t *shape)
{
    const size_t used = strlen(names);
    const char *name = json_string_value(json_object_get(shape, "name"));
    if (used + strlen(name) + 3 < size) {
        if (used) strcat(names, ", ");
        strcat(names, name);
    }
}

/* Among those of the same words but numbers the newest; others are as good, and none is meant. */
struct search {
    const json_t *best;
    double version;
    size_t rests; /* that have further words */
    bool plain;   /* the best has none */
    char *names;
};

static void weigh(struct search *s, const json_t *shape, double version, bool rest)
{
    add_name(s->names, PITH_SHAPE_NAMES, shape);
    s->rests += rest;
    if (s->best && (s->plain ? rest || version < s->version : rest)) return;
    s->best = shape;
    s->version = version;
    s->plain = !rest;
}

static void match_all(const json_t *shapes, const struct words *wanted, struct search *found)
{
    const json_t *s, *also;
    size_t i, k;
    json_array_foreach (shapes, i, s) {
        struct words words;
        double version;
        bool rest, hit;
        split(json_string_value(json_object_get(s, "name")), &words);
        hit = matches(wanted, &words, &version, &rest);
        json_array_foreach (json_object_get(s, "also"), k, also) {
            if (hit) break;
            split(json_string_value(also), &words);
            hit = matches(wanted, &words, &version, &rest) && !rest && version == 0;
        }
        if (hit) weigh(found, s, version, rest);
    }
}

/* Shapes of the same family, for who meant another. */
static void list_family(const json_t *shapes, const struct words *wanted, char *names)
{
    const json_t *s;
    size_t i;
    json_array_foreach (shapes, i, s) {
        struct words words;
        split(json_string_value(json_object_get(s, "name")), &words);
        if (wanted->count && words.count && strcmp(wanted->word[0], words.word[0]) == 0)
            add_name(names, PITH_SHAPE_NAMES, s);
    }
}

const json_t *pith_shapes_match(const json_t *shapes, const char *name,
                                char names[PITH_SHAPE_NAMES])
{
    struct words wanted;
    struct search found = {.names = names};
    const json_t *exact = pith_shapes_find(shapes, name);
    names[0] = '\0';
    if (exact) return exact;
    split(name, &wanted);
    match_all(shapes, &wanted, &found);
    if (found.best && (found.plain || found.rests == 1)) return found.best;
    if (!found.best) list_family(shapes, &wanted, names);
    return NULL;
}
