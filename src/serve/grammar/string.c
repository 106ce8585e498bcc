/* Strings as rules. A length is counted by calls: a string of many characters is a row of segments
 * of one length, which are one rule, and a last part that is shorter. */
#include "base/mem.h"
#include "serve/grammar/chars.h"
#include "serve/grammar/rules.h"

#include <stdio.h>
#include <string.h>

/* A state of an expression takes about as long as so many small things. */
enum { STATE_SIZE = 128 };
/* Characters of a segment; of a string of a format that has no longest one and a maxLength; and
 * what a given value's length is compared with by an automaton. */
enum { SEGMENT = 64, MOST_OF_FORMAT = 512 };

/* What is written of a format when fewer characters are allowed than its longest text has: one of
 * fewer parts, so that few states are counted for each length. */
static const struct {
    const char *format;
    json_int_t below; /* a maxLength */
    const char *expression;
} simpler[] = {
    {"uri", PITH_CHARS_NO_LIMIT,
     "https?://(?:[A-Za-z0-9]{1,20}\\.){0,2}[A-Za-z][A-Za-z0-9]{0,20}"
     "(?:/[A-Za-z0-9._~/=&?-]*)?"},
    {"email", 250, "[A-Za-z0-9_+-]{1,20}@[A-Za-z0-9]{1,15}\\.[a-z]{2,5}"},
    {"hostname", 250, "[A-Za-z0-9]{1,20}(?:\\.[A-Za-z0-9]{1,20})?"},
};

/* The expression of a format where a flat schema has it; NULL: any text. */
static const char *format_of(const json_t *flat, const char *name)
{
    const json_t *max = json_object_get(flat, "maxLength");
    const char *expression = NULL;
    if (!pith_schema_format(name, &expression)) return NULL;
    for (size_t i = 0; i < PITH_COUNT(simpler) && max; i++)
        if (strcmp(name, simpler[i].format) == 0 && json_integer_value(max) < simpler[i].below)
            return simpler[i].expression;
    return expression;
}

static enum pith_status spend(struct pith_rules *r, struct pith_chars *c, struct pith_error *err)
{
    const enum pith_status s = pith_schema_spend(&r->schema, (size_t)c->states * STATE_SIZE, err);
    if (s != PITH_OK) pith_chars_free(c);
    return s;
}

enum pith_status pith_rules_pattern(struct pith_rules *r, const char *pattern,
                                    struct pith_chars *out, struct pith_error *err)
{
    PITH_TRY(pith_chars_pattern(pattern, out, err));
    PITH_TRY(spend(r, out, err));
    return pith_chars_trim(out, err);
}

/* The rest of a set of texts of those of another (keep), or of the others; the other is freed.
 */
static enum pith_status sift(struct pith_rules *r, struct pith_chars *c, struct pith_chars *by,
                             bool keep, struct pith_error *err)
{
    const enum pith_status s = pith_chars_sift(c, by, keep, err);
    pith_chars_free(by);
    PITH_TRY(s);
    PITH_TRY(spend(r, c, err));
    return pith_chars_trim(c, err);
}

/* The texts of a set that another has too; all: the first is not made yet, and has all texts. */
static enum pith_status narrow(struct pith_rules *r, struct pith_chars *c, bool all,
                               struct pith_chars *by, struct pith_error *err)
{
    if (!all) return sift(r, c, by, true, err);
    *c = *by;
    return PITH_OK;
}

/* The texts of the patterns, and of the formats, of a flat schema; *any: there are some. */
static enum pith_status expressions(struct pith_rules *r, const json_t *flat, struct pith_chars *c,
                                    bool *any, struct pith_error *err)
{
    const json_t *patterns = json_object_get(flat, "pattern"),
                 *formats = json_object_get(flat, "format");
    for (size_t i = 0; i < json_array_size(patterns); i++) {
        struct pith_chars one = {0};
        PITH_TRY(pith_rules_pattern(r, json_string_value(json_array_get(patterns, i)), &one, err));
        PITH_TRY(narrow(r, c, !*any, &one, err));
        *any = true;
    }
    for (size_t i = 0; i < json_array_size(formats); i++) {
        struct pith_chars one = {0};
        const char *expression = format_of(flat, json_string_value(json_array_get(formats, i)));
        if (!expression) continue;
        PITH_TRY(pith_chars_regex(expression, false, &one, err));
        PITH_TRY(spend(r, &one, err));
        PITH_TRY(narrow(r, c, !*any, &one, err));
        *any = true;
    }
    return PITH_OK;
}

struct lengths {
    uint32_t min, max;
};

static struct lengths lengths_of(const json_t *flat)
{
    const json_t *max = json_object_get(flat, "maxLength");
    return (struct lengths){
        (uint32_t)json_integer_value(json_object_get(flat, "minLength")),
        max ? (uint32_t)json_integer_value(max) : PITH_CHARS_NO_LIMIT,
    };
}

/* Of texts, those of some lengths. A bound that none reaches is omitted; of a format of which
 * texts are endless, no long ones are written. */
static enum pith_status limit(struct pith_rules *r, const json_t *flat, struct lengths l,
                              struct pith_chars *c, struct pith_error *err)
{
    struct pith_chars counted = {0};
    uint32_t longest;
    PITH_TRY(pith_chars_longest(c, &longest, err));
    if (longest <= l.max) l.max = PITH_CHARS_NO_LIMIT;
    else if (json_array_size(json_object_get(flat, "format")) &&
             !json_array_size(json_object_get(flat, "pattern")) && l.max > MOST_OF_FORMAT)
        l.max = l.min > MOST_OF_FORMAT ? l.min : MOST_OF_FORMAT;
    if (l.min == 0 && l.max == PITH_CHARS_NO_LIMIT) return PITH_OK;
    PITH_TRY(pith_chars_length(l.min, l.max, &counted, err));
    return narrow(r, c, false, &counted, err);
}

static enum pith_status chars_of(struct pith_rules *r, const json_t *flat, struct pith_chars *out,
                                 bool *any, struct pith_error *err)
{
    enum pith_status s = expressions(r, flat, out, any, err);
    if (s == PITH_OK && *any) s = limit(r, flat, lengths_of(flat), out, err);
    if (s != PITH_OK) pith_chars_free(out);
    return s;
}

/* Takes from some texts those of a list that are strings. */
static enum pith_status without_words(struct pith_rules *r, const json_t *list,
                                      struct pith_chars *c, struct pith_error *err)
{
    const size_t size = json_array_size(list);
    const char **word = pith_alloc(size ? size : 1, sizeof *word);
    struct pith_chars words = {0};
    size_t n = 0;
    if (!word) return pith_fail_nomem(err, "schema");
    for (size_t i = 0; i < size; i++)
        if (pith_schema_is_word(json_array_get(list, i)))
            word[n++] = json_string_value(json_array_get(list, i));
    enum pith_status s = n ? pith_chars_words(word, n, &words, err) : PITH_OK;
    if (n && s == PITH_OK) s = sift(r, c, &words, false, err);
    pith_free(word);
    return s;
}

/* Takes from some texts what a flat schema says that they are not; frees all after a failure. */
static enum pith_status without(struct pith_rules *r, const json_t *flat, struct pith_chars *c,
                                struct pith_error *err)
{
    const json_t *unlike = json_object_get(flat, "unlike");
    enum pith_status s = without_words(r, json_object_get(flat, "except"), c, err);
    for (size_t i = 0; i < json_array_size(unlike) && s == PITH_OK; i++) {
        struct pith_chars by = {0};
        s = pith_rules_chars(r, json_array_get(unlike, i), &by, err);
        if (s == PITH_OK) s = sift(r, c, &by, false, err);
    }
    if (s != PITH_OK) pith_chars_free(c);
    return s;
}

enum pith_status pith_rules_chars(struct pith_rules *r, const json_t *flat, struct pith_chars *out,
                                  struct pith_error *err)
{
    const struct lengths l = lengths_of(flat);
    bool any = false;
    PITH_TRY(chars_of(r, flat, out, &any, err));
    if (!any) PITH_TRY(pith_chars_length(l.min, l.max, out, err));
    return without(r, flat, out, err);
}

enum pith_status pith_rules_strings(struct pith_rules *r, const json_t *flat,
                                    struct pith_chars *out, struct pith_error *err)
{
    enum { MOST_WORDS = 1024 };
    const json_t *values = json_object_get(flat, "enum");
    const char *word[MOST_WORDS];
    size_t n = 0;
    struct pith_chars words = {0};
    if (json_array_size(json_object_get(flat, "any")))
        return pith_fail(err, PITH_UNSUPPORTED, "schema: alternatives in \"propertyNames\"");
    if (!(pith_schema_types(flat) & PITH_TYPE_STRING)) return PITH_OK;
    PITH_TRY(pith_rules_chars(r, flat, out, err));
    if (!values) return PITH_OK;
    for (size_t i = 0; i < json_array_size(values) && n < MOST_WORDS; i++)
        if (pith_schema_is_word(json_array_get(values, i)))
            word[n++] = json_string_value(json_array_get(values, i));
    enum pith_status s = n == MOST_WORDS
                             ? pith_fail(err, PITH_LIMIT, "schema: too many \"propertyNames\"")
                             : pith_chars_words(word, n, &words, err);
    if (s == PITH_OK) s = narrow(r, out, false, &words, err);
    if (s != PITH_OK) pith_chars_free(out);
    return s;
}

/* The rule of lo..hi characters, made once. */
static enum pith_status segment(struct pith_rules *r, struct lengths l, uint32_t *rule,
                                struct pith_error *err)
{
    struct pith_chars chars = {0};
    char key[40];
    snprintf(key, sizeof key, "length %u %u", l.min, l.max); /* no text of a schema */
    const json_t *known = json_object_get(r->known, key);
    if (known) {
        *rule = (uint32_t)json_integer_value(known);
        return PITH_OK;
    }
    PITH_TRY(pith_chars_length(l.min, l.max, &chars, err));
    *rule = pith_net_add_rule(r->net);
    if (r->net->failed == PITH_OK)
        pith_net_chars(r->net, r->net->rule[*rule].start, &chars, true, r->net->rule[*rule].final);
    pith_chars_free(&chars);
    if (json_object_set_new(r->known, key, json_integer(*rule)) == 0) return PITH_OK;
    return pith_fail_nomem(err, "schema");
}

/* Ways by min..max characters: from each place between segments, one more, or the rest to less
 * than one more. */
static enum pith_status count(struct pith_rules *r, struct lengths l, uint32_t from, uint32_t to,
                              struct pith_error *err)
{
    uint32_t whole = 0, rule = 0, done = 0;
    PITH_TRY(segment(r, (struct lengths){SEGMENT, SEGMENT}, &whole, err));
    for (; r->net->failed == PITH_OK; done += SEGMENT) {
        const bool open = l.max == PITH_CHARS_NO_LIMIT && done + SEGMENT > l.min,
                   last = open || l.max - done < SEGMENT;
        struct lengths left = {l.min > done ? l.min - done : 0,
                               open ? PITH_CHARS_NO_LIMIT : last ? l.max - done : SEGMENT - 1};
        if (left.min <= left.max) {
            PITH_TRY(segment(r, left, &rule, err));
            pith_net_call(r->net, from, rule, to);
        }
        if (last) break;
        const uint32_t next = pith_net_add(r->net);
        pith_net_call(r->net, from, whole, next);
        from = next;
    }
    return PITH_OK;
}

/* No string that a flat schema leaves out one by one has so many characters; 0: it has none. */
static uint32_t longest_word(const json_t *flat)
{
    const json_t *except = json_object_get(flat, "except");
    size_t longest = 0;
    for (size_t i = 0; i < json_array_size(except); i++) {
        const size_t n = json_string_length(json_array_get(except, i)) + 1;
        if (json_is_string(json_array_get(except, i)) && n > longest) longest = n;
    }
    return (uint32_t)longest;
}

/* Strings of many lengths, and of no form: those no longer than an omitted word are an
 * automaton, the rest are counted. */
static enum pith_status counted(struct pith_rules *r, const json_t *flat, uint32_t from,
                                uint32_t to, struct pith_error *err)
{
    struct lengths l = lengths_of(flat);
    const uint32_t word = longest_word(flat);
    struct pith_chars chars = {0};
    if (word && word >= l.min) {
        PITH_TRY(pith_chars_length(l.min, l.max < word ? l.max : word, &chars, err));
        PITH_TRY(without(r, flat, &chars, err));
        pith_net_chars(r->net, from, &chars, true, to);
        pith_chars_free(&chars);
        l.min = word + 1;
    }
    return l.min > l.max ? PITH_OK : count(r, l, from, to, err);
}

enum pith_status pith_rules_string(struct pith_rules *r, const json_t *flat,
                                   const struct pith_net_rule *at, struct pith_error *err)
{
    const struct lengths l = lengths_of(flat);
    const uint32_t first = pith_net_add(r->net), last = pith_net_add(r->net);
    struct pith_chars chars = {0};
    bool any = false;
    pith_net_bytes(r->net, at->start, '"', '"', first);
    pith_net_bytes(r->net, last, '"', '"', at->final);
    PITH_TRY(chars_of(r, flat, &chars, &any, err));
    if (!any && !json_object_get(flat, "unlike") &&
        (l.min > SEGMENT || (l.max > SEGMENT && l.max != PITH_CHARS_NO_LIMIT)))
        return l.min > l.max ? PITH_OK : counted(r, flat, first, last, err);
    enum pith_status s = any ? PITH_OK : pith_chars_length(l.min, l.max, &chars, err);
    if (s == PITH_OK) s = without(r, flat, &chars, err);
    if (s == PITH_OK) pith_net_chars(r->net, first, &chars, true, last);
    pith_chars_free(&chars);
    return s;
}
