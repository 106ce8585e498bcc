#include "eval/task/free_answers.h"

#include "base/mem.h"
#include "eval/divergence.h"
#include "eval/task/sandbox.h"
#include "eval/task/schema.h"
#include "eval/task/white_space.h"

#include <string.h>

/* --- numbers behind words ---------------------------------------------------------------------
 * GSM8K (Cobbe et al. 2021) as EleutherAI's lm-evaluation-harness 0.4.13 judges it: strictly what
 * stands behind the first "#### ", flexibly the last that looks like a number, without commas,
 * dollars, what stands before a target's "#### " and a point at the end. */

static const char mark[] = "#### ";
enum { MARK = sizeof mark - 1 };

static size_t run_of(const char *s, size_t n, const char *among)
{
    size_t i = 0;
    while (i < n && s[i] && strchr(among, s[i])) i++;
    return i;
}

/* The number behind the first mark that has one. */
static struct pith_span strict_number(const char *s, size_t n)
{
    for (size_t i = 0; i + MARK < n; i++) {
        if (memcmp(s + i, mark, MARK) != 0) continue;
        const size_t at = i + MARK, sign = s[at] == '-';
        const size_t digits = run_of(s + at + sign, n - at - sign, "0123456789.,");
        if (digits > 0) return (struct pith_span){at, sign + digits};
    }
    return (struct pith_span){0};
}

/* What looks like a number at i: two or more of digits, points, commas and dollars, or a digit. */
static size_t number_at(const char *s, size_t n, size_t i)
{
    const size_t sign = s[i] == '-', from = i + sign;
    const size_t wide = run_of(s + from, n - from, "$0123456789.,");
    if (wide > 1) return sign + wide;
    return run_of(s + from, n - from, "0123456789") ? sign + 1 : 0;
}

static struct pith_span last_number(const char *s, size_t n)
{
    struct pith_span last = {0};
    for (size_t i = 0; i < n;) {
        const size_t size = number_at(s, n, i);
        if (size) last = (struct pith_span){i, size};
        i += size ? size : 1;
    }
    return last;
}

/* The text without what does not count. */
static void bare(const char *s, size_t n, struct pith_str *out)
{
    struct pith_str plain = {0};
    for (size_t i = 0; i < n; i++)
        if (s[i] != ',' && s[i] != '$') pith_str_putc(&plain, s[i]);
    size_t from = 0, end = plain.len;
    for (size_t i = 0; i + MARK <= end; i++)
        if (memcmp(plain.data + i, mark, MARK) == 0) from = i + MARK;
    const bool line = end > from && plain.data[end - 1] == '\n';
    const bool point = end - line > from && plain.data[end - line - 1] == '.';
    if (end > from) pith_str_append(out, plain.data + from, end - from - line - point);
    if (line) pith_str_putc(out, '\n');
    out->failed = out->failed || plain.failed;
    pith_str_free(&plain);
}

/* Whether a part of the reply is the number that is wanted. */
static bool is_number(const char *reply, struct pith_span part, const struct pith_str *want,
                      bool *failed)
{
    struct pith_str own = {0};
    bare(reply + part.at, part.size, &own);
    *failed = *failed || own.failed;
    const bool same = part.size && own.len == want->len &&
                      memcmp(pith_str_text(&own), pith_str_text(want), own.len) == 0;
    pith_str_free(&own);
    return same;
}

static enum pith_status judge_number(const struct pith_answer *a, struct pith_judged *out,
                                     struct pith_error *err)
{
    const char *reply = a->reply.text;
    struct pith_str want = {0};
    bare(a->target.text, a->target.size, &want);
    bool failed = want.failed;
    out->right = is_number(reply, strict_number(reply, a->reply.size), &want, &failed);
    out->flexible = is_number(reply, last_number(reply, a->reply.size), &want, &failed);
    pith_str_free(&want);
    return failed ? pith_fail_nomem(err, "an answer") : PITH_OK;
}

/* --- the text itself -------------------------------------------------------------------------- */

static struct pith_phrase trimmed(const struct pith_phrase *p)
{
    const size_t end = pith_trim_end(p->text, p->size), from = pith_trim_start(p->text, end);
    return (struct pith_phrase){p->text + from, end - from};
}

static enum pith_status judge_text(const struct pith_answer *a, struct pith_judged *out,
                                   struct pith_error *err)
{
    const struct pith_phrase reply = trimmed(&a->reply), target = trimmed(&a->target);
    (void)err;
    out->right = reply.size == target.size && memcmp(reply.text, target.text, reply.size) == 0;
    out->flexible = out->right;
    return PITH_OK;
}

/* --- a JSON value ----------------------------------------------------------------------------- */

/* The value that a text begins with, whatever follows. *out NULL: it begins with none. False when
 * memory is out. */
static bool first_value(const char *text, size_t n, json_t **out)
{
    *out = NULL;
    return pith_json_read(text, n, PITH_JSON_ANY | PITH_JSON_FRONT, "a text", out, NULL) !=
           PITH_NOMEM;
}

static enum pith_status judge_value(const struct pith_answer *a, struct pith_judged *out,
                                    struct pith_error *err)
{
    json_t *value = NULL, *schema = NULL;
    const bool good = first_value(a->reply.text, a->reply.size, &value) &&
                      first_value(a->target.text, a->target.size, &schema) && schema;
    out->right = out->flexible = good && value && pith_schema_fits(schema, value);
    json_decref(value);
    json_decref(schema);
    return good ? PITH_OK : pith_fail_nomem(err, "an answer");
}

/* A number may go on. */
static bool begins_whole(const char *reply, size_t n)
{
    json_t *value = NULL;
    const size_t end = pith_trim_end(reply, n);
    if (end == 0 || !strchr("}]\"", reply[end - 1])) return false;
    (void)first_value(reply, n, &value);
    const bool whole = value && !pith_json_is_number(value);
    json_decref(value);
    return whole;
}

/* --- a program --------------------------------------------------------------------------------
 * HumanEval (Chen et al. 2021) as lm-evaluation-harness 0.4.13 puts it together: the prompt, the
 * reply, the tests. */

static enum pith_status judge_program(const struct pith_answer *a, struct pith_judged *out,
                                      struct pith_error *err)
{
    struct pith_str program = {0};
    pith_str_append(&program, a->prompt.text, a->prompt.size);
    pith_str_append(&program, a->reply.text, a->reply.size);
    pith_str_putc(&program, '\n');
    pith_str_append(&program, a->target.text, a->target.size);
    const enum pith_status s = program.failed
                                   ? pith_fail_nomem(err, "a program")
                                   : pith_sandbox_run(program.data, program.len, &out->right, err);
    out->flexible = out->right;
    pith_str_free(&program);
    return s;
}

static const struct pith_saying sayings[] = {
    {"gsm8k", 256, {"Question:", "</s>", "<|im_end|>"}, true, judge_number, NULL},
    {"exact", 128, {"\n"}, false, judge_text, NULL},
    {"json", 256, {NULL}, false, judge_value, begins_whole},
    {"humaneval", 1024, {"\nclass", "\ndef", "\n#", "\nif", "\nprint"}, false, judge_program, NULL},
};

const struct pith_saying *pith_saying_of(const struct pith_task_form *form)
{
    for (size_t i = 0; i < PITH_COUNT(sayings); i++)
        if (strcmp(sayings[i].form, form->name) == 0) return &sayings[i];
    return NULL;
}

enum pith_status pith_saying_may(const struct pith_task_form *form, const char *path, bool run_code,
                                 struct pith_error *err)
{
    if (!(form->flags & PITH_TASK_RUN)) return PITH_OK;
    if (run_code) return pith_sandbox_check(err);
    return pith_fail(
        err, PITH_ARG,
        "%s: the answers are programs that the model writes: `run_code` lets them run, "
        "in a sandbox",
        path);
}

/* --- saying it -------------------------------------------------------------------------------- */

/* Cuts the text where the first of the form's ends begins, which lies in its last `new` bytes or
 * reaches into them. */
static bool stops(struct pith_speaker *s, size_t new)
{
    size_t first = s->text.len;
    for (size_t i = 0; i < PITH_COUNT(s->how->stop) && s->how->stop[i]; i++) {
        const size_t size = strlen(s->how->stop[i]), back = new + size - 1;
        const size_t from = s->text.len > back ? s->text.len - back : 0;
        const char *at = s->text.len ? strstr(s->text.data + from, s->how->stop[i]) : NULL;
        if (at && (size_t)(at - s->text.data) < first) first = (size_t)(at - s->text.data);
    }
    if (first == s->text.len) return false;
    s->text.len = first;
    s->text.data[first] = '\0';
    return true;
}

static enum pith_status hear(struct pith_speaker *s, bool *stopped, struct pith_error *err)
{
    const size_t new = s->piece.len;
    pith_str_append(&s->text, pith_str_text(&s->piece), new);
    if (s->text.failed || s->piece.failed) return pith_fail_nomem(err, "an answer");
    pith_str_clear(&s->piece);
    *stopped = new > 0 &&
               (stops(s, new) || (s->how->whole && s->how->whole(s->text.data, s->text.len)));
    return PITH_OK;
}

enum pith_status pith_speaker_say(struct pith_speaker *s, const struct pith_item *item,
                                  struct pith_error *err)
{
    const struct pith_tokenizer *t = s->job->tokenizer;
    const struct pith_item_choice *prompt = &s->items->choice[item->first];
    struct pith_stream stream = {.started = true};
    size_t n = prompt->length;
    bool stopped = false;
    pith_items_sequence(s->items, prompt, s->ids);
    pith_str_clear(&s->text);
    pith_str_clear(&s->piece);
    for (unsigned i = 0; i < s->how->tokens && !stopped; i++) {
        PITH_TRY(pith_scorer_read(&s->scorer, s->ids, n, err));
        PITH_TRY(pith_scorer_logits(&s->scorer, n - 1, 1, err));
        const int32_t id = (int32_t)pith_argmax(s->scorer.logits, s->scorer.model->shape.vocab);
        if (id == pith_tokenizer_eos(t)) break;
        s->ids[n++] = id;
        PITH_TRY(pith_stream_push(t, &stream, id, &s->piece, err));
        PITH_TRY(hear(s, &stopped, err));
    }
    PITH_TRY(pith_stream_end(&stream, &s->piece, err));
    return stopped ? PITH_OK : hear(s, &stopped, err);
}

enum pith_status pith_speaker_open(struct pith_speaker *s, const struct pith_task_job *job,
                                   struct pith_model *model, const struct pith_items *items,
                                   struct pith_error *err)
{
    const bool own = model == job->model;
    *s = (struct pith_speaker){
        .job = job, .items = items, .how = pith_saying_of(items->source->form)};
    const struct pith_scorer_options options = {.name = own ? "model" : "baseline",
                                                .capacity = items->longest + s->how->tokens,
                                                .exact = !own,
                                                .kv = own ? job->kv : pith_kv_floats(PITH_F32)};
    PITH_TRY(pith_scorer_init(&s->scorer, model, job->backend, &options, err));
    s->ids = pith_alloc(options.capacity, sizeof *s->ids);
    if (s->ids) return PITH_OK;
    pith_speaker_close(s);
    return pith_fail_nomem(err, "an answer");
}

void pith_speaker_close(struct pith_speaker *s)
{
    pith_free(s->ids);
    pith_str_free(&s->text);
    pith_str_free(&s->piece);
    pith_scorer_free(&s->scorer);
}

enum pith_status pith_speaker_answer(struct pith_speaker *s, const struct pith_item *item,
                                     struct pith_task_answers *out, struct pith_error *err)
{
    const struct pith_questions *q = &s->items->source->questions;
    const struct pith_question *question = &q->item[item->question];
    const struct pith_span target = q->choice[question->first];
    const char *text = pith_str_text(&q->text);
    struct pith_judged reply;
    PITH_TRY(pith_speaker_say(s, item, err));
    const struct pith_answer answer = {.prompt = {text + question->text.at, question->text.size},
                                       .target = {text + target.at, target.size},
                                       .reply = {pith_str_text(&s->text), s->text.len}};
    PITH_TRY(s->how->judge(&answer, &reply, err));
    out->greedy[item->first] = reply.right;
    out->score[item->first] = reply.flexible;
    return PITH_OK;
}
