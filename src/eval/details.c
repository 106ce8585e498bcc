#include "eval/details.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/digest.h"

#include <string.h>

/* Tokens that are shown before and after one of the worst. */
enum { BEFORE = 20, AFTER = 6, ACCOUNT_MOST = 256 << 20 };

static enum pith_status set_text(json_t *j, const char *key, const struct pith_tokenizer *t,
                                 const int32_t *ids, size_t count, struct pith_error *err)
{
    struct pith_str s = {0}, clean = {0};
    enum pith_status status = pith_tokenizer_decode(t, ids, count, false, &s, err);
    /* A token may be part of a character; JSON holds none. */
    json_t *text = status == PITH_OK ? json_stringn(pith_str_text(&s), s.len) : NULL;
    if (status == PITH_OK && !text) {
        for (size_t i = 0; i < s.len; i++) {
            const bool plain = (unsigned char)s.data[i] < 0x80 && s.data[i] != '\0';
            if (plain) pith_str_putc(&clean, s.data[i]);
            else pith_str_puts(&clean, "\xef\xbf\xbd");
        }
        text = json_string(pith_str_text(&clean));
    }
    pith_str_free(&s);
    pith_str_free(&clean);
    if (status != PITH_OK) return status;
    return json_object_set_new(j, key, text) == 0 ? PITH_OK : pith_fail_nomem(err, "a worst token");
}

static enum pith_status add_worst(json_t *list, const struct pith_position *p,
                                  const struct pith_tokenizer *t, const struct pith_ids *ids,
                                  struct pith_error *err)
{
    json_t *j = json_pack("{s:I, s:f, s:f}", "at", (json_int_t)p->at, "kld", p->kld, "nll_delta",
                          p->nll - p->base_nll);
    if (json_array_append_new(list, j) != 0) return pith_fail_nomem(err, "a worst token");
    const size_t from = p->at < BEFORE ? 0 : p->at - BEFORE, left = ids->count - p->at - 1;
    PITH_TRY(set_text(j, "before", t, ids->id + from, p->at - from, err));
    PITH_TRY(set_text(j, "token", t, ids->id + p->at, 1, err));
    PITH_TRY(set_text(j, "after", t, ids->id + p->at + 1, left < AFTER ? left : AFTER, err));
    PITH_TRY(set_text(j, "base_top", t, &p->base_top, 1, err));
    return set_text(j, "top", t, &p->top, 1, err);
}

enum pith_status pith_details_text(json_t *report, const struct pith_profile *f,
                                   const struct pith_tokenizer *t, const struct pith_ids *ids,
                                   struct pith_error *err)
{
    json_t *from = json_array(), *counts = json_array(), *worst = json_array();
    enum pith_status s = from && counts && worst ? PITH_OK : pith_fail_nomem(err, "a histogram");
    for (size_t i = 0; i < PITH_PROFILE_BINS && s == PITH_OK; i++) {
        pith_json_add(&from, json_real(pith_profile_from(i)));
        pith_json_add(&counts, json_integer((json_int_t)f->bin[i]));
    }
    for (size_t i = 0; i < f->count && s == PITH_OK; i++)
        s = add_worst(worst, &f->worst[i], t, ids, err);
    if (s == PITH_OK &&
        (!from || !counts ||
         json_object_set_new(report, "kld_histogram",
                             json_pack("{s:O, s:O}", "from", from, "counts", counts)) != 0 ||
         json_object_set(report, "worst", worst) != 0))
        s = pith_fail_nomem(err, "a histogram");
    json_decref(from);
    json_decref(counts);
    json_decref(worst);
    return s;
}

static void copy_text(json_t **to, const char *key, const json_t *from, const char *its)
{
    const json_t *v = json_object_get(from, its);
    if (json_is_string(v)) pith_json_set(to, key, json_string(json_string_value(v)));
}

static void add_losses(json_t **made, const json_t *account)
{
    const json_t *linears = json_object_get(account, "linears"), *l;
    const bool outputs = json_is_object(json_object_get(account, "calibration"));
    json_t *list = json_array();
    size_t i;
    json_array_foreach (linears, i, l) {
        const json_t *name = json_object_get(l, "name");
        const json_t *v = json_object_get(l, outputs ? "loss" : "relative_error");
        if (json_is_string(name) && json_is_number(v))
            pith_json_add(&list, json_pack("{s:s, s:f}", "name", json_string_value(name), "value",
                                           json_number_value(v)));
    }
    pith_json_set(made, "losses", list);
    pith_json_set(made, "loss_of", json_string(outputs ? "outputs" : "weights"));
}

static void add_account(json_t **made, const json_t *account)
{
    const json_t *recipe = json_object_get(account, "recipe");
    const json_t *calibration = json_object_get(account, "calibration");
    copy_text(made, "pith", account, "pith");
    copy_text(made, "job", account, "job");
    copy_text(made, "recipe", recipe, "name");
    copy_text(made, "weights", recipe, "weights");
    copy_text(made, "round", recipe, "round");
    copy_text(made, "acts", recipe, "acts");
    copy_text(made, "kv", recipe, "kv");
    copy_text(made, "calibration_sha256", calibration, "sha256");
    const json_t *tokens = json_object_get(calibration, "tokens");
    if (json_is_integer(tokens))
        pith_json_set(made, "calibration_tokens", json_integer(json_integer_value(tokens)));
    add_losses(made, account);
}

static enum pith_status add_hash(json_t *made, const struct pith_checkpoint *c,
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
    const bool good = json_object_set_new(made, "sha256", json_string(hex)) == 0;
    return good ? PITH_OK : pith_fail_nomem(err, "a digest");
}

enum pith_status pith_details_model(json_t *report, const struct pith_model *m,
                                    const char *account_path, struct pith_error *err)
{
    const char *dir = m->checkpoint->dir;
    json_t *account = NULL,
           *made = json_pack("{s:s}", "container", m->container ? m->container->name : "none");
    if (!made) return pith_fail_nomem(err, dir);
    enum pith_status s = add_hash(made, m->checkpoint, err);
    struct pith_error ignored = {0};
    if (s == PITH_OK && pith_path_exists(account_path)) {
        if (pith_json_load(account_path, ACCOUNT_MOST, &account, &ignored) == PITH_OK)
            add_account(&made, account);
        else if (ignored.status == PITH_NOMEM) s = pith_fail_nomem(err, account_path);
    }
    json_decref(account);
    if (s != PITH_OK) json_decref(made);
    else if (json_object_set_new(report, "made", made) != 0) s = pith_fail_nomem(err, dir);
    return s;
}
