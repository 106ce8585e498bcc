/* The text of a plan: the model, the best rows as a table, why and how, what was ruled out. */
#include "plan/search.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { SHOWN = 12, OUT_SHOWN = 8, REASONS = 3 };

static double row_number(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static const char *row_text(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    return text ? text : "";
}

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

/* A number that may be missing. */
static void put_known(struct pith_table *t, const json_t *j, const char *key, const char *format)
{
    const json_t *v = json_object_get(j, key);
    char text[48] = "-";
    if (json_is_number(v)) (void)snprintf(text, sizeof text, format, json_number_value(v));
    pith_table_text(t, text);
}

/* "l4 x2", or "3 x l4, 1 x h100-sxm x2 reads". */
static void put_place(struct pith_table *t, const json_t *r)
{
    const json_t *pools = json_object_get(r, "pools"), *reads = json_object_get(pools, "prefill");
    const char *hardware = row_text(r, "hardware"), *other = row_text(reads, "hardware");
    char one[88] = "-", two[88];
    if (*hardware)
        (void)snprintf(one, sizeof one, row_number(r, "count") > 1 ? "%.70s x%d" : "%.70s",
                       hardware, (int)row_number(r, "count"));
    if (!pools) {
        pith_table_text(t, one);
        return;
    }
    (void)snprintf(two, sizeof two, row_number(reads, "count") > 1 ? "%.60s x%d" : "%.60s", other,
                   (int)row_number(reads, "count"));
    pith_table_printf(t, "%.0f x %.60s, %.0f x %.60s reads",
                      row_number(json_object_get(pools, "decode"), "groups"), one,
                      row_number(reads, "groups"), two);
}

static void put_line(struct pith_table *t, const json_t *r, size_t number)
{
    pith_table_row(t);
    pith_table_printf(t, "%zu", number);
    pith_table_text(t, row_text(r, "recipe"));
    pith_table_text(t, row_text(r, "weights"));
    put_cache(t, row_text(r, "kv"));
    pith_table_text(t, row_text(r, "engine"));
    put_place(t, r);
    pith_table_number(t, row_number(r, "context"), 0);
    pith_table_number(t, row_number(r, "users"), 0);
    put_size(t, row_number(r, "weight_bytes"));
    put_size(t, row_number(r, "kv_bytes"));
    put_size(t, row_number(r, "total_bytes"));
    put_known(t, r, "max_users", "%.0f");
    put_known(t, r, "max_context", "%.0f");
    put_known(t, r, "first_token_seconds", "%.3g");
    put_known(t, r, "tokens_per_second_user", "%.4g");
    put_known(t, r, "tokens_per_second", "%.4g");
    put_known(t, r, "cost_per_million_tokens", "%.3g");
    put_known(t, json_object_get(r, "quality"), "kld", "%.4f");
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
static void say_shared(struct pith_report *r, const json_t *rows, const struct pith_table *t,
                       enum pith_detail detail)
{
    struct pith_str text = {0};
    const json_t *row;
    size_t i;
    bool several = false;
    for (size_t c = ENGINE; c <= USERS; c++)
        if (*pith_table_cell(t, 0, c) != '-' && is_same(t, c))
            pith_str_printf(&text, "%s%s %s", text.len ? ", " : "", column[c].name,
                            pith_table_cell(t, 0, c));
    json_array_foreach (rows, i, row) several |= row_number(row, "count") > 1;
    const struct pith_line how = {.detail = detail};
    pith_report_line(r, &how, "%s%ssizes are of %s", pith_str_text(&text), text.len ? "; " : "",
                     several ? "all devices of a row together" : "the one device");
    pith_report_line(r, &how, "%s", "");
    r->failed |= text.failed;
    pith_str_free(&text);
}

/* Whether rows are ordered by losses of other models. */
static bool is_likened(const json_t *rows)
{
    const json_t *row;
    size_t i;
    bool likened = false;
    json_array_foreach (rows, i, row)
        likened |= row_number(json_object_get(row, "quality"), "likened") > 0;
    return likened;
}

/* The first rows as a table, and what is to be known of it. */
static void say_rows(struct pith_report *r, const json_t *rows, size_t count,
                     enum pith_detail detail)
{
    struct pith_table all = {0};
    bool shown[COLUMNS];
    size_t width[COLUMNS];
    const struct pith_line how = {.wrap = PITH_WRAP_TERMINAL, .detail = detail, .fields = true};
    for (size_t c = 0; c < COLUMNS; c++)
        pith_table_column(&all, column[c].name, column[c].name, column[c].kind);
    for (size_t i = 0; i < count; i++) put_line(&all, json_array_get(rows, i), i + 1);
    if (all.failed) {
        r->failed = true;
        pith_table_free(&all);
        return;
    }
    look(&all, shown, width);
    const bool fewer = narrow(shown, width), likened = is_likened(rows);
    say_shared(r, rows, &all, detail);
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
static void say_near(struct pith_report *r, const json_t *list)
{
    const struct pith_line plain = {.fields = true};
    const json_t *row;
    size_t i;
    pith_report_line(r, &plain, "nothing fits");
    json_array_foreach (list, i, row) {
        const double users = row_number(row, "users"), count = row_number(row, "count");
        char on[96] = "";
        if (*row_text(row, "hardware"))
            (void)snprintf(on, sizeof on, count > 1 ? ", %.60s x%.0f" : ", %.60s",
                           row_text(row, "hardware"), count);
        pith_report_line(r, &plain, "%s%.0f user%s of a context of %.0f: %s, cache %s, %s%s",
                         i ? "             " : "would fit:   ", users, users == 1 ? "" : "s",
                         row_number(row, "context"), row_text(row, "recipe"), row_text(row, "kv"),
                         row_text(row, "engine"), on);
    }
}

/* Why the best rows are where they are, and how they are made and served. */
static void say_reasons(struct pith_report *r, const json_t *rows)
{
    static const char *const keys[] = {"quantize", "convert", "prefill", "serve", "route"};
    const struct pith_line command = {.lead = "   ", .fields = true};
    const json_t *row;
    size_t i;
    json_array_foreach (rows, i, row) {
        const json_t *commands = json_object_get(row, "commands");
        char lead[16];
        if (i == REASONS) break;
        (void)snprintf(lead, sizeof lead, "%zu. ", i + 1);
        const struct pith_line why = {
            .lead = lead, .wrap = PITH_WRAP_TERMINAL, .indent = 3, .fields = true};
        pith_report_gap(r);
        if (*row_text(row, "reason")) pith_report_line(r, &why, "%s", row_text(row, "reason"));
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
            if (*row_text(commands, keys[k]))
                pith_report_line(r, &command, "%s", row_text(commands, keys[k]));
    }
}

static void say_ruled_out(struct pith_report *r, const json_t *out)
{
    const size_t count = json_array_size(out);
    const struct pith_line more = {.detail = PITH_DETAIL_PART, .fields = true};
    const json_t *row;
    size_t i;
    if (count == 0) return;
    pith_report_gap(r);
    pith_report_line(r, &(struct pith_line){0}, "ruled out:");
    json_array_foreach (out, i, row) {
        const char *hardware = row_text(row, "hardware"), *engine = row_text(row, "engine"),
                   *kv = row_text(row, "kv");
        const struct pith_line how = {.lead = "  ",
                                      .wrap = PITH_WRAP_TERMINAL,
                                      .indent = 4,
                                      .detail = i < OUT_SHOWN ? PITH_DETAIL_ANY : PITH_DETAIL_WHOLE,
                                      .fields = true};
        if (i == OUT_SHOWN)
            pith_report_line(r, &more, "  ... and %zu more: `all` lists them", count - i);
        pith_report_line(r, &how, "%s%s%s%s%s%s%s: %s", row_text(row, "recipe"), *kv ? ", " : "",
                         kv, *engine ? ", " : "", engine, *hardware ? ", " : "", hardware,
                         row_text(row, "reason"));
    }
}

void pith_plan_say(struct pith_report *r, const struct pith_plan_search *p)
{
    const size_t count = json_array_size(p->rows);
    const struct pith_line more = {.detail = PITH_DETAIL_PART, .fields = true};
    say_model(r, p);
    pith_report_gap(r);
    if (count == 0) say_near(r, p->would_fit);
    else if (count <= SHOWN) say_rows(r, p->rows, count, PITH_DETAIL_ANY);
    if (count > SHOWN) {
        say_rows(r, p->rows, count, PITH_DETAIL_WHOLE);
        say_rows(r, p->rows, SHOWN, PITH_DETAIL_PART);
        pith_report_line(r, &more, "... and %zu more: `all` lists them", count - SHOWN);
    }
    say_reasons(r, p->rows);
    say_ruled_out(r, p->out);
}
