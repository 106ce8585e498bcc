/* tok/normalizer.h: the "normalizer" of a tokenizer.json, as a list of steps that rewrite text. The
 * steps that exist are a table in normalizer.c. */
#ifndef PITH_TOK_NORMALIZER_H
#define PITH_TOK_NORMALIZER_H

#include "base/json.h"
#include "base/str.h"
#include "tok/regex/regex.h"
#include "tok/unicode/charsmap.h"

struct pith_normal_kind;

/* One step; what its members mean is its row's business. */
struct pith_normal {
    const struct pith_normal_kind *kind;
    char *text;
    size_t text_len;
    struct pith_regex *pattern;
    bool left, right;
    struct pith_charsmap rules;
};

/* Start with {0}. */
struct pith_normalizer {
    struct pith_normal *step;
    size_t count;
};

/* Scratch of one encoding thread; start with {0}. The result of a run stays in text[0]. */
struct pith_normal_run {
    struct pith_str text[2];
    struct pith_regex_run regex;
    size_t limit; /* the rewritten text must not become longer */
    size_t lost;  /* of the step: bytes at the start of its text that became nothing */
    size_t start; /* bytes at the start that stem from the original's first character */
};

/* Reads the component (NULL or JSON null: no steps). PITH_UNSUPPORTED names what is not known. */
enum pith_status pith_normalizer_read(struct pith_normalizer *n, const json_t *json,
                                      struct pith_error *err);
/* Rewrites well-formed text; the result is run->text[0], and run->start is 0 when what the original
 * began with is gone, so that the result does not begin where the original does. */
enum pith_status pith_normalizer_apply(const struct pith_normalizer *n, const char *text,
                                       size_t len, struct pith_normal_run *run,
                                       struct pith_error *err);
void pith_normalizer_free(struct pith_normalizer *n);
void pith_normal_run_free(struct pith_normal_run *run);

/* A row: `read` fills the step from its JSON object (NULL: nothing to read); `apply` appends the
 * rewritten text to out and sets run->lost to what it cut off in front. */
struct pith_normal_kind {
    const char *name;
    enum pith_status (*read)(struct pith_normal *s, const json_t *json, struct pith_error *err);
    enum pith_status (*apply)(const struct pith_normal *s, const char *text, size_t len,
                              struct pith_normal_run *run, struct pith_str *out,
                              struct pith_error *err);
};

/* Canonical or compatibility (de)composition, for the rows and for tests. */
enum pith_status pith_normal_form(const char *text, size_t len, bool compatible, bool compose,
                                  struct pith_str *out, struct pith_error *err);

#endif
