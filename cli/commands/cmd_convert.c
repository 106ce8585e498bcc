/* pith convert: the same quantized weights in another container. */
#include "cli/command.h"
#include "cli/report.h"

#include <pith/quantize.h>

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

static void defaults(void *settings)
{
    pith_convert_defaults(&((struct settings *)settings)->c);
}

static int check(const struct settings *s)
{
    struct pith_error err = {0};
    if (!s->c.out) return usage_failure(&s->common, "where to? give -o DIR or -o FILE.gguf");
    if (!s->c.container && !s->c.adapter && !names_gguf(s->c.out))
        return usage_failure(&s->common, "to what? give --container NAME");
    if (pith_convert_check(&s->c, NULL, &err) != PITH_OK) return report_usage(&s->common, &err);
    if (given(&s->common, "max-shard") && names_gguf(s->c.out))
        return usage_failure(&s->common, "--max-shard does nothing: a GGUF file is a single file");
    if (given(&s->common, "max-shard") && !s->c.max_shard)
        return usage_failure(&s->common, "--max-shard: at least 1");
    return EXIT_DONE;
}

static enum pith_status work(struct pith_context *context, void *settings,
                             struct pith_report **report, struct pith_error *err)
{
    return pith_convert_report(context, &((struct settings *)settings)->c, report, err);
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    pith_return_memory();
    s->c.model = operands->item[0];
    s->c.targets = as_list(&s->targets);
    const int rc = check(s);
    if (rc != EXIT_DONE) return rc;
    return run_report(&(struct reporting){.common = &s->common,
                                          .settings = s,
                                          .progress = &s->c.progress,
                                          .work = work,
                                          .made = true});
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
