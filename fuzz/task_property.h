/* fuzz/task_property.h: what must hold for every task that is read. */
#ifndef PITH_FUZZ_TASK_PROPERTY_H
#define PITH_FUZZ_TASK_PROPERTY_H

#include "base/file.h"
#include "base/mem.h"
#include "eval/task/free_answers.h"
#include "eval/task/items.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition) abort();
}

/* Made once and kept: a byte-level tokenizer that puts BOS in front. */
static const struct pith_tokenizer *tokenizer(void)
{
    static struct pith_tokenizer *t;
    if (!t) must(pith_tokenizer_open("tests/golden/eval/tiny", &t, NULL) == PITH_OK);
    return t;
}

static void check_item(const struct pith_items *items, const struct pith_item *item)
{
    const struct pith_item_choice *first = &items->choice[item->first];
    for (size_t i = 0; i < item->count; i++) {
        const struct pith_item_choice *c = &first[i];
        must(c->shared <= c->length && c->shared <= first->length && c->head == first->tail);
        must(c->tail + c->length - c->shared <= items->ids.count);
        must(c->length <= items->longest && c->score_from > 0 && c->score_from <= c->length);
    }
}

static void check(const struct pith_items *items, size_t max_length)
{
    must(items->count > 0 && items->longest <= max_length + 1);
    size_t next = 0, line = 0;
    for (size_t i = 0; i < items->count; i++) {
        const struct pith_item *item = &items->item[i];
        must(item->first == next && item->count >= 1 && item->answer < item->count);
        must(item->line > line);
        line = item->line;
        next += item->count;
        check_item(items, item);
    }
    must(next == items->choices);
}

/* Every choice can be put together, and is as long as it says. */
static void read_sequences(const struct pith_items *items)
{
    int32_t *ids = pith_alloc(items->longest, sizeof *ids);
    must(ids != NULL);
    for (size_t i = 0; i < items->choices; i++) {
        pith_items_sequence(items, &items->choice[i], ids);
        for (size_t k = 0; k < items->choice[i].length; k++) must(ids[k] >= 0);
    }
    pith_free(ids);
}

static struct pith_phrase part(const struct pith_questions *q, struct pith_span s)
{
    return (struct pith_phrase){pith_str_text(&q->text) + s.at, s.size};
}

/* Of answers in words: each question as if it had been said, for each target. Programs are not run
 * here: what they may do is the sandbox's matter. */
static void judge(const struct pith_task_source *source)
{
    const struct pith_saying *how = pith_saying_of(source->form);
    const struct pith_questions *q = &source->questions;
    must(pith_saying_may(source->form, "", false, NULL) ==
         (source->form->flags & PITH_TASK_RUN ? PITH_ARG : PITH_OK));
    if (source->form->flags & PITH_TASK_RUN) return;
    for (size_t i = 0; how && i < q->count; i++) {
        const struct pith_phrase asked = part(q, q->item[i].text);
        const struct pith_answer a = {asked, part(q, q->choice[q->item[i].first]), asked};
        struct pith_judged out;
        must(how->judge(&a, &out, NULL) == PITH_OK);
        must(how->flexible || out.flexible == out.right);
    }
}

/* The questions of a source as ids, of which the model reads `most`; frees the source. */
static enum pith_status use_task(struct pith_task_source *source, const struct pith_task_wish *wish,
                                 size_t most, struct pith_error *err)
{
    const struct pith_item_rules rules = {
        .path = wish->path, .tokenizer = tokenizer(), .shots = wish->shots, .max_length = most};
    struct pith_items items = {0};
    must(source->subjects == 1 && source->subject[0].count <= source->questions.count);
    const enum pith_status s = pith_items_make(source, &rules, &items, err);
    must(s == PITH_OK || s == PITH_FORMAT || s == PITH_ARG);
    if (s == PITH_OK) {
        judge(source);
        check(&items, most);
        read_sequences(&items);
    }
    pith_items_free(&items);
    pith_task_source_free(source);
    return s;
}

#endif
