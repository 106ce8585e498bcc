/* pith pull: a model from the Hugging Face hub into the cache that its tools share. */
#include "cli/command.h"
#include "cli/input.h"
#include "cli/hub.h"
#include "cli/report.h"

#include <pith/hub.h>

#include <stdio.h>
#include <stdlib.h>

struct settings {
    struct common common;
    struct text_list files;
    size_t jobs;
    const char *token_file;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(file, AT(files)),
    OPTION(jobs, AT(jobs)),
    OPTION(token_file, AT(token_file)),
};

static void set_defaults(void *settings)
{
    ((struct settings *)settings)->jobs = 8;
}

enum { TOKEN_MOST = 4096 };

/* --token-file, HF_TOKEN, or the file in which `hf auth login` keeps it. */
static int find_token(const struct settings *s, char token[TOKEN_MOST])
{
    static const char *const variables[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    static const struct hub_place places[] = {{"HF_TOKEN_PATH", ""},
                                              {"HF_HOME", "/token"},
                                              {"XDG_CACHE_HOME", "/huggingface/token"},
                                              {"HOME", "/.cache/huggingface/token"}};
    struct pith_error err;
    token[0] = '\0';
    if (s->token_file)
        return read_first_line(s->token_file, "token", token, TOKEN_MOST, &err)
                   ? EXIT_DONE
                   : usage_failure(&s->common, "--token-file %s", err.text);
    if (hub_flag("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return EXIT_DONE;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (!value || !*value) continue;
        snprintf(token, TOKEN_MOST, "%s", value);
        return EXIT_DONE;
    }
    char *path = hub_path(places, sizeof places / sizeof places[0]);
    if (path && !read_first_line(path, "token", token, TOKEN_MOST, &err)) token[0] = '\0';
    free(path);
    return EXIT_DONE;
}

/* The network is touched here and nowhere else in the program. */
static int pull(const struct settings *s, const struct pith_hub_options *o, const char *name)
{
    struct pith_error err = {0};
    struct pith_report *report;
    const enum pith_status status = pith_hub_pull_report(o, name, &report, &err);
    meter_end(o->progress.ctx);
    if (status == PITH_INTERRUPTED)
        say(&s->common, "what has arrived is stored: the same command goes on with it");
    if (status != PITH_OK) return report_failure(&s->common, &err);
    const int rc = give_report(&s->common, report, false);
    pith_report_free(&report);
    return rc;
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_hub_options o;
    struct meter meter;
    char token[TOKEN_MOST];
    const char *name = operands->item[0], *endpoint = getenv("HF_ENDPOINT");
    pith_hub_defaults(&o);
    if (!pith_hub_is_name(name))
        return usage_failure(&s->common, "%s: give org/name or org/name@revision", name);
    if (s->jobs < 1 || s->jobs > 64)
        return usage_failure(&s->common, "--jobs %zu: between 1 and 64", s->jobs);
    int rc = find_token(s, token);
    if (rc != EXIT_DONE) return rc;
    if (hub_flag("HF_HUB_OFFLINE") || hub_flag("TRANSFORMERS_OFFLINE"))
        return report_failure(&s->common,
                              &(struct pith_error){PITH_IO, "HF_HUB_OFFLINE is set: nothing is "
                                                            "downloaded"});
    char *cache = hub_cache();
    if (!cache)
        return usage_failure(&s->common, "no folder to put it in: set HF_HUB_CACHE or HOME");
    meter_start(&meter, &s->common);
    o.cache = cache;
    if (endpoint && *endpoint) o.endpoint = endpoint;
    if (token[0]) o.token = token;
    o.files = as_list(&s->files);
    o.jobs = s->jobs;
    o.progress = meter_progress(&meter);
    rc = pull(s, &o, name);
    free(cache);
    return rc;
}

const struct command command_pull = {
    .name = "pull",
    .summary = "download a model from the Hugging Face hub into its shared cache",
    .operands = "ORG/NAME[@REVISION] [options]",
    .examples = "  pith pull Qwen/Qwen2.5-0.5B\n"
                "  pith quantize Qwen/Qwen2.5-0.5B -o out\n"
                "  pith pull org/model-GGUF --file '*Q4_K_M.gguf'\n",
    .details =
        "Files go to the cache that Hugging Face's tools share (HF_HUB_CACHE, HF_HOME/hub,\n"
        "XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub), in their layout; each is\n"
        "compared with the hash that the hub states. Without --file: config, tokenizer, chat\n"
        "templates, licence and *.safetensors. An interrupted pull goes on where it was. The\n"
        "token is sent to the hub alone (HF_ENDPOINT, or https://huggingface.co), not to where\n"
        "it redirects. With HF_HUB_OFFLINE=1 nothing is downloaded. No other command downloads.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .defaults = set_defaults,
    .min_operands = 1,
    .max_operands = 1,
    .plain = true,
    .run = run,
};
