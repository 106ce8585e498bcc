#include "eval/task/questions.h"

#include "base/grow.h"
#include "base/mem.h"

#include <string.h>

/* Frees what q owns. */
static void questions_free(struct pith_questions *q)
{
    pith_str_free(&q->text);
    pith_free(q->item);
    pith_free(q->choice);
    *q = (struct pith_questions){0};
}

static bool same_span(const struct pith_questions *a, struct pith_span x,
                      const struct pith_questions *b, struct pith_span y)
{
    return x.size == y.size &&
           memcmp(pith_str_text(&a->text) + x.at, pith_str_text(&b->text) + y.at, x.size) == 0;
}

bool pith_question_same(const struct pith_questions *a, size_t i, const struct pith_questions *b,
                        size_t k)
{
    const struct pith_question *x = &a->item[i], *y = &b->item[k];
    if (x->answer != y->answer || x->count != y->count || !same_span(a, x->text, b, y->text))
        return false;
    for (size_t c = 0; c < x->count; c++)
        if (!same_span(a, a->choice[x->first + c], b, b->choice[y->first + c])) return false;
    return true;
}

enum pith_status pith_asking_fail(const struct pith_asking *a, struct pith_error *err,
                                  const char *what)
{
    return pith_fail(err, PITH_FORMAT, "%s: line %zu: %s", a->records->path, a->records->line,
                     what);
}

static void *grow(void *array, size_t count, size_t *cap, size_t size, struct pith_error *err)
{
    void *p = pith_grow(array, count, cap, 64, size);
    if (!p) pith_fail_nomem(err, "the questions of a task");
    return p;
}

enum pith_status pith_question_begin(const struct pith_asking *a, const char *text, size_t size,
                                     struct pith_error *err)
{
    struct pith_questions *q = a->out;
    struct pith_question *all = grow(q->item, q->count, &q->cap, sizeof *all, err);
    if (!all) return PITH_NOMEM;
    q->item = all;
    const size_t at = q->text.len;
    pith_str_puts(&q->text, a->form->before);
    pith_str_append(&q->text, text, size);
    pith_str_puts(&q->text, a->form->after);
    if (q->text.failed) return pith_fail_nomem(err, "the questions of a task");
    all[q->count++] = (struct pith_question){
        .text = {at, q->text.len - at}, .first = q->choices, .line = a->records->line};
    return PITH_OK;
}

enum pith_status pith_question_choice(const struct pith_asking *a, const char *text, size_t size,
                                      struct pith_error *err)
{
    struct pith_questions *q = a->out;
    struct pith_span *all = grow(q->choice, q->choices, &q->choice_cap, sizeof *all, err);
    if (!all) return PITH_NOMEM;
    q->choice = all;
    const size_t at = q->text.len;
    pith_str_append(&q->text, text, size);
    if (q->text.failed) return pith_fail_nomem(err, "the questions of a task");
    all[q->choices++] = (struct pith_span){at, size};
    q->item[q->count - 1].count++;
    return PITH_OK;
}

enum pith_status pith_questions_read(struct pith_records *records, struct pith_asking *a,
                                     size_t limit, struct pith_error *err)
{
    const size_t first = a->out->count;
    a->records = records;
    for (bool more = true; more && (limit == 0 || a->out->count - first < limit);) {
        PITH_TRY(pith_records_next(records, &more, err));
        if (more) PITH_TRY(a->form->read(a, err));
    }
    if (a->out->count > first) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: no items", records->path);
}

struct pith_subject *pith_subject_add(struct pith_task_source *s, struct pith_error *err)
{
    struct pith_subject *all = grow(s->subject, s->subjects, &s->subject_cap, sizeof *all, err);
    if (!all) return NULL;
    s->subject = all;
    all[s->subjects] = (struct pith_subject){.name = ""};
    return &all[s->subjects++];
}

void pith_task_source_free(struct pith_task_source *s)
{
    questions_free(&s->questions);
    questions_free(&s->examples);
    pith_free(s->subject);
    *s = (struct pith_task_source){0};
}
