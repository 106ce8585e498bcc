/* Counters and histograms, and their text. */
#include "server/metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BUCKETS = 24, STATUSES = 600 };

/* Upper ends of buckets, as vLLM has them; the rest of a row is 0. */
static const double FIRST_SECONDS[MOST_BUCKETS] = {.001, .005, .01, .02, .04, .06, .08, .1,
                                                   .25,  .5,   .75, 1,   2.5, 5,   7.5, 10,
                                                   20,   40,   80,  160, 640, 2560};
static const double TOKEN_SECONDS[MOST_BUCKETS] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                                   .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
static const double REQUEST_SECONDS[MOST_BUCKETS] = {
    .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double TOKENS[MOST_BUCKETS] = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
static const double CHOICE_COUNTS[MOST_BUCKETS] = {1, 2, 5, 10, 20};

enum histogram_row {
#define HISTOGRAM(member, name, buckets, help) member,
#include "server/metrics.def"
#undef HISTOGRAM
    HISTOGRAMS
};
static const struct histogram_kind {
    const char *name, *help;
    const double *end;
} kinds[] = {
#define HISTOGRAM(member, name, buckets, help) {name, help, buckets},
#include "server/metrics.def"
#undef HISTOGRAM
};

struct histogram {
    uint64_t count, bucket[MOST_BUCKETS]; /* of each alone */
    double sum;
};

/* Reasons for which an answer ends: the engine's word, vLLM's. */
static const struct {
    const char *finish, *name;
} reasons[] = {{"stop", "stop"}, {"length", "length"}, {"", "abort"}};
enum { REASONS = sizeof reasons / sizeof reasons[0] };

struct metrics {
    pthread_mutex_t lock;
    struct histogram histogram[HISTOGRAMS];
    uint64_t finished[REASONS], answered[STATUSES];
};

struct metrics *metrics_new(void)
{
    struct metrics *m = calloc(1, sizeof *m);
    if (m) pthread_mutex_init(&m->lock, NULL);
    return m;
}

void metrics_free(struct metrics *m)
{
    if (m) pthread_mutex_destroy(&m->lock);
    free(m);
}

/* Under the lock. */
static void observe(struct metrics *m, enum histogram_row row, double x)
{
    struct histogram *h = &m->histogram[row];
    const double *end = kinds[row].end;
    if (!(x >= 0)) x = 0;
    h->count++;
    h->sum += x;
    for (int i = 0; i < MOST_BUCKETS && end[i] > 0; i++) {
        if (x > end[i]) continue;
        h->bucket[i]++;
        break;
    }
}

void metrics_accept(struct metrics *m, const struct pith_request *request)
{
    pthread_mutex_lock(&m->lock);
    observe(m, CHOICES, request->n);
    if (request->max_tokens > 0) observe(m, MAX_TOKENS, (double)request->max_tokens);
    pthread_mutex_unlock(&m->lock);
}

void metrics_tokens(struct metrics *m, size_t tokens, double since)
{
    if (since < 0) return; /* reported when the request ends */
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < tokens; i++) {
        observe(m, BETWEEN, since / (double)tokens);
        observe(m, PER_TOKEN, since / (double)tokens);
    }
    pthread_mutex_unlock(&m->lock);
}

void metrics_finish(struct metrics *m, const char *finish)
{
    size_t i = 0;
    while (i + 1 < REASONS && strcmp(finish, reasons[i].finish) != 0) i++;
    pthread_mutex_lock(&m->lock);
    m->finished[i]++;
    pthread_mutex_unlock(&m->lock);
}

void metrics_end(struct metrics *m, const struct pith_usage *u, double prior)
{
    pthread_mutex_lock(&m->lock);
    observe(m, FIRST, prior + u->first);
    observe(m, WHOLE, prior + u->seconds);
    observe(m, QUEUE, u->queued);
    observe(m, INFERENCE, u->seconds - u->queued);
    observe(m, PREFILL, u->first - u->queued);
    observe(m, DECODE, u->seconds - u->first);
    observe(m, PROMPT, (double)u->prompt);
    observe(m, GENERATED, (double)u->generated);
    observe(m, MOST, (double)u->generated);
    pthread_mutex_unlock(&m->lock);
}

void metrics_answer(struct metrics *m, unsigned status)
{
    pthread_mutex_lock(&m->lock);
    if (status < STATUSES) m->answered[status]++;
    pthread_mutex_unlock(&m->lock);
}

/* --- as text ---------------------------------------------------------------------------------- */

struct writer {
    struct buffer *out;
    char label[512]; /* model_name="...",engine="0" */
};

static void head(struct writer *w, const char *name, const char *type, const char *help)
{
    buffer_print(w->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void value(struct writer *w, const char *name, const char *type, const char *help, double x)
{
    head(w, name, type, help);
    buffer_print(w->out, "%s{%s} %.17g\n", name, w->label, x);
}

static void write_histogram(struct writer *w, const struct histogram_kind *k,
                            const struct histogram *h)
{
    uint64_t sum = 0;
    head(w, k->name, "histogram", k->help);
    for (int i = 0; i < MOST_BUCKETS && k->end[i] > 0; i++) {
        sum += h->bucket[i];
        buffer_print(w->out, "%s_bucket{le=\"%g\",%s} %llu\n", k->name, k->end[i], w->label,
                     (unsigned long long)sum);
    }
    buffer_print(w->out, "%s_bucket{le=\"+Inf\",%s} %llu\n%s_count{%s} %llu\n%s_sum{%s} %.9g\n",
                 k->name, w->label, (unsigned long long)h->count, k->name, w->label,
                 (unsigned long long)h->count, k->name, w->label, h->sum);
}

static void write_state(struct writer *w, const struct pith_service_state *s)
{
    const struct {
        const char *name, *type, *help;
        double x;
    } rows[] = {
        {"vllm:num_requests_running", "gauge", "Requests that run.", (double)s->running},
        {"vllm:num_requests_waiting", "gauge", "Requests that wait.", (double)s->waiting},
        {"vllm:kv_cache_usage_perc", "gauge", "Share of the pages in use, 0 to 1.",
         s->pages ? (double)(s->pages_used - s->pages_cached) / (double)s->pages : 0},
        {"vllm:prefix_cache_queries_total", "counter", "Tokens of prompts that were looked for.",
         (double)s->prompt_tokens},
        {"vllm:prefix_cache_hits_total", "counter", "Of them, that were found.",
         (double)s->cached_tokens},
        {"vllm:num_preemptions_total", "counter", "Requests that gave their pages back.",
         (double)s->preempted},
        {"vllm:prompt_tokens_total", "counter", "Tokens of prompts.", (double)s->prompt_tokens},
        {"vllm:generation_tokens_total", "counter", "Tokens made.", (double)s->generated_tokens},
        {"vllm:spec_decode_num_draft_tokens_total", "counter", "Tokens guessed by look-up.",
         (double)s->guessed},
        {"vllm:spec_decode_num_accepted_tokens_total", "counter", "Of them, right.",
         (double)s->guessed_right},
        {"pith:steps_total", "counter", "Steps.", (double)s->steps},
        {"pith:busy_seconds_total", "counter", "Seconds of steps.", s->busy},
        {"pith:sequences", "gauge", "Sequences in the last step.", (double)s->sequences},
        {"pith:pages", "gauge", "Pages of the cache.", (double)s->pages},
        {"pith:pages_used", "gauge", "Of them, in use.", (double)s->pages_used},
        {"pith:pages_cached", "gauge", "Of these, cached only for prefixes that may come again.",
         (double)s->pages_cached},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        value(w, rows[i].name, rows[i].type, rows[i].help, rows[i].x);
    head(w, "vllm:cache_config_info", "gauge", "Positions of a page, pages.");
    buffer_print(w->out, "vllm:cache_config_info{block_size=\"32\",num_gpu_blocks=\"%zu\",%s} 1\n",
                 s->pages, w->label);
}

/* A label's value: quotes, backslashes and line ends are escaped. */
static void set_label(char *label, size_t room, const char *model)
{
    size_t n = (size_t)snprintf(label, room, "model_name=\"");
    for (; *model && n + 24 < room; model++) {
        if (*model == '"' || *model == '\\') label[n++] = '\\';
        label[n++] = *model == '\n' ? ' ' : *model;
    }
    snprintf(label + n, room - n, "\",engine=\"0\"");
}

void metrics_write(struct metrics *m, struct pith_service *service, const char *model,
                   struct buffer *out)
{
    struct writer w = {.out = out};
    set_label(w.label, sizeof w.label, model);
    if (service) {
        struct pith_service_state state = {.size = sizeof state};
        pith_service_state(service, &state);
        write_state(&w, &state);
    }
    pthread_mutex_lock(&m->lock);
    const struct metrics now = *m;
    pthread_mutex_unlock(&m->lock);
    head(&w, "vllm:request_success_total", "counter", "Answers that ended.");
    for (size_t i = 0; i < REASONS; i++)
        buffer_print(out, "vllm:request_success_total{finished_reason=\"%s\",%s} %llu\n",
                     reasons[i].name, w.label, (unsigned long long)now.finished[i]);
    head(&w, "pith:http_answers_total", "counter", "Answers by status.");
    for (unsigned i = 0; i < STATUSES; i++)
        if (now.answered[i])
            buffer_print(out, "pith:http_answers_total{status=\"%u\",%s} %llu\n", i, w.label,
                         (unsigned long long)now.answered[i]);
    for (int i = 0; i < HISTOGRAMS; i++) write_histogram(&w, &kinds[i], &now.histogram[i]);
}
