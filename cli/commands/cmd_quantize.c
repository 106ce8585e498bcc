/* pith quantize: a checkpoint in, a proven quantized checkpoint out. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/report.h"

#include <pith/quantize.h>

#include <stdio.h>
#include <string.h>

struct settings {
    struct common common;
    struct pith_quantize_options q; /* but for its lists, which are these */
    struct text_list ignore, overrides, calib, targets, tries;
    bool all;
    const char *mode;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(out_convert, AT(q.out)),
    OPTION(recipe_quantize, AT(q.recipe)),
    OPTION(transform, AT(q.transform)),
    OPTION(split, AT(q.split)),
    OPTION(weights_quantize, AT(q.weights)),
    OPTION(acts_quantize, AT(q.acts)),
    OPTION(kv_quantize, AT(q.kv)),
    OPTION(round_quantize, AT(q.round)),
    OPTION(adapter_quantize, AT(q.adapter)),
    OPTION(ignore, AT(ignore)),
    OPTION(override, AT(overrides)),
    OPTION(calib_quantize, AT(calib)),
    OPTION(crlf_quantize, AT(q.crlf)),
    OPTION(calib_tokens_quantize, AT(q.calib_tokens)),
    OPTION(seq_len_quantize, AT(q.seq_len)),
    OPTION(experts_quantize, AT(q.experts)),
    OPTION(budget, AT(q.budget)),
    OPTION(fit_quantize, AT(q.fit)),
    OPTION(max_kl, AT(q.max_kl)),
    OPTION(try_quantize, AT(tries)),
    OPTION(container_quantize, AT(q.container)),
    OPTION(memory_quantize, AT(q.memory)),
    OPTION(max_shard, AT(q.max_shard)),
    OPTION(allow_error_quantize, AT(q.allow_error)),
    OPTION(rehearse, AT(q.rehearse)),
    OPTION(link_quantize, AT(q.link)),
    OPTION(requantize, AT(q.requantize)),
    OPTION(gather, AT(q.gather)),
    OPTION(for, AT(targets)),
    OPTION(mode_quantize, AT(mode)),
    OPTION(all_quantize, AT(all)),
    OPTION(resume, AT(q.resume)),
};

static void defaults(void *settings)
{
    pith_quantize_defaults(&((struct settings *)settings)->q);
}

/* The meter's progress, and the ceiling on memory from the first step on: by then the run has been
 * found to fit. */
struct watch {
    struct pith_progress meter;
    uint64_t memory; /* 0: no ceiling, or set already */
};

static int on_step(void *ctx, const char *what, double done, double total)
{
    struct watch *w = ctx;
    if (w->memory) (void)pith_limit_memory(w->memory, NULL); /* the run counts by itself too */
    w->memory = 0;
    return w->meter.fn(w->meter.ctx, what, done, total);
}

static void fill(struct settings *s, const char *model)
{
    s->q.model = model;
    s->q.ignore = as_list(&s->ignore);
    s->q.overrides = as_list(&s->overrides);
    s->q.calib = as_list(&s->calib);
    s->q.targets = as_list(&s->targets);
    s->q.tries = as_list(&s->tries);
    s->q.seed = s->common.seed;
}

/* Memory that ran out under a ceiling is the ceiling's doing. */
static void blame_ceiling(uint64_t memory, struct pith_error *err)
{
    char size[32];
    const size_t n = strlen(err->text);
    if (!memory || err->status != PITH_NOMEM) return;
    format_bytes((double)memory, size);
    snprintf(err->text + n, sizeof err->text - n, " (--memory allows %s)", size);
}

/* Options that do nothing here, by what the others make of the run. */
static int check_idle(const struct settings *s, const struct pith_quantize_look *look)
{
    static const char no_text[] = "nothing of this recipe looks at calibration text";
    const struct {
        const char *option;
        bool idle;
        bool harmless; /* a remark, not refused: it changes nothing of the result */
        const char *why;
    } rows[] = {
        {"calib", !look->calibrates, false, no_text},
        {"calib-tokens", !look->calibrates, true, no_text},
        {"seq-len", !look->calibrates, true, no_text},
        {"crlf", !look->calibrates, false, no_text},
        {"experts", !look->calibrates, false, no_text},
        {"mode", !look->calibrates, true, "nothing of this recipe is calibrated"},
        {"max-shard", look->file, false, "a GGUF file is a single file"},
        {"seed", !look->random, true, "nothing of this recipe is random"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!rows[i].idle || !given(&s->common, rows[i].option)) continue;
        if (!rows[i].harmless)
            return usage_failure(&s->common, "--%s does nothing: %s", rows[i].option, rows[i].why);
        say(&s->common, "--%s does nothing: %s", rows[i].option, rows[i].why);
    }
    return check_given(&s->common);
}

/* Where a grid was completed from the recipe's: what it became. */
static void say_grids(const struct settings *s, const struct pith_quantize_look *look)
{
    const struct {
        const char *option, *text, *became;
    } grids[] = {{"weights", s->q.weights, look->weights}, {"acts", s->q.acts, look->acts}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        if (grids[i].text && !strchr(grids[i].text, ':') && strchr(grids[i].became, ':'))
            say(&s->common, "--%s %s: taken as %s", grids[i].option, grids[i].text,
                grids[i].became);
}

/* All checks of the options before a file is opened. */
static int check(const struct settings *s)
{
    struct pith_error err = {0};
    struct pith_quantize_look look = {.size = sizeof look};
    if (!s->q.out) return usage_failure(&s->common, "where to? give -o DIR");
    if (pith_quantize_look(&s->q, &look, &err) != PITH_OK) return report_usage(&s->common, &err);
    const int rc = check_idle(s, &look);
    if (rc == EXIT_DONE) say_grids(s, &look);
    return rc;
}

/* FILE.gguf without a recipe: the file that most people of llama.cpp use. */
static void settle_file(struct settings *s)
{
    const bool file = s->q.out && names_gguf(s->q.out);
    if (file && !s->q.weights && !given(&s->common, "recipe")) s->q.recipe = "q4_k_m";
}

static enum pith_status work(struct pith_context *context, void *settings,
                             struct pith_report **report, struct pith_error *err)
{
    struct settings *s = settings;
    struct watch watch = {s->q.progress, s->q.memory};
    s->q.progress = (struct pith_progress){on_step, &watch};
    const enum pith_status status = pith_quantize_report(context, &s->q, report, err);
    if (status != PITH_OK) blame_ceiling(s->q.memory, err);
    return status;
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    pith_return_memory();
    settle_file(s);
    fill(s, operands->item[0]);
    int rc = check(s);
    if (rc == EXIT_DONE) rc = look_at_texts(&s->common, &s->calib, s->q.crlf);
    if (rc != EXIT_DONE) return rc;
    return run_report(&(struct reporting){.common = &s->common,
                                          .settings = s,
                                          .progress = &s->q.progress,
                                          .work = work,
                                          .all = s->all,
                                          .made = true,
                                          .mode = s->mode});
}

const struct command command_quantize = {
    .name = "quantize",
    .summary = "make a quantized checkpoint from a full-precision one",
    .operands = "MODEL -o DIR [options]",
    .extra = "-o DIR",
    .examples = "  pith quantize Llama-3.2-1B -o out\n"
                "  pith quantize Llama-3.2-1B -o out -r gptq --for vllm:tp=2\n"
                "  pith quantize Llama-3.2-1B -o Llama-3.2-1B.gguf -r q4_k_m\n"
                "  pith quantize Llama-3.2-1B -o out -r gptq --weights int3:g64 \\\n"
                "      --override 'down_proj=int4:g64'\n"
                "  pith quantize Llama-3.2-1B --adapter my-lora -o out -r gptq\n"
                "  pith quantize Llama-3.2-1B -o out -r rtn --weights int8:channel \\\n"
                "      --ignore 'layers.0.*'\n"
                "  pith quantize Llama-3.2-1B -o out -r awq+gptq --calib chats.jsonl \\\n"
                "      --memory 6G --rehearse\n",
    .details =
        "GRID is FORMAT[:GRANULARITY][:asym][:mse][:...]. FORMAT: int2 to int8, fp8_e4m3,\n"
        "fp8_e5m2, fp4_e2m1, nf4, bnb_fp4, mxfp8, mxfp6, mxfp4, nvfp4. GRANULARITY, what shares\n"
        "a scale: channel (one output row), tensor, g128 (groups of 128 inputs) or block128\n"
        "(tiles); mxfp and nvfp4 have their own. asym adds zero points; mse searches the scale\n"
        "with the least error; hqq (integers, asym) half-quadratic zero points; dq (nf4)\n"
        "quantizes the scales again; even and ceil (mxfp) round the power of two otherwise.\n"
        "\n"
        "Embeddings and the head stay in the model's precision: an error in the head moves the\n"
        "probability of every token, an embedding is read a row at a time, and most engines load\n"
        "neither quantized. (In a .gguf they have the types that llama.cpp gives them.)\n"
        "\n"
        "The input is never changed.\n"
        "Work goes to DIR.partial; DIR appears when it is whole. A run that was interrupted\n"
        "or killed is continued by the same command with --resume, to the same bytes.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .spreads = true,
    .defaults = defaults,
    .run = run,
};
