/* What pith_traffic() measured, as JSON. */
#include "traffic/server_load.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* Columns of a histogram, and moments of a level's course. */
enum { BINS = 32, MOMENTS = 60 };

static json_t *quantiles_report(const struct pith_quantiles *q)
{
    json_t *j = json_pack("{s:I}", "n", (json_int_t)q->n);
    pith_json_set(&j, "mean", pith_json_finite(q->mean));
    pith_json_set(&j, "p50", pith_json_finite(q->p50));
    pith_json_set(&j, "p90", pith_json_finite(q->p90));
    pith_json_set(&j, "p99", pith_json_finite(q->p99));
    pith_json_set(&j, "least", pith_json_finite(q->least));
    pith_json_set(&j, "most", pith_json_finite(q->most));
    return j;
}

/* --- histograms ------------------------------------------------------------------------------- */

struct bins {
    double from, to;
    bool log;
    size_t count[BINS];
};

static struct bins bins_over(const struct pith_quantiles *q)
{
    struct bins b = {.from = q->least, .to = q->most};
    if (!(b.to > b.from)) b.to = b.from + fmax(1e-6, 0.01 * b.from);
    b.log = b.from > 0 && b.to / b.from > 50;
    return b;
}

static double edge(const struct bins *b, size_t i)
{
    const double part = (double)i / BINS;
    return b->log ? b->from * pow(b->to / b->from, part) : b->from + (b->to - b->from) * part;
}

static void count(struct bins *b, double x)
{
    const double part = b->log ? log(x / b->from) / log(b->to / b->from)
                               : (x - b->from) / (b->to - b->from);
    if (isfinite(part)) b->count[(size_t)fmin(fmax(part * BINS, 0), BINS - 1)]++;
}

static json_t *bins_report(const struct bins *b)
{
    json_t *from = json_array(), *counts = json_array();
    for (size_t i = 0; i <= BINS; i++) pith_json_add(&from, json_real(edge(b, i)));
    for (size_t i = 0; i < BINS; i++) pith_json_add(&counts, json_integer((json_int_t)b->count[i]));
    return json_pack("{s:o, s:o, s:b}", "from", from, "counts", counts, "log", b->log);
}

static json_t *member_histogram(const struct pith_level_result *r, size_t offset,
                                const struct pith_quantiles *q)
{
    struct bins b = bins_over(q);
    for (size_t i = 0; i < r->records; i++) {
        double x;
        memcpy(&x, (const char *)&r->record[i] + offset, sizeof x);
        if (!isnan(x)) count(&b, x);
    }
    return bins_report(&b);
}

static json_t *gap_histogram(const struct pith_level_result *r, const struct pith_quantiles *q)
{
    struct pith_quantiles cut = *q;
    if (cut.least < 1e-5) cut.least = fmin(1e-5, cut.most / 2); /* chunks that came together */
    struct bins b = bins_over(&cut);
    for (size_t i = 0; i < r->gaps; i++) count(&b, fmax((double)r->gap[i].wait, b.from));
    return bins_report(&b);
}

/* Chunks a second over the level's time. */
static json_t *course_report(const struct pith_level_result *r)
{
    double chunks[MOMENTS] = {0};
    const double width = fmax(r->seconds, 1e-3) / MOMENTS;
    json_t *list = json_array();
    for (size_t i = 0; i < r->gaps; i++)
        chunks[(size_t)fmin(fmax((double)r->gap[i].at / width, 0), MOMENTS - 1)]++;
    for (size_t i = 0; i < r->firsts; i++)
        chunks[(size_t)fmin(fmax((double)r->first_at[i] / width, 0), MOMENTS - 1)]++;
    for (size_t i = 0; i < MOMENTS; i++) pith_json_add(&list, json_real(chunks[i] / width));
    return json_pack("{s:f, s:o}", "width_seconds", width, "chunks_per_second", list);
}

/* --- measures --------------------------------------------------------------------------------- */

/* What is told of each request, by the key of the report. */
static const struct {
    const char *key;
    size_t offset;
} measures[] = {
    {"first_token_seconds", offsetof(struct pith_record, first)},
    {"token_seconds", offsetof(struct pith_record, between)},
    {"pause_seconds", offsetof(struct pith_record, pause)},
    {"total_seconds", offsetof(struct pith_record, total)},
};

static enum pith_status add_measures(const struct pith_level_result *r, json_t **j,
                                     struct pith_error *err)
{
    struct pith_quantiles q;
    json_t *histograms = json_object();
    for (size_t i = 0; i < PITH_COUNT(measures); i++) {
        const enum pith_status s = pith_quantiles_member(r, measures[i].offset, &q, err);
        if (s != PITH_OK) {
            json_decref(histograms);
            return s;
        }
        pith_json_set(j, measures[i].key, quantiles_report(&q));
        if (q.n > 0)
            pith_json_set(&histograms, measures[i].key,
                          member_histogram(r, measures[i].offset, &q));
    }
    const enum pith_status s = pith_quantiles_gaps(r, &q, err);
    pith_json_set(j, "between_seconds", quantiles_report(&q));
    if (s == PITH_OK && q.n > 0)
        pith_json_set(&histograms, "between_seconds", gap_histogram(r, &q));
    pith_json_set(j, "histograms", histograms);
    pith_json_set(j, "course", course_report(r));
    return s;
}

/* --- counts ----------------------------------------------------------------------------------- */

struct sums {
    double prompt, cached, answer, asked_prompt, chunks, textless;
    size_t told, told_cached, unseen, short_of; /* answers that the server counts, and so on */
};

static struct sums sums_of(const struct pith_level_result *r)
{
    struct sums s = {0};
    for (size_t i = 0; i < r->records; i++) {
        const struct pith_record *x = &r->record[i];
        s.told += x->answer >= 0;
        s.told_cached += x->cached >= 0;
        s.answer += x->answer >= 0 ? (double)x->answer : (double)x->chunks;
        s.prompt += x->prompt >= 0 ? (double)x->prompt : 0;
        s.cached += x->cached >= 0 ? (double)x->cached : 0;
        s.asked_prompt += (double)x->asked_prompt;
        s.chunks += (double)x->chunks;
        s.textless += (double)x->textless;
        s.unseen += x->chunks == 0;
        s.short_of += (x->answer >= 0 ? x->answer : (int64_t)x->chunks) < (int64_t)x->asked_answer;
    }
    return s;
}

static json_t *failures_report(const struct pith_level_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->failures; i++) {
        const struct pith_failure_kind *f = &r->failure[i];
        pith_json_add(&list,
                      json_pack("{s:s, s:I, s:o}", "kind", f->kind, "count", (json_int_t)f->count,
                                "example", pith_json_name(f->example)));
    }
    return list;
}

static json_t *goals_report(const struct pith_server_load *t, const struct pith_level_result *r)
{
    const double all = (double)(r->records + pith_level_failed(r));
    size_t missed[PITH_TRAFFIC_LIMITS] = {0}, good = 0;
    json_t *each = json_object();
    for (size_t k = 0; k < r->records; k++) {
        bool kept = true;
        for (size_t i = 0; i < PITH_TRAFFIC_LIMITS; i++) {
            const bool this = pith_goal_kept(&t->goals, i, &r->record[k]);
            missed[i] += !this;
            kept = kept && this;
        }
        good += kept;
    }
    for (size_t i = 0; i < PITH_TRAFFIC_LIMITS; i++)
        if (isfinite(t->goals.most[i]))
            pith_json_set(&each, pith_traffic_limits[i].name, json_integer((json_int_t)missed[i]));
    return json_pack("{s:I, s:o, s:o, s:o}", "good", (json_int_t)good, "share",
                     pith_json_finite((double)good / all), "requests_per_second",
                     pith_json_finite((double)good / r->seconds), "missed", each);
}

static void add_counts(const struct pith_server_load *t, const struct pith_level_result *r,
                       json_t **j)
{
    const struct sums s = sums_of(r);
    const double seconds = r->seconds;
    pith_json_set(j, "requests", json_integer((json_int_t)(r->records + pith_level_failed(r))));
    pith_json_set(j, "answered", json_integer((json_int_t)r->records));
    pith_json_set(j, "failed", json_integer((json_int_t)pith_level_failed(r)));
    pith_json_set(j, "failures", failures_report(r));
    pith_json_set(j, "seconds", json_real(seconds));
    pith_json_set(j, "requests_per_second", pith_json_finite((double)r->records / seconds));
    pith_json_set(j, "output_tokens_per_second", pith_json_finite(s.answer / seconds));
    pith_json_set(j, "prompt_tokens_per_second", pith_json_finite(s.prompt / seconds));
    pith_json_set(j, "prompt_tokens", json_real(s.prompt));
    pith_json_set(j, "prompt_tokens_wanted",
                  json_real(s.asked_prompt + (double)(t->words.prefix * r->records)));
    pith_json_set(j, "cached_tokens", s.told_cached ? json_real(s.cached) : json_null());
    pith_json_set(j, "output_tokens", json_real(s.answer));
    pith_json_set(j, "tokens_counted_by",
                  json_string(s.told == r->records ? "usage"
                              : s.told             ? "both"
                                                   : "chunks"));
    pith_json_set(j, "chunks", json_real(s.chunks));
    pith_json_set(j, "chunks_without_text", json_real(s.textless));
    pith_json_set(j, "tokens_per_chunk", pith_json_finite(s.answer / s.chunks));
    pith_json_set(j, "answers_without_chunks", json_integer((json_int_t)s.unseen));
    pith_json_set(j, "answers_shorter_than_asked", json_integer((json_int_t)s.short_of));
    pith_json_set(j, "at_once_mean", pith_json_finite(r->busy / seconds));
    pith_json_set(j, "at_once_most", json_integer((json_int_t)r->most_at_once));
    if (t->goals.any) pith_json_set(j, "goodput", goals_report(t, r));
}

enum pith_status pith_server_load_report_level(const struct pith_server_load *t,
                                               const struct pith_server_level *level,
                                               const struct pith_level_result *r, json_t **list,
                                               struct pith_error *err)
{
    json_t *j = json_object();
    struct pith_quantiles late;
    if (level->clients) pith_json_set(&j, "clients", json_integer((json_int_t)level->clients));
    else if (level->rate > 0) pith_json_set(&j, "rate", json_real(level->rate));
    else pith_json_set(&j, "trace", pith_json_name(t->options->trace));
    add_counts(t, r, &j);
    const enum pith_status s = add_measures(r, &j, err);
    pith_quantiles_of(r->late, r->lates, &late);
    if (r->lates > 0) pith_json_set(&j, "late_seconds", quantiles_report(&late));
    pith_json_add(list, j);
    return s;
}

/* --- the whole -------------------------------------------------------------------------------- */

static json_t *limits_report(const struct pith_goals *g)
{
    json_t *j = json_object();
    for (size_t i = 0; i < PITH_TRAFFIC_LIMITS; i++)
        if (isfinite(g->most[i]))
            pith_json_set(&j, pith_traffic_limits[i].name, json_real(g->most[i]));
    return j;
}

json_t *pith_server_load_report(const struct pith_server_load *t, json_t *levels)
{
    const struct pith_traffic_options *o = t->options;
    json_t *j = json_pack(
        "{s:o, s:s, s:s, s:s, s:s, s:I, s:I, s:f, s:b, s:I}", "url", pith_json_name(o->url),
        "endpoint", t->asking.chat ? "chat" : "completions", "form", t->words.id ? "ids" : "text",
        "prompt", o->trace ? "trace" : o->prompt, "gen", o->trace ? "trace" : o->answer, "prefix",
        (json_int_t)o->prefix, "warmup", (json_int_t)o->warmup, "temperature", o->temperature,
        "ignore_eos", o->ignore_end != 0, "seed", (json_int_t)o->seed);
    if (t->name) pith_json_set(&j, "model", pith_json_name(t->name));
    if (o->rates) pith_json_set(&j, "arrivals", json_string(t->arrivals->name));
    if (o->duration > 0) pith_json_set(&j, "duration", json_real(o->duration));
    if (t->more) pith_json_set(&j, "body", json_incref(t->more));
    if (!t->words.id)
        pith_json_set(&j, "tokens_per_word",
                      t->estimated ? json_null() : json_real(t->words.per_word));
    if (t->goals.any) pith_json_set(&j, "limits", limits_report(&t->goals));
    pith_json_set(&j, "levels", levels);
    return j;
}
