/* pith plan: which formats, on which hardware, at what speed and cost. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/report.h"

#include <pith/plan.h>

#include <string.h>

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

/* Writes what was planned, takes the report; or says why nothing was. */
static int write_plan(const struct settings *s, enum pith_status status, struct pith_report *report,
                      const struct pith_error *err)
{
    if (status == PITH_ARG) return report_usage(&s->common, err);
    if (status != PITH_OK) return report_failure(&s->common, err);
    const struct pith_report_form form = report_form_named(&s->common, s->all);
    int rc = write_report(&s->common, report, &form);
    if (rc == EXIT_DONE && s->page) rc = write_report_page(&s->common, s->page, NULL, report);
    pith_report_free(&report);
    return rc;
}

static int show_shapes(const struct settings *s)
{
    struct pith_error err = {0};
    struct pith_report *report;
    const enum pith_status status = pith_plan_shapes_report(&report, &err);
    return write_plan(s, status, report, &err);
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

static int plan_quantizing(struct settings *s, const struct text_list *operands)
{
    struct pith_error err = {0};
    struct pith_report *report;
    s->q.model = operands->item[0];
    s->q.hardware = s->hardware.item[0];
    s->q.own = s->o.own;
    const enum pith_status status = pith_plan_quantize_report(&s->q, &report, &err);
    return write_plan(s, status, report, &err);
}

static int plan_serving(const struct settings *s)
{
    struct pith_error err = {0};
    struct pith_report *report;
    const enum pith_status status = pith_plan_model_report(&s->o, &report, &err);
    return write_plan(s, status, report, &err);
}

/* Options about times and prices where none are computed. */
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

/* Measures the machine at hand on request. */
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
