/* pith serve: a model behind OpenAI's API. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "server/server.h"

#include <pith/eval.h>
#include <pith/generate.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct settings {
    struct common common;
    const char *host, *key_file, *name, *kv, *chat_template, *tls_cert, *tls_key, *cors, *mode;
    struct text_list kv_layers, allow_hosts;
    size_t port, context, sequences, batch, queue, connections;
    uint64_t memory, body;
    double grace;
    bool log_prompts, no_prefix_cache;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(host, AT(host)),
    OPTION(port, AT(port)),
    OPTION(api_key_file_serve, AT(key_file)),
    OPTION(name_serve, AT(name)),
    OPTION(context_serve, AT(context)),
    OPTION(kv, AT(kv)),
    OPTION(kv_layer_serve, AT(kv_layers)),
    OPTION(memory_serve, AT(memory)),
    OPTION(max_sequences, AT(sequences)),
    OPTION(max_batch, AT(batch)),
    OPTION(queue, AT(queue)),
    OPTION(no_prefix_cache, AT(no_prefix_cache)),
    OPTION(connections, AT(connections)),
    OPTION(max_body, AT(body)),
    OPTION(chat_template, AT(chat_template)),
    OPTION(tls_cert, AT(tls_cert)),
    OPTION(tls_key, AT(tls_key)),
    OPTION(cors, AT(cors)),
    OPTION(allow_host, AT(allow_hosts)),
    OPTION(log_prompts, AT(log_prompts)),
    OPTION(grace, AT(grace)),
    OPTION(mode, AT(mode)),
};

static void defaults(void *settings)
{
    struct settings *s = settings;
    struct server_settings d;
    struct pith_service_options o;
    server_defaults(&d);
    pith_service_defaults(&o);
    s->host = d.host;
    s->port = d.port;
    s->connections = d.connections;
    s->body = d.body;
    s->sequences = o.sequences;
    s->batch = o.batch;
    s->queue = o.queue;
    s->grace = 30;
    s->mode = "fast";
}

static int check(const struct settings *s)
{
    const char *wrong = NULL;
    struct pith_error err = {0};
    const struct pith_list layers = as_list(&s->kv_layers);
    const int rc = check_given(&s->common);
    if (rc != EXIT_DONE) return rc;
    if (!s->tls_cert != !s->tls_key) wrong = "--tls-cert and --tls-key go together";
    else if (s->allow_hosts.count > 0 && (s->key_file || (s->cors && strcmp(s->cors, "*") == 0)))
        wrong = "--allow-host does nothing with --api-key-file or --cors '*': any name is taken";
    else if (pith_kv_check(s->kv, &err) != PITH_OK) wrong = err.text;
    else if (pith_kv_layers_check(&layers, &err) != PITH_OK) wrong = err.text;
    return wrong ? usage_failure(&s->common, "%s", wrong) : EXIT_DONE;
}

static struct pith_service_options service_options(const struct settings *s)
{
    struct pith_service_options o;
    pith_service_defaults(&o);
    o.context = s->context;
    o.sequences = (uint32_t)s->sequences;
    o.batch = s->batch;
    o.queue = s->queue;
    o.memory = s->memory;
    o.kv = s->kv;
    o.kv_layers = as_list(&s->kv_layers);
    o.chat_template = s->chat_template;
    o.no_prefix_cache = s->no_prefix_cache;
    return o;
}

/* The last part of a path: "models/probe/" gives "probe". */
static void last_part(const char *path, char *name, size_t room)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    snprintf(name, room, "%.*s", (int)(end - begin), path + begin);
}

static struct server_settings server_settings(const struct settings *s, const char *model,
                                              const char *name)
{
    struct server_settings t;
    server_defaults(&t);
    t.host = s->host;
    t.port = (unsigned)s->port;
    t.name = name;
    t.model = model;
    t.key_file = s->key_file;
    t.key = getenv("PITH_API_KEY");
    t.cors = s->cors;
    t.allow_hosts = as_list(&s->allow_hosts);
    t.tls_cert = s->tls_cert;
    t.tls_key = s->tls_key;
    t.mode = s->mode;
    t.kv = s->kv;
    t.log = !s->common.quiet;
    t.log_prompts = s->log_prompts;
    t.connections = s->connections;
    t.body = (size_t)s->body;
    const size_t most = s->queue + s->sequences; /* that are taken at once */
    t.prompts = most < t.prompts ? most : t.prompts;
    return t;
}

static void print_ready(const struct settings *s, const struct server *server, const char *name)
{
    if (s->common.json) {
        json_t *j = json_pack("{s:s, s:s}", "address", server_address(server), "model", name);
        json_dumpf(j, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(j);
    } else {
        printf("%s\n", server_address(server));
    }
    fflush(stdout);
    server_notify("READY=1");
    if (server_is_open(server))
        say(&s->common,
            "pith: warning: %s can be reached from other machines without a key; give "
            "--api-key-file",
            server_address(server));
}

/* Serves until a signal comes, then lets what was accepted end. */
static int serve(const struct settings *s, struct server *server, struct pith_engine *engine,
                 const struct pith_reply_format *format, const char *name)
{
    const struct pith_service_options o = service_options(s);
    const struct timespec a_little = {.tv_nsec = 50000000};
    struct pith_service *service = NULL;
    struct pith_error err = {0};
    if (pith_service_open(engine, &o, &service, &err) != PITH_OK)
        return report_failure(&s->common, &err);
    server_begin(server, service, format);
    if (strcmp(pith_reply_format_name(format), "described") == 0)
        say(&s->common, "the chat template knows no tools: they are described in the system "
                        "message (docs/chat.md)");
    print_ready(s, server, name);
    while (!interrupted()) nanosleep(&a_little, NULL);
    interrupt_unhurried(); /* --grace is the bound */
    server_notify("STOPPING=1");
    pith_service_drain(service);
    server_drain(server, s->grace);
    server_stop(server);
    pith_service_close(&service);
    return EXIT_DONE;
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    const char *model = operands->item[0];
    struct pith_context *context;
    struct pith_engine *engine = NULL;
    struct pith_reply_format *format = NULL;
    struct server *server = NULL;
    struct pith_error err = {0};
    char part[256];
    last_part(model, part, sizeof part);
    const char *name = s->name ? s->name : part;
    int rc = check(s);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc == EXIT_DONE) rc = choose_mode(&s->common, &context, s->mode);
    if (rc != EXIT_DONE) return rc;
    const struct server_settings t = server_settings(s, model, name);
    if (server_open(&t, &server, &err) != PITH_OK ||
        pith_reply_format_open(model, s->chat_template, &format, &err) != PITH_OK ||
        pith_engine_open(context, model, &engine, &err) != PITH_OK)
        rc = report_failure(&s->common, &err);
    else rc = serve(s, server, engine, format, name);
    if (server) server_stop(server);
    server_free(&server);
    pith_reply_format_close(&format);
    pith_engine_close(&engine);
    pith_context_free(&context);
    return rc;
}

const struct command command_serve = {
    .name = "serve",
    .summary = "a model behind OpenAI's API",
    .operands = "MODEL [options]",
    .extra = "--name NAME",
    .examples = "  pith serve out\n"
                "  pith serve out --port 8000 --kv int8:token --context 8k\n"
                "  pith serve out --host 0.0.0.0 --api-key-file keys \\\n"
                "      --tls-cert c.pem --tls-key k.pem\n",
    .details =
        "Answers /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models and more\n"
        "(docs/serving.md), whole or as a stream, and shows a page to talk to at /. The address\n"
        "is printed on standard output when the model is ready; until then requests get status\n"
        "503. A line a request goes to standard error, without prompts unless\n"
        "--log-prompts says so; --quiet leaves it out. SIGTERM or Ctrl-C: nothing new is taken,\n"
        "what was accepted has --grace seconds to end, then the program ends with status 0; a\n"
        "second signal ends it at once. Under systemd a socket that is handed over is used in\n"
        "place of --host and --port.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .plain = true,
    .defaults = defaults,
    .run = run,
};
