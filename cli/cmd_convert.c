/* pith convert: the same quantized weights in another container. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/tables.h"

#include <pith/quantize.h>

#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct settings {
    struct common common;
    struct pith_convert_options c; /* but for its list, which is this */
    struct text_list targets;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(out_convert, AT(c.out)),
    OPTION(container_convert, AT(c.container)),
    OPTION(adapter_convert, AT(c.adapter)),
    OPTION(weights_convert, AT(c.weights)),
    OPTION(max_shard, AT(c.max_shard)),
    OPTION(allow_error_convert, AT(c.allow_error)),
    OPTION(gather, AT(c.gather)),
    OPTION(for, AT(targets)),
    OPTION(resume, AT(c.resume)),
};

/* Linears of one fate: how many, and which moved most. */
struct fate {
    size_t count;
    double most;
    const char *worst, *grid;
};

static struct fate fate_of(const json_t *linears, const char *conversion, const char *measure)
{
    struct fate f = {0, 0, "", ""};
    const json_t *linear;
    size_t i;
    json_array_foreach (linears, i, linear) {
        const double moved = json_get(linear, measure);
        if (strcmp(json_text(linear, "conversion"), conversion) != 0) continue;
        if (f.count++ && moved <= f.most) continue;
        f.most = moved;
        f.worst = json_text(linear, "name");
        f.grid = json_text(linear, "grid");
    }
    return f;
}

enum { INDENT = 19 /* of what a line of the summary says */ };

static void print_result(const char *out, const json_t *j)
{
    const json_t *linears = json_object_get(j, "linears");
    const struct fate exact = fate_of(linears, "exact", "largest_change"),
                      scales = fate_of(linears, "scales rounded", "largest_change"),
                      anew = fate_of(linears, "rounded anew", "relative_error");
    const char *from = json_text(j, "converted_from");
    const bool full = strcmp(from, "none") == 0;
    const size_t column = print_subject(out, sizeof ": converted");
    printf(": ");
    print_line(
        column + 2, 2, "converted %s%s to %s, every tensor accounted for and read back",
        full ? "" : "from ", full ? "without quantizing it" : from,
        json_is_true(json_object_get(j, "dense")) ? "a dense model" : json_text(j, "container"));
    if (json_array_size(linears) == 0) {
        printf("  %s\n", json_is_true(json_object_get(j, "dense"))
                             ? "dense            each matrix is what its codes stand for"
                             : "lossless         nothing is quantized: every tensor is a copy");
        return;
    }
    printf("  lossless         %zu of %zu linears stand for the same weights to the bit\n",
           exact.count, json_array_size(linears));
    if (scales.count) {
        printf("  scales rounded   ");
        print_line(INDENT, INDENT,
                   "%zu keep their codes (%s); a weight moves by %.2g%% of its group's range at"
                   " most, %s",
                   scales.count, scales.grid, 100 * scales.most, scales.worst);
    }
    if (anew.count) {
        printf("  rounded anew     ");
        print_line(INDENT, INDENT, "%zu to %s; largest change %.6f relative, %s", anew.count,
                   anew.grid, anew.most, anew.worst);
    }
    print_warnings(j);
}

/* --weights is for linears that cannot go over as they are. */
static void say_weights(const struct settings *s, const char *report)
{
    json_t *j = s->c.weights ? json_loads(report, 0, NULL) : NULL;
    if (j && fate_of(json_object_get(j, "linears"), "rounded anew", "relative_error").count == 0)
        say(&s->common, "--weights %s did nothing: every linear goes over as it is", s->c.weights);
    json_decref(j);
}

static void defaults(void *settings)
{
    pith_convert_defaults(&((struct settings *)settings)->c);
}

static bool names_file(const char *out)
{
    const size_t n = strlen(out);
    return n > 5 && strcmp(out + n - 5, ".gguf") == 0;
}

static int check(const struct settings *s)
{
    struct pith_error err = {0};
    if (!s->c.out) return usage_failure(&s->common, "where to? give -o DIR or -o FILE.gguf");
    if (!s->c.container && !s->c.adapter && !names_file(s->c.out))
        return usage_failure(&s->common, "to what? give --container NAME");
    if (pith_convert_check(&s->c, NULL, &err) != PITH_OK) return report_usage(&s->common, &err);
    if (given(&s->common, "max-shard") && names_file(s->c.out))
        return usage_failure(&s->common, "--max-shard does nothing: a GGUF file is a single file");
    if (given(&s->common, "max-shard") && !s->c.max_shard)
        return usage_failure(&s->common, "--max-shard: at least 1");
    return EXIT_DONE;
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_error err = {0};
    struct meter meter;
    char *report = NULL;
    pith_return_memory();
    s->c.model = operands->item[0];
    s->c.targets = as_list(&s->targets);
    int rc = check(s);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc != EXIT_DONE) return rc;
    meter_start(&meter, &s->common);
    s->c.progress = meter_progress(&meter);
    const enum pith_status status = pith_convert(context, &s->c, &report, &err);
    meter_end(&meter);
    name_options_of(&s->common, &report);
    if (status != PITH_OK) {
        rc = report_failure(&s->common, &err);
    } else if (s->common.json) {
        printf("%s\n", report);
    } else if (!s->common.quiet) {
        json_t *j = read_report(&s->common, report, &rc);
        if (j) print_result(s->c.out, j);
        json_decref(j);
    }
    if (status == PITH_OK) say_weights(s, report);
    pith_text_free(report);
    pith_context_free(&context);
    return rc;
}

const struct command command_convert = {
    .name = "convert",
    .summary = "put a quantized checkpoint into another container",
    .operands = "MODEL -o DIR --container NAME [options]",
    .extra = "-o DIR",
    .examples = "  pith convert Llama-3.2-1B-gptq -o out --container compressed-tensors\n"
                "  pith convert out -o out-awq --container awq --for vllm\n"
                "  pith convert Llama-3.2-1B -o Llama-3.2-1B.gguf\n"
                "  pith convert Llama-3.2-1B-int3 -o out --container awq \\\n"
                "      --weights int4:g128:asym\n",
    .details =
        "Codes go over as they are wherever the container has a grid that holds them, with their\n"
        "scales and zero points or what stands for these there ('pith features conversions').\n"
        "pith.json says of each linear what became of it (\"conversion\": exact, scales rounded,\n"
        "rounded anew) and how far a weight moved.\n"
        "A model that is not quantized can be made a GGUF file too. The account of FILE.gguf is\n"
        "FILE.gguf.pith.json.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .defaults = defaults,
    .plain = true,
    .spreads = true,
    .run = run,
};
