/* The command lines that a row of a plan stands for. */
#include "plan/search.h"

#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What servers are started with for pools, and for the host's memory. HOST:PORT is for the reader
 * to fill in. vLLM: docs, "NixlConnector Usage Guide" (roles are a placeholder to that connector,
 * whose proxy decides) and "KV Cache Offloading" (GiB of all devices); SGLang: docs, "PD
 * Disaggregation" and "HiCache" (10^9 bytes of each rank); TensorRT-LLM: docs, "Disaggregated
 * Serving" and KvCacheConfig (bytes of each rank). */
static const struct pith_plan_serving servings[] = {
    {.engine = "vllm",
     .read = " --kv-transfer-config"
             " '{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_producer\"}'",
     .answer = " --kv-transfer-config"
               " '{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_consumer\"}'",
     .route = "python tests/v1/kv_connector/nixl_integration/toy_proxy_server.py"
              " --prefiller-hosts HOST --prefiller-ports PORT --decoder-hosts HOST"
              " --decoder-ports PORT",
     .offload = " --kv-offloading-backend native --kv-offloading-size %.0f",
     .unit = 1073741824.0},
    {.engine = "sglang",
     .read = " --disaggregation-mode prefill --disaggregation-transfer-backend nixl",
     .answer = " --disaggregation-mode decode --disaggregation-transfer-backend nixl",
     .route = "python -m sglang_router.launch_router --pd-disaggregation --prefill http://HOST:PORT"
              " --decode http://HOST:PORT",
     .offload = " --enable-hierarchical-cache --hicache-size %.0f",
     .unit = 1e9,
     .each = true},
    {.engine = "trtllm",
     .read = " --extra_llm_api_options <(echo '{disable_overlap_scheduler: true,"
             " cache_transceiver_config: {backend: DEFAULT}}')",
     .answer = " --extra_llm_api_options <(echo '{cache_transceiver_config: {backend: DEFAULT}}')",
     .route = "trtllm-serve disaggregated -c <(echo '{hostname: localhost, port: 8000,"
              " context_servers: {num_instances: 1, urls: [\"HOST:PORT\"]},"
              " generation_servers: {num_instances: 1, urls: [\"HOST:PORT\"]}}')",
     .offload = " --extra_llm_api_options <(echo '{kv_cache_config: {host_cache_size: %.0f}}')",
     .unit = 1.0,
     .each = true},
};

const struct pith_plan_serving *pith_plan_serving_find(const char *engine)
{
    for (size_t i = 0; i < PITH_COUNT(servings); i++)
        if (strcmp(servings[i].engine, engine) == 0) return &servings[i];
    return NULL;
}

/* A text as a word of a command line. */
static void quote(const char *text, struct pith_str *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_@%+=:,./-";
    if (*text && strspn(text, plain) == strlen(text)) {
        pith_str_puts(out, text);
        return;
    }
    pith_str_putc(out, '\'');
    for (; *text; text++) {
        if (*text == '\'') pith_str_puts(out, "'\\''");
        else pith_str_putc(out, *text);
    }
    pith_str_putc(out, '\'');
}

/* Whether the weights are made by a command: what that is called, else the model itself. */
static bool made_name(const struct pith_plan_search *p, const struct pith_plan_case *k,
                      struct pith_str *out)
{
    const struct pith_container *own = pith_plan_own_container(k->c),
                                *c = pith_plan_other_container(k);
    const bool converts = k->c->stored && c, made = k->c->quantizes || converts;
    const bool file = converts ? c->file != NULL : own && own->file;
    struct pith_str name = {0};
    if (made)
        pith_str_printf(&name, "%s-%s%s", pith_name_of_path(p->name),
                        converts ? c->name : pith_name_of_path(k->c->name), file ? ".gguf" : "");
    else pith_str_puts(&name, p->options->model);
    quote(pith_str_text(&name), out);
    out->failed |= name.failed;
    pith_str_free(&name);
    return made;
}

static void put_target(const struct pith_plan_case *k, struct pith_str *s)
{
    if (strcmp(k->need->name, "pith") != 0) pith_str_printf(s, " --for %s", k->need->name);
}

static void quantize_line(const struct pith_plan_search *p, const struct pith_plan_row *row,
                          struct pith_str *s)
{
    const struct pith_plan_case *k = &row->k;
    const struct pith_container *other = pith_plan_other_container(k);
    pith_str_puts(s, "pith quantize ");
    quote(p->options->model, s);
    pith_str_puts(s, " -o ");
    (void)made_name(p, k, s);
    pith_str_puts(s, " -r ");
    quote(k->c->name, s);
    pith_str_puts(s, k->c->option);
    if (other) pith_str_printf(s, " --container %s", other->name);
    if (p->stored && p->stored->lossy) pith_str_puts(s, " --requantize");
    put_target(k, s);
    if (row->round) pith_str_printf(s, " --round %s", row->round);
}

/* A quantized model in a container that the engine loads. */
static void convert_line(const struct pith_plan_search *p, const struct pith_plan_case *k,
                         struct pith_str *s)
{
    pith_str_puts(s, "pith convert ");
    quote(p->options->model, s);
    pith_str_puts(s, " -o ");
    (void)made_name(p, k, s);
    pith_str_printf(s, " --container %s", k->container->name);
    put_target(k, s);
}

/* What stands behind the model's name on the engine's command line; split: at its end. */
static void engine_line(const struct pith_plan_search *p, const struct pith_plan_case *k,
                        struct pith_spread_over over, const char *split, struct pith_str *s)
{
    const struct pith_demand *d = &k->demand;
    const char *cache = k->kv_options;
    char made[400];
    struct pith_str name = {0};
    (void)made_name(p, k, &name);
    (void)snprintf(made, sizeof made, "%s", pith_str_text(&name));
    pith_str_free(&name);
    const bool file = strstr(made, ".gguf");
    /* What the environment must say stands in front of the command. */
    const size_t before = *cache && *cache != '-' ? strcspn(cache, " ") + 1 : 0;
    if (before) pith_str_append(s, cache, before);
    if (strcmp(k->need->name, "vllm") == 0) {
        pith_str_printf(s, "vllm serve %s --max-model-len %zu --max-num-seqs %zu", made, d->context,
                        d->users);
        if (over.tensor > 1) pith_str_printf(s, " --tensor-parallel-size %u", over.tensor);
        if (over.pipeline > 1) pith_str_printf(s, " --pipeline-parallel-size %u", over.pipeline);
    } else if (strcmp(k->need->name, "sglang") == 0) {
        pith_str_printf(s,
                        "python -m sglang.launch_server --model-path %s --context-length %zu"
                        " --max-running-requests %zu",
                        made, d->context, d->users);
        if (over.tensor > 1) pith_str_printf(s, " --tp-size %u", over.tensor);
        if (over.pipeline > 1) pith_str_printf(s, " --pp-size %u", over.pipeline);
    } else if (strcmp(k->need->name, "trtllm") == 0) {
        pith_str_printf(s, "trtllm-serve %s --max_seq_len %zu --max_batch_size %zu", made,
                        d->context, d->users);
        if (over.tensor > 1) pith_str_printf(s, " --tp_size %u", over.tensor);
        if (over.pipeline > 1) pith_str_printf(s, " --pp_size %u", over.pipeline);
    } else if (strcmp(k->need->name, "llama.cpp") == 0)
        pith_str_printf(s, "llama-server -m %s%s -c %zu -np %zu", made, file ? "" : ".gguf",
                        d->context * d->users, d->users);
    else if (strcmp(k->need->name, "pith") == 0) {
        pith_str_printf(s, "pith serve %s --context %zu --max-sequences %zu --kv %s", made,
                        d->context, d->users, k->kv_name);
        return;
    } else {
        pith_str_printf(s, "AutoModelForCausalLM.from_pretrained(\"%s\")", made);
        return;
    }
    if (*cache) pith_str_printf(s, " %s", cache + before);
    pith_str_puts(s, split);
}

/* The server's options for the host's memory. */
static void offload_line(const struct pith_plan_search *p, const struct pith_plan_row *row,
                         const struct pith_plan_serving *e, char out[PITH_PLAN_WHY])
{
    const double devices = (double)row->d.over.tensor * row->d.over.pipeline;
    const double amount = floor((double)p->options->offload / e->unit / (e->each ? devices : 1));
    const char *at = strstr(e->offload, "%.0f");
    (void)snprintf(out, PITH_PLAN_WHY, "%.*s%.0f%s", (int)(at - e->offload), e->offload, amount,
                   at + 4);
}

static const char *make_line(const struct pith_plan_search *p, const struct pith_plan_row *row,
                             struct pith_str *s)
{
    const bool converts = row->k.c->stored && pith_plan_other_container(&row->k);
    if (!converts && !row->k.c->quantizes) return NULL;
    if (converts) convert_line(p, &row->k, s);
    else quantize_line(p, row, s);
    return converts ? "convert" : "quantize";
}

static void serve_line(const struct pith_plan_search *p, const struct pith_plan_row *row,
                       const struct pith_plan_serving *e, struct pith_str *s)
{
    char split[PITH_PLAN_WHY] = "";
    if (row->pooled) (void)snprintf(split, PITH_PLAN_WHY, "%s", e->answer);
    else if (row->offloads) offload_line(p, row, e, split);
    engine_line(p, &row->k, row->d.over, split, s);
}

const char *pith_plan_command(const struct pith_plan_search *p, const struct pith_plan_row *row,
                              enum pith_plan_command which, struct pith_str *out)
{
    const struct pith_plan_serving *e = pith_plan_serving_find(row->k.need->name);
    if (which == PITH_COMMAND_MAKE) return make_line(p, row, out);
    if (which == PITH_COMMAND_SERVE) {
        serve_line(p, row, e, out);
        return "serve";
    }
    if (!row->pooled) return NULL;
    if (which == PITH_COMMAND_ROUTE) {
        pith_str_puts(out, e->route);
        return "route";
    }
    engine_line(p, &row->k, row->read_over, e->read, out);
    return "prefill";
}
