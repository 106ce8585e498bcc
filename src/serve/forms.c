#include "serve/forms.h"

#include "base/mem.h"

#include <string.h>

void pith_forms_init(struct pith_forms *f, const struct pith_tokenizer *t,
                     const struct pith_ids *ends, size_t vocab)
{
    *f = (struct pith_forms){.tokenizer = t, .ends = ends, .vocab = vocab};
    pthread_mutex_init(&f->lock, NULL);
}

static void form_free(struct pith_form *form)
{
    pith_grammar_close(form->grammar);
    pith_free(form->text);
    pith_free(form);
}

void pith_forms_free(struct pith_forms *f)
{
    if (!f->tokenizer) return;
    for (size_t i = 0; i < PITH_FORMS_CACHED; i++)
        if (f->cached[i]) form_free(f->cached[i]);
    pith_vocab_bytes_close(f->bytes);
    pthread_mutex_destroy(&f->lock);
    *f = (struct pith_forms){0};
}

static bool is_alike(const struct pith_form *form, enum pith_constraint kind, const char *text)
{
    if (form->kind != kind || !form->text != !text) return false;
    return !text || strcmp(form->text, text) == 0;
}

static struct pith_form *find(const struct pith_forms *f, enum pith_constraint kind,
                              const char *text)
{
    for (size_t i = 0; i < PITH_FORMS_CACHED; i++)
        if (f->cached[i] && is_alike(f->cached[i], kind, text)) return f->cached[i];
    return NULL;
}

/* Puts it among those that are cached, in a free place or that of the one that was longest of no
 * use. Where all are in use it is not cached. */
static void keep(struct pith_forms *f, struct pith_form *form)
{
    size_t at = PITH_FORMS_CACHED;
    for (size_t i = 0; i < PITH_FORMS_CACHED; i++) {
        const struct pith_form *k = f->cached[i],
                               *best = at < PITH_FORMS_CACHED ? f->cached[at] : form;
        if (!k) {
            at = i;
            break;
        }
        if (k->users == 0 && (best == form || k->used < best->used)) at = i;
    }
    if (at == PITH_FORMS_CACHED) return;
    if (f->cached[at]) form_free(f->cached[at]);
    f->cached[at] = form;
    form->cached = true;
}

static enum pith_status open_bytes(struct pith_forms *f, struct pith_error *err)
{
    enum pith_status s = PITH_OK;
    pthread_mutex_lock(&f->lock);
    if (!f->bytes)
        s = pith_vocab_bytes_open(f->tokenizer, f->vocab, f->ends->id, f->ends->count, &f->bytes,
                                  err);
    pthread_mutex_unlock(&f->lock);
    return s;
}

/* One that is there already, with one more user. */
static struct pith_form *take_cached(struct pith_forms *f, enum pith_constraint kind,
                                     const char *text)
{
    pthread_mutex_lock(&f->lock);
    struct pith_form *form = find(f, kind, text);
    if (form) form->users++, form->used = ++f->clock;
    pthread_mutex_unlock(&f->lock);
    return form;
}

enum pith_status pith_forms_take(struct pith_forms *f, enum pith_constraint kind, const char *text,
                                 struct pith_form **out, struct pith_error *err)
{
    if ((*out = take_cached(f, kind, text))) return PITH_OK;
    PITH_TRY(open_bytes(f, err));
    struct pith_form *form = pith_zalloc(1, sizeof *form);
    if (!form) return pith_fail_nomem(err, "a constraint");
    *form = (struct pith_form){.forms = f, .kind = kind, .users = 1};
    enum pith_status s = PITH_OK;
    if (text && !(form->text = pith_strdup(text))) s = pith_fail_nomem(err, "a constraint");
    if (s == PITH_OK) s = pith_grammar_open(f->bytes, kind, text, &form->grammar, err);
    if (s != PITH_OK) {
        form_free(form);
        return s;
    }
    pthread_mutex_lock(&f->lock);
    form->used = ++f->clock;
    if (!find(f, kind, text)) keep(f, form);
    pthread_mutex_unlock(&f->lock);
    *out = form;
    return PITH_OK;
}

void pith_form_give(struct pith_form *form)
{
    if (!form) return;
    struct pith_forms *f = form->forms;
    pthread_mutex_lock(&f->lock);
    const bool last = --form->users == 0 && !form->cached;
    pthread_mutex_unlock(&f->lock);
    if (last) form_free(form);
}
