#include "tok/jinja/jinja.h"

#include "base/mem.h"
#include "tok/jinja/run.h"
#include "tok/unicode/utf8.h"

#include <string.h>

/* A conversation of a thousand messages takes a few million steps and some megabytes. */
enum { STEPS = 50000000, MEMORY = 256 << 20, MOST_TEMPLATE = 4 << 20 };

struct pith_jinja {
    struct pith_jpool pool;
    struct pith_jnode *body;
};

enum pith_status pith_jinja_new(const char *text, size_t size, struct pith_jinja **out,
                                struct pith_error *err)
{
    if (size > MOST_TEMPLATE)
        return pith_fail(err, PITH_LIMIT, "a chat template of %zu bytes; %d are allowed", size,
                         MOST_TEMPLATE);
    if (!pith_utf8_valid(text, size)) return pith_fail(err, PITH_FORMAT, "not UTF-8");
    struct pith_jrun r = {.pool = {.most = MEMORY}, .err = err, .most_steps = STEPS, .line = 1};
    struct pith_jinja *t = pith_zalloc(1, sizeof *t);
    if (!t) return pith_fail_nomem(err, "a chat template");
    t->body = pith_jparse(&r, text, size);
    t->pool = r.pool;
    if (r.status == PITH_OK) *out = t;
    else pith_jinja_free(t);
    return r.status;
}

void pith_jinja_free(struct pith_jinja *t)
{
    if (!t) return;
    pith_jpool_free(&t->pool);
    pith_free(t);
}

void pith_rendered_free(struct pith_rendered *r)
{
    pith_free(r->text);
    pith_free(r->marks);
    *r = (struct pith_rendered){0};
}

/* An object's members as variables of the innermost scope. */
static void set_all(struct pith_jrun *r, const json_t *object, bool marked)
{
    const char *key;
    size_t size;
    json_t *value;
    json_object_keylen_foreach ((json_t *)(uintptr_t)object, key, size, value) {
        const struct pith_jv name = pith_jtext(r, key, size, false);
        const struct pith_jv v = pith_jfrom_json(r, value, marked);
        if (r->status != PITH_OK) return;
        pith_jset(r, name.u.s, v);
    }
}

static enum pith_status take(const struct pith_jbuf *b, struct pith_rendered *out,
                             struct pith_error *err)
{
    out->size = b->len;
    out->text = pith_strndup(b->s ? b->s : "", b->len);
    out->marks = b->marks ? pith_alloc(b->len, 1) : NULL;
    if (!out->text || (b->marks && !out->marks)) {
        pith_rendered_free(out);
        return pith_fail_nomem(err, "a prompt");
    }
    if (out->marks) memcpy(out->marks, b->marks, b->len);
    return PITH_OK;
}

enum pith_status pith_jinja_render(const struct pith_jinja *t, const struct pith_jinja_input *in,
                                   struct pith_rendered *out, struct pith_error *err)
{
    struct pith_jscope global = {0}, top = {.around = &global};
    struct pith_jrun r = {.pool = {.most = in->memory ? in->memory : MEMORY},
                          .err = err,
                          .most_steps = in->steps ? in->steps : STEPS,
                          .now = in->now,
                          .scope = &global};
    struct pith_jbuf b = {.r = &r};
    *out = (struct pith_rendered){0};
    set_all(&r, in->own, false);
    set_all(&r, in->given, true);
    r.scope = &top;
    r.out = &b;
    pith_jexec(&r, t->body);
    if (r.status == PITH_OK) r.status = take(&b, out, err);
    pith_jpool_free(&r.pool);
    return r.status;
}
