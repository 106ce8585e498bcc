#define PCRE2_CODE_UNIT_WIDTH 8
#include "io/container/module_match.h"

#include "base/mem.h"
#include "io/json_members.h"
#include "io/parts.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* What a hostile list may cost; real ones have a few hundred short entries. */
#define MAX_PATTERNS 100000
#define MAX_PATTERN 4096
#define MATCH_LIMIT 100000u

/* What stands before the first sign with a meaning: "^model\.layers\.3\." of many an entry. Most
 * modules differ there, and no matcher is needed. */
static size_t literal_of(const char *text)
{
    int depth = 0;
    size_t n = text[0] == '^';
    if (strpbrk(text, "[#") || strstr(text, "\\Q")) return 0;
    for (const char *p = text; *p; p++) {
        if (*p == '\\' && p[1]) p++;
        else if (*p == '(') depth++;
        else if (*p == ')') depth--;
        else if (*p == '|' && depth == 0) return 0;
    }
    for (;;) {
        const size_t step = text[n] == '\\' && text[n + 1] == '.' ? 2 : 1;
        const char c = text[n + step - 1];
        const bool plain = step == 2 || c == '_' || (c >= '0' && c <= '9') ||
                           (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!plain || (text[n + step] && strchr("*?+{", text[n + step]))) return n;
        n += step;
    }
}

static bool begins_so(const struct pith_pattern *p, const char *module)
{
    for (size_t i = p->text[0] == '^'; i < p->literal; i++) {
        if (p->text[i] == '\\') continue;
        if (p->text[i] != *module++) return false;
    }
    return true;
}

enum pith_status pith_pattern_regex(const char *text, const char *where, struct pith_pattern *out,
                                    struct pith_error *err)
{
    *out = (struct pith_pattern){.text = text};
    if (strlen(text) > MAX_PATTERN)
        return pith_fail(err, PITH_FORMAT, "%s: a pattern of %zu bytes is too long", where,
                         strlen(text));
    pcre2_general_context *general = pcre2_general_context_create(pith_lend, pith_take_back, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    int code = PCRE2_ERROR_NOMEMORY;
    PCRE2_SIZE at = 0;
    if (context)
        out->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                                  PCRE2_UTF | PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C, &code, &at,
                                  context);
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    if (out->code) {
        out->literal = literal_of(text);
        return PITH_OK;
    }
    if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED)
        return pith_fail_nomem(err, "a pattern");
    char reason[128] = "";
    pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
    return pith_fail(err, PITH_FORMAT, "%s: pattern \"%.100s\": %s", where, text, reason);
}

void pith_pattern_free(struct pith_pattern *p)
{
    pcre2_code_free(p->code);
    p->code = NULL;
}

/* The class that transformers gives a module of that name. */
static const char *class_of(const char *module)
{
    return pith_module_is_embedding(module) ? "Embedding" : "Linear";
}

static enum pith_status run(const struct pith_pattern *p, const char *module, bool *matched,
                            struct pith_error *err)
{
    *matched = false;
    if (!begins_so(p, module)) return PITH_OK;
    pcre2_general_context *general = pcre2_general_context_create(pith_lend, pith_take_back, NULL);
    pcre2_match_context *context = general ? pcre2_match_context_create(general) : NULL;
    pcre2_match_data *data = context ? pcre2_match_data_create(1, general) : NULL;
    int rc = PCRE2_ERROR_NOMEMORY;
    if (data) {
        pcre2_set_match_limit(context, MATCH_LIMIT);
        pcre2_set_depth_limit(context, MATCH_LIMIT);
        pcre2_set_heap_limit(context, 16u << 10);
        rc = pcre2_match(p->code, (PCRE2_SPTR)module, PCRE2_ZERO_TERMINATED, 0, 0, data, context);
    }
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_general_context_free(general);
    if (rc == PCRE2_ERROR_NOMEMORY) return pith_fail_nomem(err, "a pattern");
    *matched = rc >= 0;
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "pattern \"%.100s\" cannot be matched with \"%.100s\"",
                     p->text, module);
}

enum pith_status pith_pattern_match(const struct pith_pattern *p, const char *module,
                                    enum pith_match_rank *rank, struct pith_error *err)
{
    bool matched = false;
    *rank = PITH_MATCH_NONE;
    if (p->code) {
        PITH_TRY(run(p, module, &matched, err));
        if (matched) *rank = PITH_MATCH_REGEX;
    } else if (strcmp(p->text, module) == 0) {
        *rank = PITH_MATCH_NAME;
    } else if (strcmp(p->text, class_of(module)) == 0) {
        *rank = PITH_MATCH_CLASS;
    }
    return PITH_OK;
}

static enum pith_status add(const json_t *entry, const char *where, struct pith_pattern *out,
                            struct pith_error *err)
{
    const char *text = pith_json_plain(entry);
    if (!text) return pith_fail(err, PITH_FORMAT, "%s: an entry is not a string", where);
    if (strncmp(text, "re:", 3) == 0) return pith_pattern_regex(text + 3, where, out, err);
    *out = (struct pith_pattern){.text = text};
    return PITH_OK;
}

static int compare(const void *a, const void *b)
{
    const struct pith_pattern *x = a, *y = b;
    if (!x->code != !y->code) return x->code ? 1 : -1;
    return strcmp(x->text, y->text);
}

enum pith_status pith_patterns_new(const json_t *list, const char *where, struct pith_patterns *out,
                                   struct pith_error *err)
{
    *out = (struct pith_patterns){0};
    if (!list || json_is_null(list)) return PITH_OK;
    if (!json_is_array(list)) return pith_fail(err, PITH_FORMAT, "%s: not a list", where);
    const size_t n = json_array_size(list);
    if (n > MAX_PATTERNS) return pith_fail(err, PITH_FORMAT, "%s: %zu entries", where, n);
    out->item = pith_zalloc(n, sizeof *out->item);
    if (!out->item) return pith_fail_nomem(err, where);
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < n && s == PITH_OK; i++) {
        s = add(json_array_get(list, i), where, &out->item[i], err);
        if (s == PITH_OK) out->count++;
    }
    if (s != PITH_OK) {
        pith_patterns_free(out);
        return s;
    }
    if (n) qsort(out->item, n, sizeof *out->item, compare);
    while (out->names < n && !out->item[out->names].code) out->names++;
    return PITH_OK;
}

void pith_patterns_free(struct pith_patterns *p)
{
    for (size_t i = 0; i < p->count; i++) pith_pattern_free(&p->item[i]);
    pith_free(p->item);
    *p = (struct pith_patterns){0};
}

static bool has_name(const struct pith_patterns *p, const char *name)
{
    const struct pith_pattern key = {.text = name};
    return p->names && bsearch(&key, p->item, p->names, sizeof *p->item, compare);
}

enum pith_status pith_patterns_match(const struct pith_patterns *p, const char *module,
                                     enum pith_match_rank *rank, struct pith_error *err)
{
    *rank = has_name(p, module)             ? PITH_MATCH_NAME
            : has_name(p, class_of(module)) ? PITH_MATCH_CLASS
                                            : PITH_MATCH_NONE;
    for (size_t i = p->names; i < p->count && *rank < PITH_MATCH_REGEX; i++) {
        bool matched;
        PITH_TRY(run(&p->item[i], module, &matched, err));
        if (matched) *rank = PITH_MATCH_REGEX;
    }
    return PITH_OK;
}

bool pith_module_listed(const json_t *list, const char *module)
{
    const size_t n = strlen(module);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        const size_t m = name ? strlen(name) : 0;
        if (m == 0 || m > n) continue;
        const char *end = module + n - m;
        if (strncmp(module, name, m) == 0 && (module[m] == '.' || !module[m])) return true;
        if (strcmp(end, name) == 0 && (end == module || end[-1] == '.')) return true;
    }
    return false;
}
