/* pith plan: which formats, on which hardware, at what speed and cost. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/tables.h"

#include <pith/plan.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct settings {
    struct common common;
    struct pith_plan_model_options o;
    struct pith_plan_quantize_options q;
    struct text_list hardware, contexts, users, weights, kv, targets, prefill;
    double latency; /* in milliseconds */
    const char *page;
    bool shapes, all;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(hardware, AT(hardware)),
    OPTION(context_plan, AT(contexts)),
    OPTION(users_plan, AT(users)),
    OPTION(prompt_plan, AT(o.prompt)),
    OPTION(gen_plan, AT(o.gen)),
    OPTION(weights_plan, AT(weights)),
    OPTION(kv_plan, AT(kv)),
    OPTION(for_plan, AT(targets)),
    OPTION(prefill, AT(prefill)),
    OPTION(pool_link, AT(o.pool_link)),
    OPTION(offload, AT(o.offload)),
    OPTION(fit_plan, AT(o.fit)),
    OPTION(max_latency, AT(latency)),
    OPTION(max_first, AT(o.max_first)),
    OPTION(min_users, AT(o.min_users)),
    OPTION(max_cost, AT(o.max_cost)),
    OPTION(quantize, AT(q.recipe)),
    OPTION(link_plan, AT(q.link)),
    OPTION(calib_tokens_plan, AT(q.calib_tokens)),
    OPTION(seq_len_plan, AT(q.seq_len)),
    OPTION(out_plan, AT(page)),
    OPTION(all_plan, AT(all)),
    OPTION(shapes, AT(shapes)),
};

/* --- what is shown ---------------------------------------------------------------------------- */

enum { SHOWN = 12, OUT_SHOWN = 8, REASONS = 3 };

static const char *gigabytes(double bytes, char text[32])
{
    if (bytes >= 1e9) snprintf(text, 32, "%.2f GB", bytes * 1e-9);
    else snprintf(text, 32, "%.1f MB", bytes * 1e-6);
    return text;
}

static void text_cell(json_t *row, const char *text)
{
    json_array_append_new(row, json_string(text));
}

/* In GB, which the column's name says. */
static void size_cell(json_t *row, double bytes)
{
    const double gb = bytes * 1e-9;
    table_cell(row, gb < 0.01 ? "%.4f" : gb < 0.1 ? "%.3f" : gb < 100 ? "%.2f" : "%.0f", gb);
}

/* A cache without what all of its kind have: scales of the tensor that stand in the checkpoint. */
static void cache_cell(json_t *row, const char *kv)
{
    static const char end[] = ":tensor:static";
    const size_t n = strlen(kv), k = sizeof end - 1;
    char text[64];
    const bool has = n > k && strcmp(kv + n - k, end) == 0;
    snprintf(text, sizeof text, "%.*s", (int)(has ? n - k : n), kv);
    text_cell(row, text);
}

/* A number that may be missing. */
static void maybe_cell(json_t *row, const json_t *j, const char *key, const char *format)
{
    const json_t *v = json_object_get(j, key);
    if (json_is_number(v)) table_cell(row, format, json_number_value(v));
    else text_cell(row, "-");
}

/* A row's texts; those that are empty in all rows are left out, of the others where a line is too
 * long those that can best be done without, in the order of `spare` (0: never). Those that are the
 * same in all rows are said once, above. */
enum { COLUMNS = 18, ENGINE = 4, USERS = 7, LINE = 100 };
static const struct {
    const char *name, *align;
    int spare;
    bool once;
} column[COLUMNS] = {{"", "right", 0, false},
                     {"recipe", "left", 0, false},
                     {"weights", "left", 3, false},
                     {"cache", "left", 0, false},
                     {"engine", "left", 0, true},
                     {"on", "left", 0, true},
                     {"context", "right", 0, true},
                     {"users", "right", 0, true},
                     {"weights GB", "right", 0, false},
                     {"cache GB", "right", 4, false},
                     {"all GB", "right", 0, false},
                     {"max users", "right", 5, false},
                     {"max context", "right", 1, false},
                     {"first s", "right", 0, false},
                     {"tokens/s each", "right", 2, false},
                     {"tokens/s", "right", 0, false},
                     {"USD/M", "right", 0, false},
                     {"KL", "right", 0, false}};

/* "l4 x2", or "3 x l4, 1 x h100-sxm x2 reads". */
static void name_place(const json_t *r, char on[160])
{
    const json_t *pools = json_object_get(r, "pools");
    const json_t *reads = json_object_get(pools, "prefill");
    const char *hardware = json_text(r, "hardware"), *other = json_text(reads, "hardware");
    char one[88] = "-", two[88];
    if (*hardware)
        snprintf(one, sizeof one, json_get(r, "count") > 1 ? "%.70s x%d" : "%.70s", hardware,
                 (int)json_get(r, "count"));
    snprintf(on, 160, "%s", one);
    if (!pools) return;
    snprintf(two, sizeof two, json_get(reads, "count") > 1 ? "%.60s x%d" : "%.60s", other,
             (int)json_get(reads, "count"));
    snprintf(on, 160, "%.0f x %.60s, %.0f x %.60s reads",
             json_get(json_object_get(pools, "decode"), "groups"), one, json_get(reads, "groups"),
             two);
}

static json_t *line_of(const json_t *r, size_t number)
{
    const json_t *quality = json_object_get(r, "quality");
    json_t *row = json_array();
    char on[160];
    name_place(r, on);
    table_cell(row, "%.0f", (double)number);
    text_cell(row, json_text(r, "recipe"));
    text_cell(row, json_text(r, "weights"));
    cache_cell(row, json_text(r, "kv"));
    text_cell(row, json_text(r, "engine"));
    text_cell(row, on);
    table_cell(row, "%.0f", json_get(r, "context"));
    table_cell(row, "%.0f", json_get(r, "users"));
    size_cell(row, json_get(r, "weight_bytes"));
    size_cell(row, json_get(r, "kv_bytes"));
    size_cell(row, json_get(r, "total_bytes"));
    maybe_cell(row, r, "max_users", "%.0f");
    maybe_cell(row, r, "max_context", "%.0f");
    maybe_cell(row, r, "first_token_seconds", "%.3g");
    maybe_cell(row, r, "tokens_per_second_user", "%.4g");
    maybe_cell(row, r, "tokens_per_second", "%.4g");
    maybe_cell(row, r, "cost_per_million_tokens", "%.3g");
    maybe_cell(row, quality, "kld", "%.4f");
    return row;
}

static const char *cell_of(const json_t *lines, size_t row, size_t c)
{
    return json_string_value(json_array_get(json_array_get(lines, row), c));
}

/* Which columns have something to say, and how wide each is. */
static void look(const json_t *lines, bool shown[COLUMNS], size_t width[COLUMNS])
{
    const size_t rows = json_array_size(lines);
    for (size_t c = 0; c < COLUMNS; c++) {
        bool same = true;
        shown[c] = false;
        width[c] = text_columns(column[c].name);
        for (size_t i = 0; i < rows; i++) {
            const size_t n = text_columns(cell_of(lines, i, c));
            shown[c] |= strcmp(cell_of(lines, i, c), "-") != 0;
            same &= strcmp(cell_of(lines, i, c), cell_of(lines, 0, c)) == 0;
            if (n > width[c]) width[c] = n;
        }
        if (column[c].once && same) shown[c] = false;
    }
}

static size_t line_width(const bool shown[COLUMNS], const size_t width[COLUMNS])
{
    size_t sum = 0;
    for (size_t c = 0; c < COLUMNS; c++)
        if (shown[c]) sum += width[c] + (sum ? 2 : 0);
    return sum;
}

/* Leaves columns out until a line has at most LINE columns; returns how many. */
static size_t narrow(bool shown[COLUMNS], const size_t width[COLUMNS])
{
    size_t left_out = 0;
    for (int spare = 1; spare < COLUMNS && line_width(shown, width) > LINE; spare++)
        for (size_t c = 0; c < COLUMNS; c++)
            if (column[c].spare == spare && shown[c]) {
                shown[c] = false;
                left_out++;
            }
    return left_out;
}

/* What all rows share: "vllm on l4, context 4096, 1 user; sizes are of one device". */
static void print_shared(const json_t *rows, const json_t *lines)
{
    const json_t *r;
    size_t i;
    const char *separator = "";
    bool several = false;
    for (size_t c = ENGINE; c <= USERS; c++) {
        bool same = *cell_of(lines, 0, c) != '-';
        for (i = 0; i < json_array_size(lines); i++)
            same &= strcmp(cell_of(lines, i, c), cell_of(lines, 0, c)) == 0;
        if (!same) continue;
        printf("%s%s %s", separator, column[c].name, cell_of(lines, 0, c));
        separator = ", ";
    }
    json_array_foreach (rows, i, r) several |= json_get(r, "count") > 1;
    printf("%ssizes are of %s\n\n", *separator ? "; " : "",
           several ? "all devices of a row together" : "the one device");
}

/* Prints the lines (taken over); returns how many columns were left out. */
static size_t print_lines(const struct settings *s, json_t *lines)
{
    json_t *names = json_array(), *rows = json_array(), *line;
    bool shown[COLUMNS];
    size_t i, width[COLUMNS];
    look(lines, shown, width);
    const size_t left_out = narrow(shown, width);
    for (size_t c = 0; c < COLUMNS; c++)
        if (shown[c]) table_column(names, column[c].name, column[c].align);
    json_array_foreach (lines, i, line) {
        json_t *row = json_array();
        for (size_t c = 0; c < COLUMNS; c++)
            if (shown[c]) json_array_append(row, json_array_get(line, c));
        json_array_append_new(rows, row);
    }
    json_decref(lines);
    (void)print_table(&s->common, names, rows, NULL);
    return left_out;
}

static void print_model(const json_t *j)
{
    const json_t *n = json_object_get(j, "parameters");
    const double all = json_get(n, "all"), active = json_get(n, "active");
    const char *name = json_text(j, "model"), *shape = json_text(j, "shape");
    const bool other = *shape && strcasecmp(shape, name) != 0;
    const size_t used = print_subject(name, sizeof ": 1000.000 billion");
    printf(": ");
    print_line(
        used + 2, 2,
        "%s%s%.3f billion parameters, %.3f of them of a token's way; embeddings %.3f, head %.3f,"
        " attention %.3f, MLP %.3f, experts %.3f",
        other ? shape : "", other ? "'s shape, " : "", all * 1e-9, active * 1e-9,
        json_get(n, "embeddings") * 1e-9, json_get(n, "head") * 1e-9,
        json_get(n, "attention") * 1e-9, json_get(n, "mlp") * 1e-9, json_get(n, "experts") * 1e-9);
    const json_t *stored = json_object_get(j, "stored");
    char size[32];
    if (!stored) return;
    printf("  ");
    print_line(2, 2,
               "quantized already, as %s: %s; %.2f bits a weight, %s in all; its cache (--kv), its "
               "container (pith convert) and its weights (pith quantize) can be chosen",
               json_text(stored, "container"), json_text(stored, "grids"),
               json_get(stored, "bits_per_weight"), gigabytes(json_get(stored, "bytes"), size));
}

/* "3 users of a context of 32768: gptq, cache bf16, vllm, l4 x2". */
static void print_near(const json_t *list)
{
    const json_t *r;
    size_t i;
    printf("nothing fits\n");
    json_array_foreach (list, i, r) {
        const double users = json_get(r, "users"), count = json_get(r, "count");
        char on[96] = "";
        if (*json_text(r, "hardware"))
            snprintf(on, sizeof on, count > 1 ? ", %.60s x%.0f" : ", %.60s",
                     json_text(r, "hardware"), count);
        printf(i ? "             " : "would fit:   ");
        printf("%.0f user%s of a context of %.0f: %s, cache %s, %s%s\n", users,
               users == 1 ? "" : "s", json_get(r, "context"), json_text(r, "recipe"),
               json_text(r, "kv"), json_text(r, "engine"), on);
    }
}

/* By what rows are ordered, and which columns are missing. */
static void print_order(const json_t *rows, size_t left_out)
{
    const json_t *r;
    size_t i;
    bool likened = false;
    json_array_foreach (rows, i, r)
        likened |= json_get(json_object_get(r, "quality"), "likened") > 0;
    if (likened || left_out) printf("\n");
    if (likened)
        print_line(0, 0,
                   "Rows are ordered by losses of other models (docs/planning.md); pith advise "
                   "measures this one's.");
    if (left_out) print_line(0, 0, "Further columns: --json.");
}

static void print_reasons(const json_t *rows)
{
    const json_t *r;
    size_t i;
    json_array_foreach (rows, i, r) {
        const json_t *commands = json_object_get(r, "commands");
        if (i == REASONS) break;
        printf("\n");
        if (*json_text(r, "reason")) {
            printf("%zu. ", i + 1);
            print_line(3, 3, "%s", json_text(r, "reason"));
        }
        if (*json_text(commands, "quantize")) printf("   %s\n", json_text(commands, "quantize"));
        if (*json_text(commands, "convert")) printf("   %s\n", json_text(commands, "convert"));
        if (*json_text(commands, "prefill")) printf("   %s\n", json_text(commands, "prefill"));
        printf("   %s\n", json_text(commands, "serve"));
        if (*json_text(commands, "route")) printf("   %s\n", json_text(commands, "route"));
    }
}

static void print_out(const json_t *out, size_t most)
{
    const json_t *r;
    size_t i;
    if (json_array_size(out) == 0) return;
    printf("\nruled out:\n");
    json_array_foreach (out, i, r) {
        const char *hardware = json_text(r, "hardware"), *engine = json_text(r, "engine");
        if (i == most) {
            printf("  ... and %zu more: --all lists them\n", json_array_size(out) - i);
            break;
        }
        printf("  ");
        print_line(2, 4, "%s%s%s%s%s%s%s: %s", json_text(r, "recipe"),
                   *json_text(r, "kv") ? ", " : "", json_text(r, "kv"), *engine ? ", " : "", engine,
                   *hardware ? ", " : "", hardware, json_text(r, "reason"));
    }
}

static void print_plan(const struct settings *s, const json_t *j)
{
    const json_t *rows = json_object_get(j, "rows"), *r;
    const size_t count = json_array_size(rows), most = s->all || count < SHOWN ? count : SHOWN;
    json_t *lines = json_array();
    size_t i, left_out;
    print_model(j);
    printf("\n");
    json_array_foreach (rows, i, r) {
        if (i == most) break;
        json_array_append_new(lines, line_of(r, i + 1));
    }
    if (count) {
        print_shared(rows, lines);
        left_out = print_lines(s, lines);
        print_order(rows, left_out);
    } else {
        json_decref(lines);
        print_near(json_object_get(j, "would_fit"));
    }
    if (most < count) printf("... and %zu more: --all lists them\n", count - most);
    print_reasons(rows);
    print_out(json_object_get(j, "ruled_out"), s->all ? SIZE_MAX : OUT_SHOWN);
}

/* --- the run ---------------------------------------------------------------------------------- */

static int show_shapes(const struct settings *s)
{
    struct pith_error err = {0};
    char *report = NULL;
    int rc = EXIT_DONE;
    if (pith_plan_shapes(&report, &err) != PITH_OK) return report_failure(&s->common, &err);
    json_t *list = read_report(&s->common, report, &rc), *rows = json_array(),
           *names = json_array();
    const json_t *e;
    size_t i;
    if (s->common.json) printf("%s\n", report);
    table_column(names, "name", "left");
    table_column(names, "parameters", "right");
    table_column(names, "architecture", "left");
    json_array_foreach (list, i, e) {
        json_t *row = json_array();
        text_cell(row, json_text(e, "name"));
        table_cell(row, "%.0f", json_get(e, "parameters"));
        text_cell(row, json_text(e, "architecture"));
        json_array_append_new(rows, row);
    }
    if (list && !s->common.json) rc = print_table(&s->common, names, rows, NULL);
    else {
        json_decref(names);
        json_decref(rows);
    }
    json_decref(list);
    pith_text_free(report);
    return rc;
}

static int write_page(const struct settings *s, const char *report)
{
    struct pith_error err = {0};
    char *html = NULL;
    if (pith_plan_html(report, &html, &err) != PITH_OK) return report_failure(&s->common, &err);
    return page_write(&s->common, s->page, html);
}

/* Nothing else is looked at then. */
static int shapes_alone(const struct settings *s, const struct text_list *operands)
{
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strcmp(options[i].row->name, "shapes") != 0 && given(&s->common, options[i].row->name))
            return usage_failure(&s->common, "--%s does nothing with --shapes",
                                 options[i].row->name);
    if (operands->count)
        return usage_failure(&s->common, "%s: with --shapes no MODEL is looked at",
                             operands->item[0]);
    return show_shapes(s);
}

/* Options of one question do nothing with the other's. */
static int check_quantize(const struct settings *s)
{
    for (size_t i = 0; s->q.recipe && i < sizeof options / sizeof options[0]; i++) {
        const struct option_row *row = options[i].row;
        const bool its = row->needs || row == &option_rows[ROW_quantize] ||
                         row == &option_rows[ROW_hardware];
        if (!its && given(&s->common, row->name))
            return usage_failure(&s->common, "--%s does nothing with --quantize", row->name);
    }
    const int rc = check_given(&s->common);
    if (rc != EXIT_DONE) return rc;
    if (s->q.recipe && s->hardware.count != 1)
        return usage_failure(&s->common, "--quantize is for one --hardware, a CPU's name, such as "
                                         "epyc-genoa-96 or xeon-spr-56x8");
    return EXIT_DONE;
}

static void print_quantizing(const struct settings *s, const json_t *j)
{
    char memory[32];
    printf("%s by %s, %.0f tokens of calibration, on %s:\n", json_text(j, "model"),
           json_text(j, "recipe"), json_number_value(json_object_get(j, "tokens")),
           json_text(j, "hardware"));
    printf("  %-16s about %s a machine\n", "memory",
           gigabytes(json_number_value(json_object_get(j, "memory_bytes")), memory));
    print_ranks(&s->common, json_object_get(j, "ranks"));
}

/* What was planned, as JSON or by `print`; or why it could not be. */
static int show(const struct settings *s, enum pith_status status, char **report,
                const struct pith_error *err,
                void (*print)(const struct settings *s, const json_t *j))
{
    int rc = EXIT_DONE;
    name_options_of(&s->common, report);
    if (status == PITH_ARG) return report_usage(&s->common, err);
    if (status != PITH_OK) return report_failure(&s->common, err);
    if (s->common.json) printf("%s", *report);
    else {
        json_t *j = read_report(&s->common, *report, &rc);
        if (j) print(s, j);
        json_decref(j);
    }
    return rc;
}

static int plan_quantizing(struct settings *s, const struct text_list *operands)
{
    struct pith_error err = {0};
    char *report = NULL;
    s->q.model = operands->item[0];
    s->q.hardware = s->hardware.item[0];
    s->q.own = s->o.own;
    const enum pith_status status = pith_plan_quantize(&s->q, &report, &err);
    const int rc = show(s, status, &report, &err, print_quantizing);
    pith_text_free(report);
    return rc;
}

static int plan_serving(const struct settings *s)
{
    struct pith_error err = {0};
    char *report = NULL;
    const enum pith_status status = pith_plan_model(&s->o, &report, &err);
    int rc = show(s, status, &report, &err, print_plan);
    if (rc == EXIT_DONE && s->page) rc = write_page(s, report);
    pith_text_free(report);
    return rc;
}

/* Options that ask for times and prices where none are computed. */
static int check_limits(const struct settings *s)
{
    static const char *const timed[] = {"max-latency", "max-first", "max-cost"};
    for (size_t i = 0; i < sizeof timed / sizeof timed[0]; i++)
        if (given(&s->common, timed[i]) && s->o.fit && s->hardware.count == 0)
            return usage_failure(
                &s->common,
                "--%s does nothing with --fit alone: times and prices are those of "
                "--hardware",
                timed[i]);
    return EXIT_DONE;
}

static void take_options(struct settings *s, const struct text_list *operands)
{
    s->o.model = operands->item[0];
    s->o.hardware = as_list(&s->hardware);
    s->o.contexts = as_list(&s->contexts);
    s->o.users = as_list(&s->users);
    s->o.weights = as_list(&s->weights);
    s->o.kv = as_list(&s->kv);
    s->o.targets = as_list(&s->targets);
    s->o.prefill = as_list(&s->prefill);
    s->o.max_latency = s->latency / 1000;
}

/* The machine at hand is measured where it is asked for. */
static int measure_this(struct settings *s, char **own)
{
    struct pith_context *context;
    struct pith_error err = {0};
    bool requested = false;
    for (size_t i = 0; i < s->hardware.count; i++)
        requested |= pith_name_equal(s->hardware.item[i], "this");
    if (!requested) return EXIT_DONE;
    s->common.model_missing = (struct pith_error){0}; /* a well-known name does, too */
    int rc = make_context(&s->common, &context);
    if (rc != EXIT_DONE) return rc;
    if (pith_hardware_measure(context, own, &err) != PITH_OK) rc = report_failure(&s->common, &err);
    pith_context_free(&context);
    s->o.own = *own;
    return rc;
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    char *own = NULL;
    if (s->shapes) return shapes_alone(s, operands);
    if (operands->count == 0)
        return usage_failure(&s->common, "an argument is missing: MODEL\n"
                                         "usage: pith plan MODEL [options]\n"
                                         "Try 'pith plan --help'.");
    int rc = check_quantize(s);
    if (rc == EXIT_DONE) rc = check_limits(s);
    if (rc == EXIT_DONE) rc = page_check(&s->common, s->page);
    if (rc != EXIT_DONE) return rc;
    take_options(s, operands);
    rc = measure_this(s, &own);
    if (rc != EXIT_DONE) return rc;
    rc = s->q.recipe ? plan_quantizing(s, operands) : plan_serving(s);
    pith_text_free(own);
    return rc;
}

static void defaults(void *settings)
{
    struct settings *s = settings;
    pith_plan_model_defaults(&s->o);
    pith_plan_quantize_defaults(&s->q);
}

const struct command command_plan = {
    .name = "plan",
    .summary = "what fits, how fast it would be, what it would cost",
    .operands = "MODEL [options]",
    .examples = "  pith plan Llama-3.1-8B --hardware l4 --context 8k --users 8\n"
                "  pith plan Qwen3-32B --hardware l40s --hardware h100-sxm --for vllm\n"
                "  pith plan Llama-3.1-70B --hardware h200 --users 64 --prefill same\n"
                "  pith plan Llama-3.1-8B --hardware l4 --context 32k --users 32 --offload 200G\n"
                "  pith plan config.json --fit 24G --context 32k --users 4\n"
                "  pith plan out --for pith --weights int4:g128 --weights none\n"
                "  pith plan Llama-3.1-70B --quantize gptq --hardware epyc-genoa-96x8 --link 25G\n"
                "  pith plan --shapes\n",
    .details =
        "MODEL is a folder, a .gguf file, a config.json alone, or a well-known name.\n"
        "Nothing is loaded: bytes are those of the layouts that pith writes and runs, time\n"
        "is a roofline's with stated efficiencies. docs/planning.md says how each number is\n"
        "found and how far off it may be.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .defaults = defaults,
    .min_operands = 0,
    .max_operands = 1,
    .takes_models = true,
    .plain = true,
    .run = run,
};
