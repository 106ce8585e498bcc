#include "eval/details.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/digest.h"

#include <string.h>

/* Tokens that are shown before and after one of the worst. */
enum { BEFORE = 20, AFTER = 6, ACCOUNT_MOST = 256 << 20 };

/* The text of tokens. A token may be part of a character, which JSON cannot have: then each byte
 * that is no ASCII becomes U+FFFD. */
static enum pith_status set_text(struct pith_report *r, const char *key,
                                 const struct pith_tokenizer *t, const int32_t *ids, size_t count,
                                 struct pith_error *err)
{
    struct pith_str s = {0}, clean = {0};
    const enum pith_status status = pith_tokenizer_decode(t, ids, count, false, &s, err);
    json_t *text = status == PITH_OK ? json_stringn(pith_str_text(&s), s.len) : NULL;
    for (size_t i = 0; i < s.len && !text; i++) {
        const bool plain = (unsigned char)s.data[i] < 0x80 && s.data[i] != '\0';
        if (plain) pith_str_putc(&clean, s.data[i]);
        else pith_str_puts(&clean, "\xef\xbf\xbd");
    }
    pith_report_set(r, key, pith_tree(text ? text : json_string(pith_str_text(&clean))));
    pith_str_free(&s);
    pith_str_free(&clean);
    return status;
}

static enum pith_status set_worst(struct pith_report *r, const struct pith_position *p,
                                  const struct pith_tokenizer *t, const struct pith_ids *ids,
                                  struct pith_error *err)
{
    const size_t from = p->at < BEFORE ? 0 : p->at - BEFORE, left = ids->count - p->at - 1;
    pith_report_open(r, "");
    pith_report_set(r, "at", pith_count(p->at));
    pith_report_set(r, "kld", pith_real(p->kld, 6));
    pith_report_set(r, "nll_delta", pith_real(p->nll - p->base_nll, 5));
    PITH_TRY(set_text(r, "before", t, ids->id + from, p->at - from, err));
    PITH_TRY(set_text(r, "token", t, ids->id + p->at, 1, err));
    PITH_TRY(set_text(r, "after", t, ids->id + p->at + 1, left < AFTER ? left : AFTER, err));
    PITH_TRY(set_text(r, "base_top", t, &p->base_top, 1, err));
    PITH_TRY(set_text(r, "top", t, &p->top, 1, err));
    pith_report_close(r);
    return PITH_OK;
}

enum pith_status pith_details_text(struct pith_report *r, const struct pith_profile *f,
                                   const struct pith_tokenizer *t, const struct pith_ids *ids,
                                   struct pith_error *err)
{
    pith_report_open(r, "kld_histogram");
    pith_report_list(r, "from");
    for (size_t i = 0; i < PITH_PROFILE_BINS; i++)
        pith_report_set(r, "", pith_real(pith_profile_from(i), 0));
    pith_report_close(r);
    pith_report_list(r, "counts");
    for (size_t i = 0; i < PITH_PROFILE_BINS; i++) pith_report_set(r, "", pith_count(f->bin[i]));
    pith_report_close(r);
    pith_report_close(r);
    pith_report_list(r, "worst");
    for (size_t i = 0; i < f->count; i++) PITH_TRY(set_worst(r, &f->worst[i], t, ids, err));
    pith_report_close(r);
    return PITH_OK;
}

static void copy_text(struct pith_report *r, const char *key, const json_t *from, const char *its)
{
    const char *text = json_string_value(json_object_get(from, its));
    if (text) pith_report_set(r, key, pith_words(text));
}

static void set_losses(struct pith_report *r, const json_t *account)
{
    const json_t *linears = json_object_get(account, "linears"), *l;
    const bool outputs = json_is_object(json_object_get(account, "calibration"));
    size_t i;
    pith_report_list(r, "losses");
    json_array_foreach (linears, i, l) {
        const json_t *name = json_object_get(l, "name");
        const json_t *v = json_object_get(l, outputs ? "loss" : "relative_error");
        if (!json_is_string(name) || !json_is_number(v)) continue;
        pith_report_open(r, "");
        pith_report_set(r, "name", pith_words(json_string_value(name)));
        pith_report_set(r, "value", pith_real(json_number_value(v), 4));
        pith_report_close(r);
    }
    pith_report_close(r);
    pith_report_set(r, "loss_of", pith_words(outputs ? "outputs" : "weights"));
}

static void set_account(struct pith_report *r, const json_t *account)
{
    const json_t *recipe = json_object_get(account, "recipe");
    const json_t *calibration = json_object_get(account, "calibration");
    copy_text(r, "pith", account, "pith");
    copy_text(r, "job", account, "job");
    copy_text(r, "recipe", recipe, "name");
    copy_text(r, "weights", recipe, "weights");
    copy_text(r, "round", recipe, "round");
    copy_text(r, "acts", recipe, "acts");
    copy_text(r, "kv", recipe, "kv");
    copy_text(r, "calibration_sha256", calibration, "sha256");
    const json_t *tokens = json_object_get(calibration, "tokens");
    if (json_is_integer(tokens))
        pith_report_set(r, "calibration_tokens", pith_whole(json_integer_value(tokens)));
    set_losses(r, account);
}

static enum pith_status set_hash(struct pith_report *r, const struct pith_checkpoint *c,
                                 struct pith_error *err)
{
    char hex[PITH_SHA256_HEX];
    struct pith_sha256 *h = pith_sha256_new();
    if (!h) return pith_fail_nomem(err, "a digest");
    for (size_t i = 0; i < c->count; i++) {
        const struct pith_tensor *t = &c->tensors[i];
        pith_sha256_update(h, t->name, strlen(t->name) + 1);
        pith_tensor_hash(t, h);
    }
    pith_sha256_finish(h, hex);
    pith_report_set(r, "sha256", pith_words(hex));
    return PITH_OK;
}

enum pith_status pith_details_model(struct pith_report *r, const struct pith_model *m,
                                    const char *account_path, struct pith_error *err)
{
    json_t *account = NULL;
    struct pith_error ignored = {0};
    pith_report_open(r, "made");
    pith_report_set(r, "container", pith_words(m->container ? m->container->name : "none"));
    PITH_TRY(set_hash(r, m->checkpoint, err));
    if (pith_path_exists(account_path) &&
        pith_json_load(account_path, ACCOUNT_MOST, &account, &ignored) == PITH_OK)
        set_account(r, account);
    json_decref(account);
    pith_report_close(r);
    return ignored.status == PITH_NOMEM ? pith_fail_nomem(err, account_path) : PITH_OK;
}
