#include "eval/task/synthetic_tasks.h"

#include "base/mem.h"
#include "base/names.h"
#include "base/rng.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const adjectives[] = {
#define MADE_KEY(adjective, noun) adjective,
#define MADE_FILLER(text)
#include "eval/task/synthetic_words.def"
#undef MADE_KEY
};
static const char *const nouns[] = {
#define MADE_KEY(adjective, noun) noun,
#include "eval/task/synthetic_words.def"
#undef MADE_KEY
#undef MADE_FILLER
};
static const char *const fillers[] = {
#define MADE_KEY(adjective, noun)
#define MADE_FILLER(text) text,
#include "eval/task/synthetic_words.def"
#undef MADE_KEY
#undef MADE_FILLER
};

enum { CHOICES = 4, NEEDLES = 8, CHAINS = 4, HOPS = 2, LEAD = 6, WORD = 32 };
#define MOST_UNITS ((size_t)1 << 30)

/* A question in the making: always drawn from the start of its random numbers, however many units
 * (sentences, lines, words) fit. */
struct making {
    struct pith_rng rng;
    double depth;
    struct pith_str text;
    char choice[CHOICES][WORD]; /* the first is right */
    uint32_t *key;              /* a shuffle of all, while it is made */
    size_t keys;                /* made so far: the first are in order of need */
};

typedef void made_fn(struct making *m, size_t units);

static size_t below(struct making *m, size_t n)
{
    return (size_t)pith_rng_below(&m->rng, n);
}

/* Keys are of two words, or of three where there are more keys than two words make. */
enum {
    TWO_WORDS = (int)(PITH_COUNT(adjectives) * PITH_COUNT(nouns)),
    THREE_WORDS = TWO_WORDS * (int)(PITH_COUNT(adjectives) - 1)
};

static size_t all_keys(size_t need)
{
    return need <= TWO_WORDS ? TWO_WORDS : THREE_WORDS;
}

/* Draws the first `need` of a shuffle of all keys. */
static void draw_keys(struct making *m, size_t need)
{
    const size_t all = all_keys(need);
    for (size_t i = 0; i < all; i++) m->key[i] = (uint32_t)i;
    for (size_t i = 0; i < need; i++) {
        const size_t k = i + below(m, all - i);
        const uint32_t saved = m->key[i];
        m->key[i] = m->key[k];
        m->key[k] = saved;
    }
    m->keys = need;
}

static void put_key(struct making *m, size_t i)
{
    const size_t k = m->key[i], two = k % TWO_WORDS, n = PITH_COUNT(nouns);
    const size_t a = two / n;
    size_t other = k / TWO_WORDS;
    if (m->keys > TWO_WORDS) { /* any but the second word */
        if (other >= a) other++;
        pith_str_printf(&m->text, " %s", adjectives[other]);
    }
    pith_str_printf(&m->text, " %s %s", adjectives[a], nouns[two % n]);
}

static void put_filler(struct making *m)
{
    if (m->text.len) pith_str_putc(&m->text, ' ');
    pith_str_puts(&m->text, fillers[below(m, PITH_COUNT(fillers))]);
}

/* Different numbers of four digits. */
static void draw_numbers(struct making *m, unsigned *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool taken;
        do {
            out[i] = 1000 + (unsigned)below(m, 9000);
            taken = false;
            for (size_t k = 0; k < i; k++) taken = taken || out[k] == out[i];
        } while (taken);
    }
}

static void put_number(struct making *m, size_t key, const unsigned *number)
{
    pith_str_puts(&m->text, m->text.len ? " The number of the" : "The number of the");
    put_key(m, key);
    pith_str_puts(&m->text, " is");
    if (number) pith_str_printf(&m->text, " %u.", *number);
}

/* The unit in front of which something at a depth stands. */
static size_t place(double depth, size_t units)
{
    return (size_t)(depth * (double)units + 0.5);
}

static void hide(struct making *m, size_t units, size_t needles)
{
    unsigned number[NEEDLES];
    size_t at[NEEDLES] = {place(m->depth, units)};
    draw_keys(m, needles);
    draw_numbers(m, number, NEEDLES);
    for (size_t i = 1; i < needles; i++) at[i] = below(m, units + 1);
    for (size_t u = 0; u <= units; u++) {
        for (size_t i = 0; i < needles; i++)
            if (at[i] == u) put_number(m, i, &number[i]);
        if (u < units) put_filler(m);
    }
    put_number(m, 0, NULL);
    for (size_t i = 0; i < CHOICES; i++) snprintf(m->choice[i], WORD, " %u", number[i]);
}

static void write_needle(struct making *m, size_t units)
{
    hide(m, units, 1);
}

static void write_needles(struct making *m, size_t units)
{
    hide(m, units, NEEDLES);
}

/* A noun that none of the first `count` choices is; those of `among`, if any. */
static void draw_wrong(struct making *m, size_t count, const uint8_t *among, size_t size)
{
    bool taken;
    do {
        const char *word = nouns[among ? among[below(m, size)] : below(m, PITH_COUNT(nouns))];
        snprintf(m->choice[count], WORD, " %s", word);
        taken = false;
        for (size_t i = 0; i < count; i++)
            taken = taken || strcmp(m->choice[i], m->choice[count]) == 0;
    } while (taken);
}

static void write_pairs(struct making *m, size_t units)
{
    const size_t lines = units + CHOICES;
    size_t target = place(m->depth, lines);
    if (target == lines) target--;
    draw_keys(m, lines);
    const size_t first = below(m, PITH_COUNT(nouns));
    uint8_t seen[CHOICES];
    for (size_t i = 0; i < CHOICES; i++)
        seen[i] = (uint8_t)((first + i * (1 + PITH_COUNT(nouns) / CHOICES)) % PITH_COUNT(nouns));
    for (size_t i = 0; i < lines; i++) {
        /* Whatever the length, four different values stand there. */
        const size_t step = (i + lines - target) % lines;
        const size_t value = step < CHOICES ? seen[step] : below(m, PITH_COUNT(nouns));
        pith_str_putc(&m->text, '-');
        put_key(m, i);
        pith_str_printf(&m->text, ": %s\n", nouns[value]);
    }
    pith_str_putc(&m->text, '-');
    put_key(m, target);
    pith_str_putc(&m->text, ':');
    snprintf(m->choice[0], WORD, " %s", nouns[seen[0]]);
    for (size_t i = 1; i < CHOICES; i++) draw_wrong(m, i, seen, CHOICES);
}

static const char *draw_word(struct making *m)
{
    const size_t k = below(m, PITH_COUNT(adjectives) + PITH_COUNT(nouns));
    return k < PITH_COUNT(adjectives) ? adjectives[k] : nouns[k - PITH_COUNT(adjectives)];
}

static void write_copy(struct making *m, size_t units)
{
    const size_t words = units + LEAD + 1;
    const size_t first = place(m->depth, words - LEAD - 1);
    char lead[LEAD * WORD] = "";
    size_t used = 0;
    for (size_t i = 0; i < words; i++) {
        const bool target = i == first + LEAD;
        const char *word = target ? nouns[below(m, PITH_COUNT(nouns))] : draw_word(m);
        pith_str_printf(&m->text, i ? " %s" : "%s", word);
        if (target) snprintf(m->choice[0], WORD, " %s", word);
        else if (i >= first && i < first + LEAD)
            used += (size_t)snprintf(lead + used, sizeof lead - used, used ? " %s" : "%s", word);
    }
    pith_str_printf(&m->text, "\n %s", lead);
    for (size_t i = 1; i < CHOICES; i++) draw_wrong(m, i, NULL, 0);
}

/* Chain c has keys c * (HOPS + 1) and on; its links stand in order, the first at the depth. */
static void write_track(struct making *m, size_t units)
{
    enum { LINKS = CHAINS * (HOPS + 1) };
    unsigned number[CHAINS];
    size_t at[LINKS];
    draw_keys(m, LINKS);
    draw_numbers(m, number, CHAINS);
    for (size_t i = 0; i < LINKS; i++) {
        const size_t after = i % (HOPS + 1) ? at[i - 1] : 0;
        at[i] = i == 0 ? place(m->depth, units) : after + below(m, units + 1 - after);
    }
    for (size_t u = 0; u <= units; u++) {
        for (size_t i = 0; i < LINKS; i++) {
            if (at[i] != u) continue;
            if (i % (HOPS + 1) == 0) {
                put_number(m, i, &number[i / (HOPS + 1)]);
                continue;
            }
            put_number(m, i, NULL);
            pith_str_puts(&m->text, " that of the");
            put_key(m, i - 1);
            pith_str_putc(&m->text, '.');
        }
        if (u < units) put_filler(m);
    }
    pith_str_puts(&m->text, " In digits, the number of the");
    put_key(m, HOPS);
    pith_str_puts(&m->text, " is");
    for (size_t i = 0; i < CHOICES; i++) snprintf(m->choice[i], WORD, " %u", number[i]);
}

#define FORM(row)                                                                                  \
    {.name = row,                                                                                  \
     .before = "",                                                                                 \
     .after = "",                                                                                  \
     .delimiter = "",                                                                              \
     .example_delimiter = "",                                                                      \
     .flags = PITH_TASK_MADE}
static const struct made_row {
    struct pith_task_form form;
    made_fn *write; /* of a context */
    size_t most;    /* units: sentences, lines, words */
} rows[] = {
    /* one number in plain sentences, the wrong ones stand nowhere */
    {FORM("needle"), write_needle, MOST_UNITS},
    /* eight numbers in plain sentences, one of them wanted */
    {FORM("needles"), write_needles, MOST_UNITS},
    /* a list of keys and their words, one of them wanted */
    {FORM("kv"), write_pairs, THREE_WORDS - CHOICES},
    /* words, then six of them again: which came next */
    {FORM("copy"), write_copy, MOST_UNITS},
    /* four numbers, each handed on twice: what is the last one's */
    {FORM("track"), write_track, MOST_UNITS},
};

const char *pith_made_name(size_t i)
{
    return i < PITH_COUNT(rows) ? rows[i].form.name : NULL;
}

const struct pith_task_form *pith_made_find(const char *path, size_t *length)
{
    const size_t n = strcspn(path, ":");
    *length = 0;
    if (path[n]) {
        if (!isdigit((unsigned char)path[n + 1]) || strlen(path + n) > 10) return NULL;
        char *end;
        *length = (size_t)strtoull(path + n + 1, &end, 10);
        if (*end || !*length) return NULL;
    }
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (strlen(rows[i].form.name) == n && strncasecmp(rows[i].form.name, path, n) == 0)
            return &rows[i].form;
    return NULL;
}

/* What stays the same from question to question. */
struct maker {
    const struct pith_task_wish *wish;
    struct pith_task_source *out;
    struct making making;
    struct pith_ids ids;
    size_t row, length;
    size_t least; /* tokens without any unit */
    double unit;  /* tokens of one, about */
};

static void start(struct maker *k, size_t depth, size_t item)
{
    struct making *m = &k->making;
    const uint64_t index = (k->row * PITH_MADE_DEPTHS + depth) * 1000003 + item;
    pith_rng_seed(&m->rng, k->wish->seed * 0x9E3779B97F4A7C15u + index);
    m->depth = (double)depth / (PITH_MADE_DEPTHS - 1);
    pith_str_clear(&m->text);
}

/* Writes a question of so many units; *tokens: of prompt and longest choice. */
static enum pith_status measure(struct maker *k, size_t depth, size_t item, size_t units,
                                size_t *tokens, struct pith_error *err)
{
    const struct pith_tokenizer *t = k->wish->tokenizer;
    struct pith_str *text = &k->making.text;
    start(k, depth, item);
    rows[k->row].write(&k->making, units);
    if (text->failed) return pith_fail_nomem(err, "the questions of a task");
    const size_t prompt = text->len;
    *tokens = 0;
    for (size_t i = 0; i < CHOICES; i++) {
        k->ids.count = 0;
        pith_str_puts(text, k->making.choice[i]);
        if (text->failed) return pith_fail_nomem(err, "the questions of a task");
        PITH_TRY(pith_tokenizer_encode(t, text->data, text->len, false, &k->ids, err));
        const size_t n = k->ids.count + pith_tokenizer_adds_bos(t);
        if (n > *tokens) *tokens = n;
        if (n > k->length) i = CHOICES; /* that is enough to know */
        text->data[text->len = prompt] = '\0';
    }
    return PITH_OK;
}

/* The largest number of units that fits, or nearly: each attempt corrects the last by what it was
 * off. */
static enum pith_status write_fitting(struct maker *k, size_t depth, size_t item,
                                      struct pith_error *err)
{
    enum { ATTEMPTS = 8 };
    size_t units = (size_t)((double)(k->length - k->least) / k->unit), tokens;
    const size_t most = rows[k->row].most;
    for (int i = 0;; i++) {
        if (units > most) units = most;
        PITH_TRY(measure(k, depth, item, units, &tokens, err));
        if (tokens <= k->length &&
            (i >= ATTEMPTS / 2 || (double)(k->length - tokens) < 2 * k->unit || units == most))
            return PITH_OK;
        if (tokens > k->length) {
            const size_t less = 1 + (size_t)((double)(tokens - k->length) / k->unit) +
                                (size_t)(i > ATTEMPTS ? i : 0);
            units = units > less ? units - less : 0;
            if (tokens > k->length && units == 0 && i > ATTEMPTS)
                return pith_fail(err, PITH_ARG, "%s: %zu tokens are too few", k->wish->path,
                                 k->length);
        } else {
            units += (size_t)((double)(k->length - tokens) / k->unit);
        }
    }
}

static enum pith_status add_question(struct maker *k, const struct pith_asking *a,
                                     struct pith_error *err)
{
    struct making *m = &k->making;
    const size_t right = below(m, CHOICES);
    PITH_TRY(pith_question_begin(a, pith_str_text(&m->text), m->text.len, err));
    for (size_t i = 0; i < CHOICES; i++) {
        const char *c = m->choice[i == right ? 0 : i < right ? i + 1 : i];
        PITH_TRY(pith_question_choice(a, c, strlen(c), err));
    }
    a->out->item[a->out->count - 1].answer = right;
    return PITH_OK;
}

static enum pith_status add_depth(struct maker *k, size_t depth, struct pith_error *err)
{
    const size_t items = k->wish->limit ? k->wish->limit : PITH_MADE_ITEMS;
    struct pith_records record = {.path = k->wish->path};
    struct pith_asking a = {.form = k->out->form, .records = &record, .out = &k->out->questions};
    struct pith_subject *s = pith_subject_add(k->out, err);
    if (!s) return PITH_NOMEM;
    s->depth = (double)depth / (PITH_MADE_DEPTHS - 1);
    s->first = k->out->questions.count;
    s->count = items;
    snprintf(s->name, sizeof s->name, "depth %zu%%", depth * 100 / (PITH_MADE_DEPTHS - 1));
    for (size_t i = 0; i < items; i++) {
        record.line = k->out->questions.count + 1;
        PITH_TRY(write_fitting(k, depth, i, err));
        PITH_TRY(add_question(k, &a, err));
    }
    return PITH_OK;
}

/* How many tokens there are without a unit, and with some. */
static enum pith_status prepare(struct maker *k, struct pith_error *err)
{
    enum { UNITS = 50 };
    size_t more;
    PITH_TRY(measure(k, 0, 0, 0, &k->least, err));
    if (k->least > k->length)
        return pith_fail(err, PITH_ARG, "%s: %zu tokens are too few, it takes about %zu",
                         k->wish->path, k->length, k->least);
    PITH_TRY(measure(k, 0, 0, UNITS, &more, err));
    k->unit = more > k->least ? (double)(more - k->least) / UNITS : 1;
    return PITH_OK;
}

static enum pith_status make_all(struct maker *k, struct pith_error *err)
{
    k->making.key = pith_alloc(THREE_WORDS, sizeof *k->making.key);
    if (!k->making.key) return pith_fail_nomem(err, "the keys of a task");
    PITH_TRY(prepare(k, err));
    for (size_t i = 0; i < PITH_MADE_DEPTHS; i++) PITH_TRY(add_depth(k, i, err));
    return PITH_OK;
}

enum pith_status pith_made_open(const struct pith_task_wish *wish, struct pith_task_source *out,
                                struct pith_error *err)
{
    size_t own;
    *out = (struct pith_task_source){.form = pith_made_find(wish->path, &own)};
    if (!out->form) return pith_fail_name(err, "task", wish->path, pith_made_name);
    struct maker k = {.wish = wish, .out = out};
    while (&rows[k.row].form != out->form) k.row++;
    k.length = own ? own : wish->length;
    if (!k.length)
        k.length = wish->most && wish->most < PITH_MADE_LENGTH ? wish->most : PITH_MADE_LENGTH;
    out->length = k.length;
    if (wish->shots)
        return pith_fail(err, PITH_ARG, "%s: no examples are made for it; leave `shots` out",
                         wish->path);
    if (wish->most && k.length > wish->most)
        return pith_fail(err, PITH_ARG, "%s: %zu tokens, the model takes %zu", wish->path, k.length,
                         wish->most);
    if (!wish->tokenizer) return PITH_OK;
    const enum pith_status s = make_all(&k, err);
    pith_free(k.making.key);
    pith_str_free(&k.making.text);
    pith_ids_free(&k.ids);
    if (s != PITH_OK) pith_task_source_free(out);
    return s;
}
