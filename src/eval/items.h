/* eval/items.h: a multiple-choice file, read and encoded. */
#ifndef PITH_EVAL_ITEMS_H
#define PITH_EVAL_ITEMS_H

#include "tok/tokenizer.h"

/* One sequence: context and choice; the ids from `score_from` on are the choice's. There are none
 * when the choice merges with the end of the context into no more tokens than the context has
 * alone. */
struct pith_item_choice {
    size_t first, length; /* in ids */
    size_t score_from;    /* > 0 */
};

struct pith_item {
    size_t line;          /* in the file, from 1 */
    size_t first, count;  /* in choices */
    size_t answer;        /* < count */
};

struct pith_items {
    struct pith_item *item;
    size_t count, item_cap;
    struct pith_item_choice *choice;
    size_t choices, choice_cap;
    struct pith_ids ids;
    size_t longest;       /* tokens of the longest sequence */
};

struct pith_item_rules {
    const char *path; /* also in messages */
    const struct pith_tokenizer *tokenizer;
    size_t limit;      /* stops after that many items; 0: all */
    size_t max_length; /* tokens of a sequence */
};

/* Reads JSON lines as eval.h describes; blank lines are skipped. PITH_FORMAT names the line; also
 * when there is no item. On failure *out owns nothing. */
enum pith_status pith_items_read(const struct pith_item_rules *rules, struct pith_items *out,
                                 struct pith_error *err);
/* The same from memory, for fuzzing. */
enum pith_status pith_items_parse(const char *text, size_t size,
                                  const struct pith_item_rules *rules, struct pith_items *out,
                                  struct pith_error *err);
/* Frees what *items owns and zeroes it. */
void pith_items_free(struct pith_items *items);

#endif
