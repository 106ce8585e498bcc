/* The text of a plan: the model, the best rows as a table, why and how, what was ruled out. */
#include "plan/search.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { SHOWN = 12, OUT_SHOWN = 8, REASONS = 3 };

/* --- the table -------------------------------------------------------------------------------- */

/* A row's texts; columns that are empty in all rows are omitted, of the others where a line is too
 * long those that can best be done without, in the order of `spare` (0: never). Those that are the
 * same in all rows stand above, once. */
enum { COLUMNS = 18, ENGINE = 4, USERS = 7, LINE = 100 };
static const struct {
    const char *name;
    enum pith_cell kind;
    int spare;
    bool once;
} column[COLUMNS] = {{"", PITH_CELL_NUMBER, 0, false},
                     {"recipe", PITH_CELL_TEXT, 0, false},
                     {"weights", PITH_CELL_TEXT, 3, false},
                     {"cache", PITH_CELL_TEXT, 0, false},
                     {"engine", PITH_CELL_TEXT, 0, true},
                     {"on", PITH_CELL_TEXT, 0, true},
                     {"context", PITH_CELL_NUMBER, 0, true},
                     {"users", PITH_CELL_NUMBER, 0, true},
                     {"weights GB", PITH_CELL_NUMBER, 0, false},
                     {"cache GB", PITH_CELL_NUMBER, 4, false},
                     {"all GB", PITH_CELL_NUMBER, 0, false},
                     {"max users", PITH_CELL_NUMBER, 5, false},
                     {"max context", PITH_CELL_NUMBER, 1, false},
                     {"first s", PITH_CELL_NUMBER, 0, false},
                     {"tokens/s each", PITH_CELL_NUMBER, 2, false},
                     {"tokens/s", PITH_CELL_NUMBER, 0, false},
                     {"USD/M", PITH_CELL_NUMBER, 0, false},
                     {"KL", PITH_CELL_NUMBER, 0, false}};

/* In GB, which the column's name says. */
static void put_size(struct pith_table *t, double bytes)
{
    const double gb = bytes * 1e-9;
    pith_table_number(t, gb, gb < 0.01 ? 4 : gb < 0.1 ? 3 : gb < 100 ? 2 : 0);
}

/* A cache without what all of its kind have: scales of the tensor that stand in the checkpoint. */
static void put_cache(struct pith_table *t, const char *kv)
{
    static const char end[] = ":tensor:static";
    const size_t n = strlen(kv), k = sizeof end - 1;
    const bool has = n > k && strcmp(kv + n - k, end) == 0;
    pith_table_printf(t, "%.*s", (int)(has ? n - k : n), kv);
}

/* "l4 x2", or "3 x l4, 1 x h100-sxm x2 reads". */
static void put_place(struct pith_table *t, const struct pith_plan_row *r)
{
    char one[88] = "-", two[88];
    if (r->h)
        (void)snprintf(one, sizeof one, r->k.devices > 1 ? "%.70s x%u" : "%.70s", r->h->name,
                       r->k.devices);
    if (!r->pooled) {
        pith_table_text(t, one);
        return;
    }
    (void)snprintf(two, sizeof two, r->reading > 1 ? "%.60s x%u" : "%.60s", r->reads.h->name,
                   r->reading);
    pith_table_printf(t, "%u x %.60s, %u x %.60s reads", r->pools.answer, one, r->pools.read, two);
}

static void put_line(struct pith_table *t, const struct pith_plan_row *r, size_t number)
{
    /* Added to a number: NaN where there is none. */
    const double known = r->d.memory > 0 ? 0 : (double)NAN, timed = r->h ? 0 : (double)NAN;
    char weights[PITH_PLAN_TEXT];
    pith_plan_weights_name(r, weights);
    pith_table_row(t);
    pith_table_printf(t, "%zu", number);
    pith_table_text(t, r->k.c->name);
    pith_table_text(t, weights);
    put_cache(t, r->k.kv_name);
    pith_table_text(t, r->k.need->name);
    put_place(t, r);
    pith_table_number(t, (double)r->k.demand.context, 0);
    pith_table_number(t, (double)r->k.demand.users, 0);
    put_size(t, r->r.weights.all);
    put_size(t, r->r.cache_all);
    put_size(t, r->r.total);
    pith_table_known(t, known + (double)r->r.most_users, "%.0f");
    pith_table_known(t, known + (double)r->r.most_context, "%.0f");
    pith_table_known(t, timed + r->f.first, "%.3g");
    pith_table_known(t, timed + 1 / r->f.step, "%.4g");
    pith_table_known(t, timed + r->f.rate, "%.4g");
    pith_table_known(t, timed + r->f.cost, "%.3g");
    pith_table_known(t, pith_plan_loss_of(r).kld, "%.4f");
}

/* Whether all rows have the same in a column. */
static bool is_same(const struct pith_table *t, size_t c)
{
    bool same = true;
    for (size_t i = 0; i < t->rows; i++)
        same &= strcmp(pith_table_cell(t, i, c), pith_table_cell(t, 0, c)) == 0;
    return same;
}

/* Which columns have something to say, and how wide each is. */
static void look(const struct pith_table *t, bool shown[COLUMNS], size_t width[COLUMNS])
{
    for (size_t c = 0; c < COLUMNS; c++) {
        shown[c] = false;
        width[c] = pith_text_columns(column[c].name);
        for (size_t i = 0; i < t->rows; i++) {
            const size_t n = pith_text_columns(pith_table_cell(t, i, c));
            shown[c] |= strcmp(pith_table_cell(t, i, c), "-") != 0;
            if (n > width[c]) width[c] = n;
        }
        if (column[c].once && is_same(t, c)) shown[c] = false;
    }
}

static size_t line_width(const bool shown[COLUMNS], const size_t width[COLUMNS])
{
    size_t sum = 0;
    for (size_t c = 0; c < COLUMNS; c++)
        if (shown[c]) sum += width[c] + (sum ? 2 : 0);
    return sum;
}

/* Leaves columns out until a line has at most LINE columns; whether any were. */
static bool narrow(bool shown[COLUMNS], const size_t width[COLUMNS])
{
    bool fewer = false;
    for (int spare = 1; spare < COLUMNS && line_width(shown, width) > LINE; spare++)
        for (size_t c = 0; c < COLUMNS; c++)
            if (column[c].spare == spare && shown[c]) {
                shown[c] = false;
                fewer = true;
            }
    return fewer;
}

/* What all rows share: "engine vllm, on l4, context 4096, users 1; sizes are of the one device". */
static void say_shared(struct pith_report *r, const struct pith_plan_search *p,
                       const struct pith_table *t, enum pith_detail detail)
{
    struct pith_str text = {0};
    bool several = false;
    for (size_t c = ENGINE; c <= USERS; c++)
        if (*pith_table_cell(t, 0, c) != '-' && is_same(t, c))
            pith_str_printf(&text, "%s%s %s", text.len ? ", " : "", column[c].name,
                            pith_table_cell(t, 0, c));
    for (size_t i = 0; i < p->rows; i++) several |= p->row[i]->k.devices > 1;
    const struct pith_line how = {.detail = detail};
    pith_report_line(r, &how, "%s%ssizes are of %s", pith_str_text(&text), text.len ? "; " : "",
                     several ? "all devices of a row together" : "the one device");
    pith_report_line(r, &how, "%s", "");
    r->failed |= text.failed;
    pith_str_free(&text);
}

/* Whether rows are ordered by losses of other models. */
static bool is_likened(const struct pith_plan_search *p)
{
    bool likened = false;
    for (size_t i = 0; i < p->rows; i++) likened |= pith_plan_loss_of(p->row[i]).likened > 0;
    return likened;
}

/* The first rows as a table, and what is to be known of it. */
static void say_rows(struct pith_report *r, const struct pith_plan_search *p, size_t count,
                     enum pith_detail detail)
{
    struct pith_table all = {0};
    bool shown[COLUMNS];
    size_t width[COLUMNS];
    const struct pith_line how = {.wrap = PITH_WRAP_TERMINAL, .detail = detail, .fields = true};
    for (size_t c = 0; c < COLUMNS; c++)
        pith_table_column(&all, column[c].name, column[c].name, column[c].kind);
    for (size_t i = 0; i < count; i++) put_line(&all, p->row[i], i + 1);
    if (all.failed) {
        r->failed = true;
        pith_table_free(&all);
        return;
    }
    look(&all, shown, width);
    const bool fewer = narrow(shown, width), likened = is_likened(p);
    say_shared(r, p, &all, detail);
    struct pith_table *t = pith_report_add_table(r, detail);
    for (size_t c = 0; c < COLUMNS; c++)
        if (shown[c]) pith_table_column(t, column[c].name, column[c].name, column[c].kind);
    for (size_t i = 0; i < count; i++) {
        pith_table_row(t);
        for (size_t c = 0; c < COLUMNS; c++)
            if (shown[c]) pith_table_text(t, pith_table_cell(&all, i, c));
    }
    pith_table_free(&all);
    if (likened || fewer) pith_report_line(r, &how, "%s", "");
    if (likened)
        pith_report_line(r, &how, "%s",
                         "Rows are ordered by losses of other models (docs/planning.md); pith "
                         "advise measures this one's.");
    if (fewer) pith_report_line(r, &how, "%s", "Further columns: `json`.");
}

/* --- what stands around it -------------------------------------------------------------------- */

static void say_model(struct pith_report *r, const struct pith_plan_search *p)
{
    const struct pith_census *n = &p->census;
    const char *shape = p->model.shape_name;
    const bool other = *shape && strcasecmp(shape, p->name) != 0;
    const struct pith_line subject = {.strong = p->name,
                                      .reserve = sizeof ": 1000.000 billion",
                                      .wrap = PITH_WRAP_TERMINAL,
                                      .indent = 2};
    const struct pith_line below = {
        .lead = "  ", .wrap = PITH_WRAP_TERMINAL, .indent = 2, .fields = true};
    pith_report_line(
        r, &subject,
        ": %s%s%.3f billion parameters, %.3f of them of a token's way; embeddings "
        "%.3f, head %.3f, attention %.3f, MLP %.3f, experts %.3f",
        other ? shape : "", other ? "'s shape, " : "", (double)n->all * 1e-9, n->active * 1e-9,
        (double)n->class[PITH_PLAN_EMBED] * 1e-9, (double)n -> class[PITH_PLAN_HEAD] * 1e-9,
        (double)n -> class[PITH_PLAN_ATTENTION] * 1e-9, (double)n -> class[PITH_PLAN_MLP] * 1e-9,
        (double)n -> class[PITH_PLAN_EXPERTS] * 1e-9);
    if (!p->stored) return;
    const double bytes = (double)p->model.stored;
    pith_report_line(r, &below,
                     "quantized already, as %s: %s; %.2f bits a weight, %.*f %s in all; its cache "
                     "(`kv`), its container (pith convert) and its weights (pith quantize) can be "
                     "chosen",
                     p->model.model->container->name, p->stored->text, p->stored->bits,
                     bytes >= 1e9 ? 2 : 1, bytes >= 1e9 ? bytes * 1e-9 : bytes * 1e-6,
                     bytes >= 1e9 ? "GB" : "MB");
}

/* "3 users of a context of 32768: gptq, cache bf16, vllm, l4 x2". */
static void say_near(struct pith_report *r, const struct pith_plan_near *n, bool first)
{
    char on[96] = "";
    if (n->h)
        (void)snprintf(on, sizeof on, n->devices > 1 ? ", %.60s x%zu" : ", %.60s", n->h->name,
                       n->devices);
    pith_report_line(r, &(struct pith_line){.fields = true},
                     "%s%zu user%s of a context of %zu: %s, cache %s, %s%s",
                     first ? "would fit:   " : "             ", n->users, n->users == 1 ? "" : "s",
                     n->context, n->c->name, n->kv, n->engine, on);
}

static void say_nothing(struct pith_report *r, const struct pith_plan_search *p)
{
    bool first = true;
    pith_report_line(r, &(struct pith_line){.fields = true}, "nothing fits");
    for (int i = 0; i < PITH_PLAN_NEAR; i++) {
        if (!p->near[i].c) continue;
        say_near(r, &p->near[i], first);
        first = false;
    }
}

/* Why one of the best rows is where it is, and how it is made and served. */
static void say_reason(struct pith_report *r, const struct pith_plan_search *p, size_t i)
{
    static const enum pith_plan_command order[] = {PITH_COMMAND_MAKE, PITH_COMMAND_PREFILL,
                                                   PITH_COMMAND_SERVE, PITH_COMMAND_ROUTE};
    const struct pith_line command = {.lead = "   ", .fields = true};
    struct pith_str s = {0};
    char lead[16];
    (void)snprintf(lead, sizeof lead, "%zu. ", i + 1);
    const struct pith_line why = {
        .lead = lead, .wrap = PITH_WRAP_TERMINAL, .indent = 3, .fields = true};
    pith_report_gap(r);
    pith_plan_reason(p, i, &s);
    pith_report_line(r, &why, "%s", pith_str_text(&s));
    for (size_t k = 0; k < PITH_COUNT(order); k++) {
        pith_str_clear(&s);
        if (pith_plan_command(p, p->row[i], order[k], &s))
            pith_report_line(r, &command, "%s", pith_str_text(&s));
    }
    r->failed |= s.failed;
    pith_str_free(&s);
}

static void say_ruled_out(struct pith_report *r, const struct pith_plan_search *p)
{
    const struct pith_line more = {.detail = PITH_DETAIL_PART, .fields = true};
    if (p->outs == 0) return;
    pith_report_gap(r);
    pith_report_line(r, &(struct pith_line){0}, "ruled out:");
    for (size_t i = 0; i < p->outs; i++) {
        const struct pith_plan_ruled_out *o = &p->out[i];
        const char *hardware = o->h ? o->h->name : "", *engine = o->engine ? o->engine : "";
        const struct pith_line how = {.lead = "  ",
                                      .wrap = PITH_WRAP_TERMINAL,
                                      .indent = 4,
                                      .detail = i < OUT_SHOWN ? PITH_DETAIL_ANY : PITH_DETAIL_WHOLE,
                                      .fields = true};
        if (i == OUT_SHOWN)
            pith_report_line(r, &more, "  ... and %zu more: `all` lists them", p->outs - i);
        pith_report_line(r, &how, "%s%s%s%s%s%s%s: %s", o->c->name, *o->kv ? ", " : "", o->kv,
                         *engine ? ", " : "", engine, *hardware ? ", " : "", hardware, o->why);
    }
}

void pith_plan_say(struct pith_report *r, const struct pith_plan_search *p)
{
    const struct pith_line more = {.detail = PITH_DETAIL_PART, .fields = true};
    say_model(r, p);
    pith_report_gap(r);
    if (p->rows == 0) say_nothing(r, p);
    else if (p->rows <= SHOWN) say_rows(r, p, p->rows, PITH_DETAIL_ANY);
    if (p->rows > SHOWN) {
        say_rows(r, p, p->rows, PITH_DETAIL_WHOLE);
        say_rows(r, p, SHOWN, PITH_DETAIL_PART);
        pith_report_line(r, &more, "... and %zu more: `all` lists them", p->rows - SHOWN);
    }
    for (size_t i = 0; i < p->rows && i < REASONS; i++) say_reason(r, p, i);
    say_ruled_out(r, p);
}
