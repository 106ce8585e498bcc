#include "tok/pretokenizer.h"

#include "base/mem.h"
#include "tok/component.h"
#include "tok/unicode/bytemap.h"
#include "tok/unicode/utf8.h"

#include <string.h>

static const char what[] = "pre_tokenizer";

/* Steps call each other, so their number bounds the depth of the stack. */
#define MAX_STEPS 64

/* What happens between a match and its neighbours: `joins`: whether the boundary between two
 * consecutive parts disappears. */
struct behavior {
    const char *name;
    bool (*joins)(bool match_before, bool match);
    bool removes_matches;
};

enum prepend { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER };

struct step_kind {
    enum pith_status (*apply)(struct pith_pretok_run *run, size_t step, struct pith_piece piece,
                              struct pith_error *err);
};

struct pith_pretok_step {
    const struct step_kind *kind;
    struct pith_regex *pattern;      /* split */
    const struct behavior *behavior; /* split */
    bool invert;                     /* split */
    char mark[8];                    /* metaspace: the replacement of a space, NUL-terminated */
    enum prepend prepend;            /* metaspace */
};

struct pith_pretok_run {
    const struct pith_pretokenizer *p;
    pith_piece_fn *fn;
    void *ctx;
    struct pith_regex_run regex;
    struct pith_str *text; /* one buffer for each step */
    size_t limit;          /* none of them must become longer */
};

static bool joins_never(bool before, bool match)
{
    (void)before;
    (void)match;
    return false;
}

static bool joins_equal(bool before, bool match)
{
    return before == match;
}

static bool joins_previous(bool before, bool match)
{
    return match && !before;
}

static bool joins_next(bool before, bool match)
{
    return before && !match;
}

static const struct behavior behaviors[] = {
    {"Isolated", joins_never, false},      {"Removed", joins_never, true},
    {"Contiguous", joins_equal, false},    {"MergedWithPrevious", joins_previous, false},
    {"MergedWithNext", joins_next, false},
};

static const struct behavior *find_behavior(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(behaviors); i++)
        if (strcmp(behaviors[i].name, name) == 0) return &behaviors[i];
    return NULL;
}

/* Hands a piece to a step, or out. Pieces that became empty are dropped. */
static enum pith_status next(struct pith_pretok_run *run, size_t step, struct pith_piece piece,
                             struct pith_error *err)
{
    if (piece.len == 0) return PITH_OK;
    if (step == run->p->count) return run->fn(run->ctx, piece, err);
    return run->p->step[step].kind->apply(run, step, piece, err);
}

/* The part that is being put together while split runs. */
struct splitting {
    struct pith_pretok_run *run;
    size_t step;
    struct pith_piece piece;
    size_t from, to;
    bool open, match;
};

static enum pith_status flush(struct splitting *s, struct pith_error *err)
{
    const struct behavior *b = s->run->p->step[s->step].behavior;
    if (!s->open || (b->removes_matches && s->match)) return PITH_OK;
    const struct pith_piece piece = {s->piece.text + s->from, s->to - s->from,
                                     s->piece.first && s->from == 0};
    return next(s->run, s->step + 1, piece, err);
}

static enum pith_status split_part(void *ctx, size_t from, size_t to, bool match,
                                   struct pith_error *err)
{
    struct splitting *s = ctx;
    const struct pith_pretok_step *step = &s->run->p->step[s->step];
    if (step->invert) match = !match;
    if (s->open && step->behavior->joins(s->match, match)) {
        s->to = to;
        s->match = match;
        return PITH_OK;
    }
    PITH_TRY(flush(s, err));
    s->from = from;
    s->to = to;
    s->match = match;
    s->open = true;
    return PITH_OK;
}

static enum pith_status apply_split(struct pith_pretok_run *run, size_t step,
                                    struct pith_piece piece, struct pith_error *err)
{
    struct splitting s = {.run = run, .step = step, .piece = piece};
    PITH_TRY(pith_regex_parts(run->p->step[step].pattern, &run->regex, piece.text, piece.len,
                              split_part, &s, err));
    return flush(&s, err);
}

static enum pith_status rewritten(struct pith_pretok_run *run, size_t step, bool first,
                                  struct pith_error *err)
{
    const struct pith_str *s = &run->text[step];
    if (s->failed) return pith_fail_nomem(err, what);
    if (s->len > run->limit)
        return pith_fail(err, PITH_LIMIT, "the tokenizer's %s makes this text too long", what);
    return next(run, step + 1, (struct pith_piece){s->data, s->len, first}, err);
}

static enum pith_status apply_prefix_space(struct pith_pretok_run *run, size_t step,
                                           struct pith_piece piece, struct pith_error *err)
{
    if (piece.text[0] == ' ') return next(run, step + 1, piece, err);
    struct pith_str *s = &run->text[step];
    pith_str_clear(s);
    pith_str_putc(s, ' ');
    pith_str_append(s, piece.text, piece.len);
    return rewritten(run, step, piece.first, err);
}

static enum pith_status apply_byte_map(struct pith_pretok_run *run, size_t step,
                                       struct pith_piece piece, struct pith_error *err)
{
    struct pith_str *s = &run->text[step];
    pith_str_clear(s);
    pith_bytemap_put(piece.text, piece.len, s);
    return rewritten(run, step, piece.first, err);
}

static enum pith_status apply_metaspace(struct pith_pretok_run *run, size_t step,
                                        struct pith_piece piece, struct pith_error *err)
{
    const struct pith_pretok_step *m = &run->p->step[step];
    const size_t mark_len = strlen(m->mark);
    const bool marked = piece.text[0] == ' ' ||
                        (piece.len >= mark_len && memcmp(piece.text, m->mark, mark_len) == 0);
    const bool wanted = m->prepend == PREPEND_ALWAYS ||
                        (m->prepend == PREPEND_FIRST && piece.first);
    struct pith_str *s = &run->text[step];
    pith_str_clear(s);
    if (wanted && !marked) pith_str_puts(s, m->mark);
    for (size_t from = 0; from < piece.len;) {
        const char *space = memchr(piece.text + from, ' ', piece.len - from);
        const size_t to = space ? (size_t)(space - piece.text) : piece.len;
        pith_str_append(s, piece.text + from, to - from);
        if (space) pith_str_puts(s, m->mark);
        from = to + 1;
    }
    return rewritten(run, step, piece.first, err);
}

static const struct step_kind split = {apply_split}, prefix_space = {apply_prefix_space},
                              byte_map = {apply_byte_map}, metaspace = {apply_metaspace};

static enum pith_status add_step(struct pith_pretokenizer *p, const struct step_kind *kind,
                                 struct pith_pretok_step **out, struct pith_error *err)
{
    if (p->count == MAX_STEPS)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: more than %d steps", what, MAX_STEPS);
    struct pith_pretok_step *step = pith_realloc(p->step, p->count + 1, sizeof *step);
    if (!step) return pith_fail_nomem(err, what);
    p->step = step;
    step += p->count++;
    *step = (struct pith_pretok_step){.kind = kind};
    if (out) *out = step;
    return PITH_OK;
}

static enum pith_status add_split(struct pith_pretokenizer *p, const char *pattern,
                                  const struct behavior *behavior, bool invert,
                                  struct pith_error *err)
{
    struct pith_pretok_step *s = NULL;
    PITH_TRY(add_step(p, &split, &s, err));
    s->behavior = behavior;
    s->invert = invert;
    return pith_regex_new(pattern, strlen(pattern), &s->pattern, err);
}

static enum pith_status read_byte_level(struct pith_pretokenizer *p, const json_t *json,
                                        struct pith_error *err)
{
    /* The pattern of GPT-2, which this component has built in. */
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    bool space = true, regex = true;
    PITH_TRY(pith_json_get_bool(json, "add_prefix_space", &space, what, err));
    PITH_TRY(pith_json_get_bool(json, "use_regex", &regex, what, err));
    if (space) PITH_TRY(add_step(p, &prefix_space, NULL, err));
    if (regex) PITH_TRY(add_split(p, gpt2, find_behavior("Isolated"), false, err));
    return add_step(p, &byte_map, NULL, err);
}

static enum pith_status read_behavior(const json_t *json, const struct behavior **out,
                                      struct pith_error *err)
{
    const char *name = "Isolated";
    PITH_TRY(pith_json_get_str(json, "behavior", &name, what, err));
    *out = find_behavior(name);
    if (!*out) return pith_fail(err, PITH_FORMAT, "%s: unknown behavior \"%.80s\"", what, name);
    return PITH_OK;
}

static enum pith_status read_split(struct pith_pretokenizer *p, const json_t *json,
                                   struct pith_error *err)
{
    struct pith_pretok_step *s = NULL;
    PITH_TRY(add_step(p, &split, &s, err));
    PITH_TRY(read_behavior(json, &s->behavior, err));
    PITH_TRY(pith_json_get_bool(json, "invert", &s->invert, what, err));
    return pith_component_pattern(json, what, &s->pattern, err);
}

static enum pith_status read_metaspace(struct pith_pretokenizer *p, const json_t *json,
                                       struct pith_error *err)
{
    static const char *const schemes[] = {"always", "first", "never"};
    const char *mark = "\xe2\x96\x81", *scheme = schemes[PREPEND_ALWAYS];
    bool space = true, cut = true;
    PITH_TRY(pith_json_get_str(json, "replacement", &mark, what, err));
    PITH_TRY(pith_json_get_str(json, "prepend_scheme", &scheme, what, err));
    PITH_TRY(pith_json_get_bool(json, "add_prefix_space", &space, what, err));
    PITH_TRY(pith_json_get_bool(json, "split", &cut, what, err));
    if (!mark[0] || strlen(mark) != pith_utf8_len(mark[0]))
        return pith_fail(err, PITH_FORMAT, "%s: the replacement is not one character", what);
    struct pith_pretok_step *s = NULL;
    PITH_TRY(add_step(p, &metaspace, &s, err));
    memcpy(s->mark, mark, strlen(mark) + 1);
    size_t k = 0;
    while (k < PITH_COUNT(schemes) && strcmp(schemes[k], scheme) != 0) k++;
    if (k == PITH_COUNT(schemes))
        return pith_fail(err, PITH_FORMAT, "%s: unknown prepend_scheme \"%.80s\"", what, scheme);
    s->prepend = space ? (enum prepend)k : PREPEND_NEVER;
    if (!cut) return PITH_OK;
    PITH_TRY(add_step(p, &split, &s, err));
    s->behavior = find_behavior("MergedWithNext");
    return pith_regex_literal(mark, strlen(mark), &s->pattern, err);
}

static enum pith_status read_digits(struct pith_pretokenizer *p, const json_t *json,
                                    struct pith_error *err)
{
    bool each = false;
    PITH_TRY(pith_json_get_bool(json, "individual_digits", &each, what, err));
    return add_split(p, "\\p{N}", find_behavior(each ? "Isolated" : "Contiguous"), false, err);
}

static enum pith_status read_punctuation(struct pith_pretokenizer *p, const json_t *json,
                                         struct pith_error *err)
{
    const struct behavior *b;
    PITH_TRY(read_behavior(json, &b, err));
    return add_split(p, "[\\p{P}!-/:-@\\[-`{-~]", b, false, err);
}

static enum pith_status read_whitespace(struct pith_pretokenizer *p, const json_t *json,
                                        struct pith_error *err)
{
    (void)json;
    return add_split(p, "\\w+|[^\\w\\s]+", find_behavior("Removed"), true, err);
}

static enum pith_status read_whitespace_split(struct pith_pretokenizer *p, const json_t *json,
                                              struct pith_error *err)
{
    (void)json;
    return add_split(p, "\\s", find_behavior("Removed"), false, err);
}

static enum pith_status read_delimiter(struct pith_pretokenizer *p, const json_t *json,
                                       struct pith_error *err)
{
    const char *text;
    size_t len;
    PITH_TRY(pith_component_text(json, "delimiter", what, &text, &len, err));
    struct pith_pretok_step *s = NULL;
    PITH_TRY(add_step(p, &split, &s, err));
    s->behavior = find_behavior("Removed");
    return pith_regex_literal(text, len, &s->pattern, err);
}

/* "type" in tokenizer.json, and what converts it to steps. */
static const struct {
    const char *name;
    enum pith_status (*read)(struct pith_pretokenizer *p, const json_t *json,
                             struct pith_error *err);
} components[] = {
    {"ByteLevel", read_byte_level},
    {"Split", read_split},
    {"Metaspace", read_metaspace},
    {"Digits", read_digits},
    {"Punctuation", read_punctuation},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"CharDelimiterSplit", read_delimiter},
};

static enum pith_status read_nested_pretokenizer(struct pith_pretokenizer *p, const json_t *json,
                                                 int depth, struct pith_error *err)
{
    const char *type;
    PITH_TRY(pith_component_type(json, what, &type, err));
    for (size_t i = 0; i < PITH_COUNT(components); i++)
        if (strcmp(components[i].name, type) == 0) return components[i].read(p, json, err);
    if (strcmp(type, "Sequence") != 0) return pith_component_unsupported(what, type, err);
    const json_t *list = json_object_get(json, "pretokenizers");
    if (!json_is_array(list) || depth == PITH_COMPONENT_DEPTH)
        return pith_fail(err, PITH_FORMAT, "%s: Sequence without a list, or nested too deep", what);
    for (size_t i = 0; i < json_array_size(list); i++)
        PITH_TRY(read_nested_pretokenizer(p, json_array_get(list, i), depth + 1, err));
    return PITH_OK;
}

enum pith_status pith_pretokenizer_read(struct pith_pretokenizer *p, const json_t *json,
                                        struct pith_error *err)
{
    if (!json || json_is_null(json)) return PITH_OK;
    return read_nested_pretokenizer(p, json, 0, err);
}

void pith_pretokenizer_free(struct pith_pretokenizer *p)
{
    for (size_t i = 0; i < p->count; i++) pith_regex_free(p->step[i].pattern);
    pith_free(p->step);
    *p = (struct pith_pretokenizer){0};
}

enum pith_status pith_pretok_run_new(const struct pith_pretokenizer *p,
                                     const struct pith_progress *listener,
                                     struct pith_pretok_run **out, struct pith_error *err)
{
    struct pith_pretok_run *run = pith_zalloc(1, sizeof *run);
    if (run) run->text = pith_zalloc(p->count, sizeof *run->text);
    if (!run || !run->text) {
        pith_free(run);
        return pith_fail_nomem(err, what);
    }
    run->p = p;
    run->regex.beat.progress = listener;
    *out = run;
    return PITH_OK;
}

void pith_pretok_run_free(struct pith_pretok_run *run)
{
    if (!run) return;
    for (size_t i = 0; i < run->p->count; i++) pith_str_free(&run->text[i]);
    pith_free(run->text);
    pith_regex_run_free(&run->regex);
    pith_free(run);
}

enum pith_status pith_pretokenizer_apply(struct pith_pretok_run *run, struct pith_piece text,
                                         pith_piece_fn *fn, void *ctx, struct pith_error *err)
{
    run->fn = fn;
    run->ctx = ctx;
    run->limit = pith_text_limit(text.len);
    return next(run, 0, text, err);
}
