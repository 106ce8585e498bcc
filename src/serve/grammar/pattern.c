/* Patterns of schemas: an expression, and the assertions of what follows that it may begin with. */
#include "serve/grammar/chars.h"

#include "base/mem.h"

#include <string.h>

enum { MOST_ASSERTIONS = 16 };

/* The end of a group that begins at text[0], behind its bracket; NULL: there is none. */
static const char *group_end(const char *text)
{
    int depth = 0;
    bool class = false;
    for (; *text; text++) {
        if (*text == '\\' && text[1]) text++;
        else if (class) class = *text != ']';
        else if (*text == '[') class = true;
        else if (*text == '(') depth++;
        else if (*text == ')' && --depth == 0) return text + 1;
    }
    return NULL;
}

/* Whether there are alternatives outside of all groups. */
static bool has_choice(const char *text)
{
    bool class = false;
    for (; *text; text++) {
        if (*text == '\\' && text[1]) text++;
        else if (class) class = *text != ']';
        else if (*text == '[') class = true;
        else if (*text == '|') return true;
        else if (*text == '(') {
            const char *end = group_end(text);
            if (!end) return false;
            text = end - 1;
        }
    }
    return false;
}

/* Texts that begin with what an assertion's body matches; the body may have another ^. */
static enum pith_status ahead(const char *body, size_t len, struct pith_chars *out,
                              struct pith_error *err)
{
    const bool choice = memchr(body, '|', len) != NULL;
    char *text = pith_alloc(len + 8, 1);
    if (!text) return pith_fail_nomem(err, "pattern");
    if (len && *body == '^') body++, len--;
    text[0] = 0;
    strcat(text, choice ? "^(?:" : "^");
    strncat(text, body, len);
    if (choice) strcat(text, ")");
    const enum pith_status s = pith_chars_regex(text, true, out, err);
    pith_free(text);
    return s;
}

/* Behind ^: the assertions one by one, then the rest. */
static enum pith_status assertions(const char *at, int left, struct pith_chars *out,
                                   struct pith_error *err)
{
    const bool keep = strncmp(at, "(?=", 3) == 0;
    if (!keep && strncmp(at, "(?!", 3) != 0) {
        char *rest = pith_alloc(strlen(at) + 2, 1);
        if (!rest) return pith_fail_nomem(err, "pattern");
        rest[0] = '^';
        strcpy(rest + 1, at);
        const enum pith_status s = pith_chars_regex(rest, true, out, err);
        pith_free(rest);
        return s;
    }
    const char *end = group_end(at);
    struct pith_chars one = {0};
    if (!end) return pith_fail(err, PITH_FORMAT, "a group without its end");
    if (left == 0) return pith_fail(err, PITH_LIMIT, "too many look-aheads");
    PITH_TRY(ahead(at + 3, (size_t)(end - at) - 4, &one, err));
    enum pith_status s = assertions(end, left - 1, out, err);
    if (s == PITH_OK) {
        s = pith_chars_sift(out, &one, keep, err);
        if (s != PITH_OK) pith_chars_free(out);
    }
    pith_chars_free(&one);
    return s;
}

enum pith_status pith_chars_pattern(const char *pattern, struct pith_chars *out,
                                    struct pith_error *err)
{
    const bool asserts = strncmp(pattern, "^(?=", 4) == 0 || strncmp(pattern, "^(?!", 4) == 0;
    if (asserts && !has_choice(pattern)) return assertions(pattern + 1, MOST_ASSERTIONS, out, err);
    return pith_chars_regex(pattern, true, out, err);
}
