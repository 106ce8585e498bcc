/* What a checkpoint means apart from its weights, against the original: by any writer, in whatever
 * container. */
#include "verify/verify.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/hf_files.h"
#include "model/same_model.h"
#include "tok/chat/templates.h"
#include "tok/compare.h"
#include "tok/kind.h"

#include <string.h>

static void note_difference(void *ctx, const char *what, const char *a, const char *b)
{
    pith_problem(ctx, "config: %s is %s, and %s in the original", what, a, b);
}

/* Newer configs say "dtype"; GGUF files say nothing of it. */
static const char *dtype_of(const struct pith_checkpoint *c)
{
    if (c->file_form) return NULL;
    const char *old = json_string_value(json_object_get(c->config, "torch_dtype"));
    return old ? old : json_string_value(json_object_get(c->config, "dtype"));
}

/* No fault: quantizers write what their kernels want. */
static void note_dtype(struct pith_verification *v)
{
    const char *is = dtype_of(v->checkpoint), *was = dtype_of(v->original->checkpoint);
    if (is && was && strcmp(is, was) != 0)
        pith_note(v, "config: engines compute in %.40s, and in %.40s with the original", is, was);
}

bool pith_verify_shape(struct pith_verification *v)
{
    const size_t before = pith_problems(v);
    const bool same = pith_model_same(v->model, v->original, note_difference, v);
    note_dtype(v);
    pith_checked(v, before, "config: shape, positions, epsilon, window and biases of the original");
    return same;
}

/* --- token ids -------------------------------------------------------------------------------- */

/* What either file of a folder says of a key, generation_config.json first: borrowed. */
struct ids {
    const json_t *config;
    json_t *generation; /* NULL without */
};

static enum pith_status open_ids(const struct pith_checkpoint *c, struct ids *out,
                                 struct pith_error *err)
{
    enum { LIMIT = 1 << 20 };
    *out = (struct ids){c->config, NULL};
    if (c->file_form) return PITH_OK;
    char *path = pith_path_join(c->dir, "generation_config.json");
    if (!path) return pith_fail_nomem(err, c->dir);
    const enum pith_status s =
        pith_path_exists(path) ? pith_json_load(path, LIMIT, &out->generation, err) : PITH_OK;
    pith_free(path);
    return s;
}

static bool has_id(const json_t *ids, json_int_t id)
{
    const json_t *one;
    size_t i;
    if (json_is_integer(ids)) return json_integer_value(ids) == id;
    json_array_foreach (ids, i, one)
        if (json_integer_value(one) == id) return true;
    return false;
}

/* Equal, or in one file, which holds one, among those of the original. */
static bool same_id(const json_t *a, const json_t *b, bool one)
{
    if (json_equal(a, b)) return true;
    return one && ((json_is_integer(a) && has_id(b, json_integer_value(a))) ||
                   (json_is_integer(b) && has_id(a, json_integer_value(b))));
}

static void compare_ids(struct pith_verification *v, const struct ids *is, const struct ids *was)
{
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    const bool one = v->checkpoint->file_form || v->original->checkpoint->file_form;
    for (size_t i = 0; i < PITH_COUNT(keys); i++) {
        const json_t *a[] = {json_object_get(is->config, keys[i]),
                             json_object_get(is->generation, keys[i])};
        const json_t *b[] = {json_object_get(was->config, keys[i]),
                             json_object_get(was->generation, keys[i])};
        if (one) { /* one file against two: what counts is what a generation uses */
            a[0] = a[1] ? a[1] : a[0];
            b[0] = b[1] ? b[1] : b[0];
        }
        for (int k = 0; k < (one ? 1 : 2); k++)
            if (a[k] && b[k] && !same_id(a[k], b[k], one))
                pith_problem(v, "%s: \"%s\" is not the original's",
                             k ? "generation_config.json" : "config", keys[i]);
    }
}

static enum pith_status check_ids(struct pith_verification *v, struct pith_error *err)
{
    struct ids is = {0}, was = {0};
    enum pith_status s = open_ids(v->checkpoint, &is, err);
    if (s == PITH_OK) s = open_ids(v->original->checkpoint, &was, err);
    if (s == PITH_OK) compare_ids(v, &is, &was);
    json_decref(is.generation);
    json_decref(was.generation);
    return s;
}

/* --- files ------------------------------------------------------------------------------------ */

static enum pith_status compare_side_file(struct pith_verification *v, const char *name, bool *same,
                                          struct pith_error *err)
{
    struct pith_map a = {0}, b = {0};
    char *is = pith_path_join(v->checkpoint->dir, name);
    char *was = pith_path_join(v->original->checkpoint->dir, name);
    enum pith_status s = is && was ? PITH_OK : pith_fail_nomem(err, name);
    *same = false;
    if (s == PITH_OK && pith_path_exists(is)) {
        s = pith_map_open(is, &a, err);
        if (s == PITH_OK) s = pith_map_open(was, &b, err);
        if (s == PITH_OK)
            *same = a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
        pith_map_close(&a);
        pith_map_close(&b);
        /* pith takes these along as they are; other programs write them anew. */
        if (s == PITH_OK && !*same && v->account)
            pith_problem(v, "%s: is not the original's file", name);
    }
    pith_free(is);
    pith_free(was);
    return s;
}

/* *same: every file that goes along with the weights is the original's, to the byte. */
static enum pith_status compare_side_files(struct pith_verification *v, bool *same,
                                           struct pith_error *err)
{
    char **names;
    size_t count;
    *same = !v->checkpoint->file_form && !v->original->checkpoint->file_form;
    if (!*same) return PITH_OK;
    PITH_TRY(pith_checkpoint_side_files(v->original->checkpoint->dir, &names, &count, err));
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        bool one;
        s = compare_side_file(v, names[i], &one, err);
        *same = *same && one;
    }
    pith_names_free(names, count);
    return s;
}

/* --- tokenizers ------------------------------------------------------------------------------- */

static void say_end(struct pith_verification *v, const struct pith_tokenizer *t, int32_t id,
                    bool missing)
{
    size_t len = 0;
    const char *text = t->kind->token(t->model, id, false, &len);
    pith_problem(v, "ends of generation: %d (\"%.*s\") is %s the original's", (int)id,
                 (int)(len < 60 ? len : 60), text ? text : "",
                 missing ? "none here, and one of" : "none of");
}

/* The tokens that end an answer, from whatever file they are. */
static enum pith_status compare_ends(struct pith_verification *v, const struct pith_tokenizer *is,
                                     const struct pith_tokenizer *was, struct pith_error *err)
{
    struct pith_ids a = {0}, b = {0};
    enum pith_status s = pith_tokenizer_ends(is, v->options->model, &a, err);
    if (s == PITH_OK) s = pith_tokenizer_ends(was, v->options->against, &b, err);
    for (size_t i = 0; s == PITH_OK && i < b.count; i++)
        if (!pith_ids_has(&a, b.id[i])) say_end(v, was, b.id[i], true);
    for (size_t i = 0; s == PITH_OK && i < a.count; i++)
        if (!pith_ids_has(&b, a.id[i])) say_end(v, is, a.id[i], false);
    pith_ids_free(&a);
    pith_ids_free(&b);
    return s;
}

/* `same`: their files are. */
static enum pith_status compare_tokenizers(struct pith_verification *v, bool same,
                                           struct pith_error *err)
{
    struct pith_tokenizer *is = NULL, *was = NULL;
    struct pith_error why = {0};
    struct pith_str text = {0};
    enum pith_status s = PITH_OK;
    if (pith_tokenizer_open(v->options->against, &was, &why) != PITH_OK) {
        if (why.status == PITH_NOMEM) pith_fault(v, NULL, &why);
        else
            pith_note(v, "tokenizers are not compared: the original's cannot be read: %s",
                      why.text);
    } else if (pith_tokenizer_open(v->options->model, &is, &why) != PITH_OK) {
        pith_fault(v, "tokenizer", &why);
    } else {
        if (!same) s = pith_tokenizer_compare(is, was, &text, err);
        if (s == PITH_OK && text.len) pith_problem(v, "tokenizer: %s", text.data);
        if (s == PITH_OK) s = compare_ends(v, is, was, err);
    }
    pith_str_free(&text);
    pith_tokenizer_close(is);
    pith_tokenizer_close(was);
    return s;
}

/* --- chat templates --------------------------------------------------------------------------- */

/* Blanks at the end aside: some formats keep them and some do not. */
static bool same_template(const char *a, const char *b)
{
    static const char *const blank = " \t\r\n";
    size_t n = strlen(a), m = strlen(b);
    while (n && strchr(blank, a[n - 1])) n--;
    while (m && strchr(blank, b[m - 1])) m--;
    return n == m && (n == 0 || memcmp(a, b, n) == 0);
}

/* The template of a name, as a GGUF file spells it. */
static const char *find_template(const struct pith_templates *t, const char *name)
{
    const char *key;
    const json_t *text;
    char a[PITH_TEMPLATE_NAME], b[PITH_TEMPLATE_NAME];
    pith_template_key(name, a);
    json_object_foreach (t->text, key, text) {
        pith_template_key(key, b);
        if (strcmp(a, b) == 0) return json_string_value(text);
    }
    return NULL;
}

/* A template of the original, and the one that stands for it, if any. */
static void compare_template(struct pith_verification *v, const char *name, const char *was,
                             const char *is)
{
    char which[80] = "";
    if (is && same_template(is, was)) return;
    if (strcmp(name, "default") != 0) snprintf(which, sizeof which, " \"%.60s\"", name);
    if (is) pith_problem(v, "the chat template%s is not the original's", which);
    else pith_problem(v, "the chat template%s of the original is missing", which);
}

static void compare_templates(struct pith_verification *v, const struct pith_templates *is,
                              const struct pith_templates *was)
{
    const char *name;
    const json_t *text;
    json_object_foreach (was->text, name, text)
        compare_template(v, name, json_string_value(text), find_template(is, name));
    json_object_foreach (is->text, name, text)
        if (!find_template(was, name))
            pith_note(v, "there is a chat template \"%.60s\", and none in the original", name);
}

static void check_templates(struct pith_verification *v)
{
    struct pith_templates is = {0}, was = {0};
    struct pith_error why = {0};
    if (pith_templates_read(v->options->against, &was, &why) != PITH_OK) {
        if (why.status == PITH_NOMEM) pith_fault(v, NULL, &why);
        else
            pith_note(v, "chat templates are not compared: the original's cannot be read: %s",
                      why.text);
    } else if (pith_templates_read(v->options->model, &is, &why) != PITH_OK) {
        pith_fault(v, "chat template", &why);
    } else {
        compare_templates(v, &is, &was);
    }
    pith_templates_free(&is);
    pith_templates_free(&was);
}

/* Whether both configs name the same ends. */
static bool same_ends(const struct pith_verification *v)
{
    const json_t *is = json_object_get(v->checkpoint->config, "eos_token_id");
    const json_t *was = json_object_get(v->original->checkpoint->config, "eos_token_id");
    return is == was || json_equal(is, was);
}

enum pith_status pith_verify_tokens(struct pith_verification *v, struct pith_error *err)
{
    const size_t before = pith_problems(v);
    bool same;
    PITH_TRY(check_ids(v, err));
    PITH_TRY(compare_side_files(v, &same, err));
    if (!same || !same_ends(v)) PITH_TRY(compare_tokenizers(v, same, err));
    check_templates(v);
    pith_checked(v, before, "token ids, tokenizer and chat template of the original");
    return PITH_OK;
}
