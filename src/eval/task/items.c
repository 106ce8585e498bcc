#include "eval/task/items.h"

#include "base/grow.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"
#include "eval/task/free_answers.h"
#include "eval/task/shots.h"
#include "eval/task/white_space.h"
#include "tok/jinja/jinja.h"

#include <string.h>

/* The item in work. */
struct work {
    const struct pith_task_source *source;
    const struct pith_item_rules *rules;
    const struct pith_question *question;
    struct pith_str prompt, whole;
    struct pith_ids ids; /* of one sequence */
    size_t prompt_end;   /* bytes of the prompt without white space behind it */
    size_t prompt_tokens;
};

static enum pith_status append_id(struct pith_ids *ids, int32_t id, struct pith_error *err)
{
    return pith_ids_push(ids, id) ? PITH_OK : pith_fail_nomem(err, "the tokens of a task");
}

static bool begins_with_bos(const struct pith_item_rules *r, const char *text, size_t size)
{
    const char *bos = r->chat ? pith_chat_token(r->chat, "bos_token") : NULL;
    return bos && *bos && strlen(bos) <= size && memcmp(text, bos, strlen(bos)) == 0;
}

/* Replaces ids by BOS (where the tokenizer has one in front and no template wrote it) and the
 * text's, but no closing token. */
static enum pith_status encode(const struct pith_item_rules *r, const char *text, size_t size,
                               struct pith_ids *ids, struct pith_error *err)
{
    const struct pith_tokenizer *t = r->tokenizer;
    ids->count = 0;
    if (pith_tokenizer_adds_bos(t) && !begins_with_bos(r, text, size))
        PITH_TRY(append_id(ids, pith_tokenizer_bos(t), err));
    return pith_tokenizer_encode(t, text, size, false, ids, err);
}

static void append_span(struct pith_str *out, const struct pith_questions *q, struct pith_span s)
{
    pith_str_append(out, pith_str_text(&q->text) + s.at, s.size);
}

static void append_example(struct work *w, const struct pith_questions *q, size_t index)
{
    const struct pith_question *x = &q->item[index];
    append_span(&w->prompt, q, x->text);
    pith_str_puts(&w->prompt, w->source->form->example_delimiter);
    append_span(&w->prompt, q, q->choice[x->first + x->answer]);
    pith_str_puts(&w->prompt, "\n\n");
}

/* --- as a conversation ------------------------------------------------------------------------ */

static bool add_message(json_t *messages, const char *role, const struct pith_questions *q,
                        struct pith_span s)
{
    json_t *message =
        json_pack("{s:s, s:s%}", "role", role, "content", pith_str_text(&q->text) + s.at, s.size);
    return message && json_array_append_new(messages, message) == 0;
}

static json_t *make_messages(const struct work *w, const struct pith_shots *shots)
{
    const struct pith_questions *questions = &w->source->questions, *pool = pith_shots_pool(shots);
    json_t *messages = json_array();
    bool good = messages;
    if (good && shots->subject->intro.size)
        good = add_message(messages, "system", questions, shots->subject->intro);
    for (size_t i = 0; i < shots->wanted && good; i++) {
        const struct pith_question *x = &pool->item[shots->index[i]];
        good = add_message(messages, "user", pool, x->text) &&
               add_message(messages, "assistant", pool, pool->choice[x->first + x->answer]);
    }
    if (good && add_message(messages, "user", questions, w->question->text)) return messages;
    json_decref(messages);
    return NULL;
}

/* Appends to the prompt what the template makes of the messages. */
static enum pith_status render(struct work *w, json_t *messages, struct pith_error *err)
{
    struct pith_rendered r = {0};
    json_t *j = json_pack("{s:O, s:b}", "messages", messages, "add_generation_prompt", 1);
    if (!j) return pith_fail_nomem(err, "a conversation");
    const enum pith_status s = pith_chat_render(w->rules->chat, j, 0, &r, err);
    json_decref(j);
    if (s != PITH_OK) return s;
    pith_str_append(&w->prompt, r.text, r.size);
    pith_rendered_free(&r);
    return PITH_OK;
}

static enum pith_status make_conversation(struct work *w, const struct pith_shots *shots,
                                          struct pith_error *err)
{
    json_t *messages = make_messages(w, shots);
    if (!messages) return pith_fail_nomem(err, "a conversation");
    enum pith_status s = render(w, messages, err);
    if (s == PITH_FORMAT && shots->subject->intro.size && json_array_remove(messages, 0) == 0)
        s = render(w, messages, err);
    json_decref(messages);
    return s == PITH_OK ? s : pith_fail_in(err, s, w->rules->path);
}

static void make_text(struct work *w, const struct pith_shots *shots)
{
    append_span(&w->prompt, &w->source->questions, shots->subject->intro);
    for (size_t i = 0; i < shots->wanted; i++)
        append_example(w, pith_shots_pool(shots), shots->index[i]);
    append_span(&w->prompt, &w->source->questions, w->question->text);
}

/* --- prompts and choices ---------------------------------------------------------------------- */

static enum pith_status make_prompt(struct work *w, struct pith_shots *shots, size_t index,
                                    struct pith_error *err)
{
    PITH_TRY(pith_shots_choose(shots, index, err));
    pith_str_clear(&w->prompt);
    if (w->rules->chat) PITH_TRY(make_conversation(w, shots, err));
    else make_text(w, shots);
    if (w->prompt.failed) return pith_fail_nomem(err, "the text of a task");
    w->prompt_end = pith_trim_end(pith_str_text(&w->prompt), w->prompt.len);
    PITH_TRY(encode(w->rules, pith_str_text(&w->prompt), w->prompt_end, &w->ids, err));
    w->prompt_tokens = w->ids.count;
    if (w->ids.count) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: line %zu: the context has no token to predict from",
                     w->rules->path, w->question->line);
}

/* Tokens to drop in front of a sequence. */
static enum pith_status shorten(const struct work *w, size_t scored, size_t *drop,
                                struct pith_error *err)
{
    const size_t most = w->rules->max_length, n = w->ids.count;
    const bool may = w->source->form->flags & PITH_TASK_SHORTENED;
    *drop = may && n > most + 1 ? n - most - 1 : 0;
    if (may ? scored <= most : n <= most) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: line %zu: %s %zu tokens, the model takes %zu",
                     w->rules->path, w->question->line,
                     may ? "a choice has" : "context and choice have", may ? scored : n, most);
}

/* The ids beyond those that the sequence has in common with the item's first one. */
static enum pith_status store(struct pith_items *out, const int32_t *ids,
                              const struct pith_item_choice *first, struct pith_item_choice *c,
                              struct pith_error *err)
{
    c->tail = c->head = out->ids.count;
    if (first) {
        c->head = first->head;
        while (c->shared < c->length && c->shared < first->length &&
               ids[c->shared] == out->ids.id[first->head + c->shared])
            c->shared++;
    }
    for (size_t i = c->shared; i < c->length; i++) PITH_TRY(append_id(&out->ids, ids[i], err));
    return PITH_OK;
}

static enum pith_status add_choice(struct work *w, size_t index, struct pith_items *out,
                                   struct pith_item *item, struct pith_error *err)
{
    const struct pith_questions *q = &w->source->questions;
    const struct pith_span choice = q->choice[w->question->first + index];
    pith_str_clear(&w->whole);
    pith_str_append(&w->whole, pith_str_text(&w->prompt), w->prompt.len);
    if (!w->rules->chat) pith_str_puts(&w->whole, w->source->form->delimiter);
    append_span(&w->whole, q, choice);
    if (w->whole.failed) return pith_fail_nomem(err, "the text of a task");
    PITH_TRY(encode(w->rules, pith_str_text(&w->whole), w->whole.len, &w->ids, err));
    const size_t n = w->ids.count, scored = n > w->prompt_tokens ? n - w->prompt_tokens : 0;
    size_t drop;
    PITH_TRY(shorten(w, scored, &drop, err));
    struct pith_item_choice c = {
        .length = n - drop,
        .score_from = scored ? n - drop - scored : n - drop,
        .characters = pith_utf8_count(pith_str_text(&q->text) + choice.at, choice.size)};
    struct pith_item_choice *all =
        pith_grow(out->choice, out->choices, &out->choice_cap, 64, sizeof *all);
    if (!all) return pith_fail_nomem(err, "the choices of a task");
    out->choice = all;
    PITH_TRY(store(out, w->ids.id + drop, index ? &all[item->first] : NULL, &c, err));
    item->shortened = item->shortened || drop;
    if (c.length > out->longest) out->longest = c.length;
    all[out->choices++] = c;
    return PITH_OK;
}

/* The prompt alone, with room for the reply. */
static enum pith_status add_prompt(struct work *w, struct pith_items *out, struct pith_item *item,
                                   struct pith_error *err)
{
    const size_t tokens = pith_saying_of(w->source->form)->tokens;
    const size_t room = w->rules->max_length > tokens ? w->rules->max_length - tokens : 0;
    PITH_TRY(encode(w->rules, pith_str_text(&w->prompt), w->prompt.len, &w->ids, err));
    const size_t n = w->ids.count, drop = n > room ? n - room : 0;
    if (room == 0 || (drop && !(w->source->form->flags & PITH_TASK_SHORTENED)))
        return pith_fail(err, PITH_FORMAT,
                         "%s: line %zu: %zu tokens and an answer of up to %zu, the model takes %zu",
                         w->rules->path, w->question->line, n, tokens, w->rules->max_length);
    struct pith_item_choice c = {.length = n - drop, .score_from = n - drop};
    struct pith_item_choice *all =
        pith_grow(out->choice, out->choices, &out->choice_cap, 64, sizeof *all);
    if (!all) return pith_fail_nomem(err, "the prompts of a task");
    out->choice = all;
    PITH_TRY(store(out, w->ids.id + drop, NULL, &c, err));
    item->shortened = drop;
    if (c.length > out->longest) out->longest = c.length;
    all[out->choices++] = c;
    return PITH_OK;
}

static enum pith_status add_item(struct work *w, struct pith_shots *shots, size_t index,
                                 struct pith_items *out, struct pith_error *err)
{
    w->question = &w->source->questions.item[index];
    struct pith_item item = {.line = w->question->line,
                             .first = out->choices,
                             .count = w->question->count,
                             .answer = w->question->answer,
                             .question = index,
                             .subject = (size_t)(shots->subject - w->source->subject)};
    PITH_TRY(make_prompt(w, shots, index, err));
    const bool generated = w->source->form->flags & PITH_TASK_GENERATED;
    if (generated) PITH_TRY(add_prompt(w, out, &item, err));
    for (size_t i = 0; i < item.count && !generated; i++)
        PITH_TRY(add_choice(w, i, out, &item, err));
    struct pith_item *all = pith_grow(out->item, out->count, &out->item_cap, 64, sizeof *all);
    if (!all) return pith_fail_nomem(err, "the items of a task");
    out->item = all;
    all[out->count++] = item;
    return PITH_OK;
}

static enum pith_status add_subject(struct work *w, const struct pith_subject *subject,
                                    struct pith_items *out, struct pith_error *err)
{
    struct pith_shots shots;
    enum pith_status s = pith_shots_begin(&shots, w->source, subject, w->rules->shots, err);
    for (size_t i = 0; i < subject->count && s == PITH_OK; i++) {
        s = add_item(w, &shots, subject->first + i, out, err);
        if (s == PITH_OK)
            s = pith_progress_step(w->rules->progress, "reading questions", (double)out->count,
                                   (double)w->source->questions.count, err);
    }
    pith_shots_free(&shots);
    return s == PITH_ARG ? pith_fail_in(err, s, w->rules->path) : s;
}

enum pith_status pith_items_make(const struct pith_task_source *source,
                                 const struct pith_item_rules *rules, struct pith_items *out,
                                 struct pith_error *err)
{
    struct work w = {.source = source, .rules = rules};
    enum pith_status s = PITH_OK;
    *out = (struct pith_items){.source = source};
    for (size_t i = 0; i < source->subjects && s == PITH_OK; i++)
        s = add_subject(&w, &source->subject[i], out, err);
    pith_str_free(&w.prompt);
    pith_str_free(&w.whole);
    pith_ids_free(&w.ids);
    if (s != PITH_OK) pith_items_free(out);
    return s;
}

void pith_items_sequence(const struct pith_items *items, const struct pith_item_choice *c,
                         int32_t *out)
{
    const int32_t *id = items->ids.id;
    memcpy(out, id + c->head, c->shared * sizeof *out);
    memcpy(out + c->shared, id + c->tail, (c->length - c->shared) * sizeof *out);
}

void pith_items_free(struct pith_items *items)
{
    pith_free(items->item);
    pith_free(items->choice);
    pith_ids_free(&items->ids);
    *items = (struct pith_items){0};
}
