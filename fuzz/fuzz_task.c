/* Any bytes as a task file: refused with a line, or every item has its choices, answer and
 * ids where scoring will look for them. */
#include "base/file.h"
#include "base/mem.h"
#include "eval/items.h"

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

static void check(const struct pith_items *items, size_t max_length)
{
    must(items->count > 0 && items->longest <= max_length);
    size_t next = 0, line = 0;
    for (size_t i = 0; i < items->count; i++) {
        const struct pith_item *item = &items->item[i];
        must(item->first == next && item->count >= 2 && item->answer < item->count);
        must(item->line > line);
        line = item->line;
        next += item->count;
    }
    must(next == items->choices);
    for (size_t i = 0; i < items->choices; i++) {
        const struct pith_item_choice *c = &items->choice[i];
        must(c->first + c->length <= items->ids.count && c->score_from > 0);
        must(c->length <= items->longest && c->length > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct pith_item_rules rules = {"task.jsonl", tokenizer(), size % 3, 64};
    struct pith_items items;
    struct pith_error err = {0};
    const enum pith_status s = pith_items_parse((const char *)data, size, &rules, &items, &err);
    if (s == PITH_OK) check(&items, rules.max_length);
    else must(s == PITH_FORMAT && strstr(err.text, "task.jsonl"));
    pith_items_free(&items);
    return 0;
}
