/* What a checkpoint means beside its weights, against the original: whoever wrote it, in whatever
 * container. */
#include "pipe/verify.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/hf_files.h"
#include "model/same.h"
#include "tok/chat.h"
#include "tok/compare.h"

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

/* --- token ids ------------------------------------------------------------------------------- */

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

/* --- files ----------------------------------------------------------------------------------- */

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

/* --- tokenizers ------------------------------------------------------------------------------ */

static enum pith_status compare_tokenizers(struct pith_verification *v, struct pith_error *err)
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
        s = pith_tokenizer_compare(is, was, &text, err);
        if (s == PITH_OK && text.len) pith_problem(v, "tokenizer: %s", text.data);
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
    size_t n = a ? strlen(a) : 0, m = b ? strlen(b) : 0;
    while (n && strchr(blank, a[n - 1])) n--;
    while (m && strchr(blank, b[m - 1])) m--;
    return n == m && (n == 0 || memcmp(a, b, n) == 0);
}

static void compare_templates(struct pith_verification *v, const struct pith_chat *is,
                              const struct pith_chat *was)
{
    if (!is && was) pith_problem(v, "the chat template of the original is missing");
    else if (is && !was) pith_note(v, "there is a chat template, and none in the original");
    else if (is && (!same_template(pith_chat_text(is, false), pith_chat_text(was, false)) ||
                    !same_template(pith_chat_text(is, true), pith_chat_text(was, true))))
        pith_problem(v, "the chat template is not the original's");
}

static void check_templates(struct pith_verification *v)
{
    struct pith_chat *is = NULL, *was = NULL;
    struct pith_error why = {0};
    if (pith_chat_open(v->options->against, NULL, &was, &why) != PITH_OK) {
        if (why.status == PITH_NOMEM) pith_fault(v, NULL, &why);
        else
            pith_note(v, "chat templates are not compared: the original's cannot be read: %s",
                      why.text);
    } else if (pith_chat_open(v->options->model, NULL, &is, &why) != PITH_OK) {
        pith_fault(v, "chat template", &why);
    } else {
        compare_templates(v, is, was);
    }
    pith_chat_close(is);
    pith_chat_close(was);
}

enum pith_status pith_verify_tokens(struct pith_verification *v, struct pith_error *err)
{
    const size_t before = pith_problems(v);
    bool same;
    PITH_TRY(check_ids(v, err));
    PITH_TRY(compare_side_files(v, &same, err));
    if (!same) PITH_TRY(compare_tokenizers(v, err));
    check_templates(v);
    pith_checked(v, before, "token ids, tokenizer and chat template of the original");
    return PITH_OK;
}
