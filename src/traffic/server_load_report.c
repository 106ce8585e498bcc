/* What pith_traffic() measured, as a report. */
#include "traffic/server_load.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Columns of a histogram, and moments of a level's course. */
enum { BINS = 32, MOMENTS = 60 };

static void set_quantiles(struct pith_report *r, const char *key, const struct pith_quantiles *q)
{
    pith_report_open(r, key);
    pith_report_set(r, "n", pith_count(q->n));
    pith_report_set(r, "mean", pith_real(q->mean, 6));
    pith_report_set(r, "p50", pith_real(q->p50, 6));
    pith_report_set(r, "p90", pith_real(q->p90, 6));
    pith_report_set(r, "p99", pith_real(q->p99, 6));
    pith_report_set(r, "least", pith_real(q->least, 6));
    pith_report_set(r, "most", pith_real(q->most, 6));
    pith_report_close(r);
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

static void set_bins(struct pith_report *to, const char *key, const struct bins *b)
{
    pith_report_open(to, key);
    pith_report_list(to, "from");
    for (size_t i = 0; i <= BINS; i++) pith_report_set(to, "", pith_real(edge(b, i), 6));
    pith_report_close(to);
    pith_report_list(to, "counts");
    for (size_t i = 0; i < BINS; i++) pith_report_set(to, "", pith_count(b->count[i]));
    pith_report_close(to);
    pith_report_set(to, "log", pith_yes(b->log));
    pith_report_close(to);
}

static struct bins member_bins(const struct pith_level_result *r, size_t offset,
                               const struct pith_quantiles *q)
{
    struct bins b = bins_over(q);
    for (size_t i = 0; i < r->records; i++) {
        double x;
        memcpy(&x, (const char *)&r->record[i] + offset, sizeof x);
        if (!isnan(x)) count(&b, x);
    }
    return b;
}

static struct bins gap_bins(const struct pith_level_result *r, const struct pith_quantiles *q)
{
    struct pith_quantiles cut = *q;
    if (cut.least < 1e-5) cut.least = fmin(1e-5, cut.most / 2); /* chunks that came together */
    struct bins b = bins_over(&cut);
    for (size_t i = 0; i < r->gaps; i++) count(&b, fmax((double)r->gap[i].wait, b.from));
    return b;
}

/* Chunks a second over the level's time. */
static void set_course(struct pith_report *to, const struct pith_level_result *r)
{
    double chunks[MOMENTS] = {0};
    const double width = fmax(r->seconds, 1e-3) / MOMENTS;
    for (size_t i = 0; i < r->gaps; i++)
        chunks[(size_t)fmin(fmax((double)r->gap[i].at / width, 0), MOMENTS - 1)]++;
    for (size_t i = 0; i < r->firsts; i++)
        chunks[(size_t)fmin(fmax((double)r->first_at[i] / width, 0), MOMENTS - 1)]++;
    pith_report_open(to, "course");
    pith_report_set(to, "width_seconds", pith_real(width, 6));
    pith_report_list(to, "chunks_per_second");
    for (size_t i = 0; i < MOMENTS; i++) pith_report_set(to, "", pith_real(chunks[i] / width, 3));
    pith_report_close(to);
    pith_report_close(to);
}

/* --- measures --------------------------------------------------------------------------------- */

/* What is reported of each request, by the key of the report. */
enum { FIRST, TOKEN, PAUSE, TOTAL, MEASURES };
static const struct {
    const char *key;
    size_t offset;
} measures[MEASURES] = {
    [FIRST] = {"first_token_seconds", offsetof(struct pith_record, first)},
    [TOKEN] = {"token_seconds", offsetof(struct pith_record, between)},
    [PAUSE] = {"pause_seconds", offsetof(struct pith_record, pause)},
    [TOTAL] = {"total_seconds", offsetof(struct pith_record, total)},
};

/* The quantiles of a level. */
struct spreads {
    struct pith_quantiles of[MEASURES], gaps, late;
};

static enum pith_status find_spreads(const struct pith_level_result *r, struct spreads *q,
                                     struct pith_error *err)
{
    for (size_t i = 0; i < MEASURES; i++)
        PITH_TRY(pith_quantiles_member(r, measures[i].offset, &q->of[i], err));
    pith_quantiles_of(r->late, r->lates, &q->late);
    return pith_quantiles_gaps(r, &q->gaps, err);
}

static void set_measures(struct pith_report *to, const struct pith_level_result *r,
                         const struct spreads *q)
{
    for (size_t i = 0; i < MEASURES; i++) set_quantiles(to, measures[i].key, &q->of[i]);
    set_quantiles(to, "between_seconds", &q->gaps);
    pith_report_open(to, "histograms");
    for (size_t i = 0; i < MEASURES; i++) {
        if (q->of[i].n == 0) continue;
        const struct bins b = member_bins(r, measures[i].offset, &q->of[i]);
        set_bins(to, measures[i].key, &b);
    }
    if (q->gaps.n > 0) {
        const struct bins b = gap_bins(r, &q->gaps);
        set_bins(to, "between_seconds", &b);
    }
    pith_report_close(to);
    set_course(to, r);
}

/* --- counts ----------------------------------------------------------------------------------- */

struct sums {
    double prompt, cached, answer, requested_prompt, chunks, textless;
    size_t counted, counted_cached, unseen,
        short_of; /* answers that the server counts, and so on */
};

static struct sums sums_of(const struct pith_level_result *r)
{
    struct sums s = {0};
    for (size_t i = 0; i < r->records; i++) {
        const struct pith_record *x = &r->record[i];
        s.counted += x->answer >= 0;
        s.counted_cached += x->cached >= 0;
        s.answer += x->answer >= 0 ? (double)x->answer : (double)x->chunks;
        s.prompt += x->prompt >= 0 ? (double)x->prompt : 0;
        s.cached += x->cached >= 0 ? (double)x->cached : 0;
        s.requested_prompt += (double)x->requested_prompt;
        s.chunks += (double)x->chunks;
        s.textless += (double)x->textless;
        s.unseen += x->chunks == 0;
        s.short_of += (x->answer >= 0 ? x->answer : (int64_t)x->chunks) <
                      (int64_t)x->requested_answer;
    }
    return s;
}

static void set_failures(struct pith_report *to, const struct pith_level_result *r)
{
    pith_report_list(to, "failures");
    for (size_t i = 0; i < r->failures; i++) {
        const struct pith_failure_kind *f = &r->failure[i];
        pith_report_open(to, "");
        pith_report_set(to, "kind", pith_words(f->kind));
        pith_report_set(to, "count", pith_count(f->count));
        pith_report_set(to, "example", pith_words(f->example));
        pith_report_close(to);
    }
    pith_report_close(to);
}

/* Answers that keep all limits, and those that miss each. */
struct goodput {
    size_t missed[PITH_TRAFFIC_LIMITS], good;
    double share;
};

static struct goodput goodput_of(const struct pith_server_load *t,
                                 const struct pith_level_result *r)
{
    struct goodput g = {0};
    for (size_t k = 0; k < r->records; k++) {
        bool met = true;
        for (size_t i = 0; i < PITH_TRAFFIC_LIMITS; i++) {
            const bool this = pith_goal_met(&t->goals, i, &r->record[k]);
            g.missed[i] += !this;
            met = met && this;
        }
        g.good += met;
    }
    g.share = (double)g.good / (double)(r->records + pith_level_failed(r));
    return g;
}

static void set_goodput(struct pith_report *to, const struct pith_server_load *t,
                        const struct goodput *g, double seconds)
{
    pith_report_open(to, "goodput");
    pith_report_set(to, "good", pith_count(g->good));
    pith_report_set(to, "share", pith_share(g->share, 1));
    pith_report_set(to, "requests_per_second", pith_real((double)g->good / seconds, 2));
    pith_report_open(to, "missed");
    for (size_t i = 0; i < PITH_TRAFFIC_LIMITS; i++)
        if (isfinite(t->goals.most[i]))
            pith_report_set(to, pith_traffic_limits[i].name, pith_count(g->missed[i]));
    pith_report_close(to);
    pith_report_close(to);
}

static const char *counted_by(const struct sums *s, const struct pith_level_result *r)
{
    return s->counted == r->records ? "usage" : s->counted ? "both" : "chunks";
}

static double wanted(const struct pith_server_load *t, const struct sums *s,
                     const struct pith_level_result *r)
{
    return s->requested_prompt + (double)(t->words.prefix * r->records);
}

/* A sum of counts. */
static struct pith_value sum(double x)
{
    return pith_whole((int64_t)x);
}

static void set_counts(struct pith_report *to, const struct pith_server_load *t,
                       const struct pith_level_result *r, const struct sums *s)
{
    const double seconds = r->seconds;
    const size_t failed = pith_level_failed(r);
    pith_report_set(to, "requests", pith_count(r->records + failed));
    pith_report_set(to, "answered", pith_count(r->records));
    pith_report_set(to, "failed", pith_count(failed));
    set_failures(to, r);
    pith_report_set(to, "seconds", pith_real(seconds, 3));
    pith_report_set(to, "requests_per_second", pith_real((double)r->records / seconds, 2));
    pith_report_set(to, "output_tokens_per_second", pith_real(s->answer / seconds, 1));
    pith_report_set(to, "prompt_tokens_per_second", pith_real(s->prompt / seconds, 1));
    pith_report_set(to, "prompt_tokens", sum(s->prompt));
    pith_report_set(to, "prompt_tokens_wanted", sum(wanted(t, s, r)));
    pith_report_set(to, "cached_tokens", s->counted_cached ? sum(s->cached) : pith_words(NULL));
    pith_report_set(to, "output_tokens", sum(s->answer));
    pith_report_set(to, "tokens_counted_by", pith_words(counted_by(s, r)));
    pith_report_set(to, "chunks", sum(s->chunks));
    pith_report_set(to, "chunks_without_text", sum(s->textless));
    pith_report_set(to, "tokens_per_chunk", pith_real(s->answer / s->chunks, 2));
    pith_report_set(to, "answers_without_chunks", pith_count(s->unseen));
    pith_report_set(to, "answers_shorter_than_asked", pith_count(s->short_of));
    pith_report_set(to, "at_once_mean", pith_real(r->busy / seconds, 2));
    pith_report_set(to, "at_once_most", pith_count(r->most_at_once));
}

/* --- the text of a level ---------------------------------------------------------------------- */

/* One quantile; "-" where nothing was seen. */
static void quantile_cell(struct pith_table *t, double x, double unit)
{
    if (isfinite(x)) pith_table_printf(t, unit > 1 ? "%.1f" : "%.2f", x * unit);
    else pith_table_text(t, "-");
}

/* A rate or a share of nothing is 0 in the table. */
static double of_something(double x)
{
    return isfinite(x) ? x : 0;
}

static void put_level(struct pith_table *t, const struct pith_server_level *l, const char *trace,
                      const struct pith_level_result *r, const struct spreads *q,
                      const struct sums *s)
{
    pith_table_row(t);
    if (l->clients) pith_table_printf(t, "%zu", l->clients);
    else if (l->rate > 0) pith_table_printf(t, "%g", l->rate);
    else pith_table_text(t, trace);
    pith_table_printf(t, "%zu", r->records);
    pith_table_printf(t, "%zu", pith_level_failed(r));
    pith_table_printf(t, "%.1f", of_something(s->answer / r->seconds));
    pith_table_printf(t, "%.2f", of_something((double)r->records / r->seconds));
    quantile_cell(t, q->of[FIRST].p50, 1e3);
    quantile_cell(t, q->of[FIRST].p90, 1e3);
    quantile_cell(t, q->of[FIRST].p99, 1e3);
    quantile_cell(t, q->of[TOKEN].p50, 1e3);
    quantile_cell(t, q->of[TOKEN].p99, 1e3);
    quantile_cell(t, q->gaps.p99, 1e3);
    quantile_cell(t, q->of[TOTAL].p50, 1);
    quantile_cell(t, q->of[TOTAL].p99, 1);
}

/* A line about one level: "  clients 4: " stands before it. */
static struct pith_line line_of(const struct pith_server_level *l, char lead[48])
{
    if (l->clients) snprintf(lead, 48, "  clients %zu: ", l->clients);
    else if (l->rate > 0) snprintf(lead, 48, "  rate %g: ", l->rate);
    else snprintf(lead, 48, "  ");
    return (struct pith_line){.lead = lead, .wrap = PITH_WRAP_TERMINAL, .indent = 4};
}

/* What makes numbers mean something else than they seem to. */
static void say_notes(struct pith_report *to, const struct pith_line *line,
                      const struct pith_level_result *r, const struct spreads *q,
                      const struct sums *s)
{
    const double chunk = s->answer / s->chunks, late = q->late.p99;
    if (r->records == 0) return;
    if (s->cached > 0.01 * s->prompt)
        pith_report_line(to, line, "%.1f%% of the prompts' tokens came from the server's cache",
                         100 * s->cached / s->prompt);
    if (!(fabs(chunk - 1) <= 0.02))
        pith_report_line(
            to, line,
            "a chunk is %.2f tokens: gaps are between chunks, the mean time of a token is by the "
            "server's count",
            isfinite(chunk) ? chunk : 0);
    if (s->counted != r->records)
        pith_report_line(to, line, "%s", "the server does not count tokens: chunks are counted");
    if (r->lates > 0 && late > 0.01)
        pith_report_line(
            to, line,
            "one request in a hundred was sent %.0f ms after its time or later: this program did "
            "not keep up",
            late * 1e3);
}

static void say_level(struct pith_report *to, const struct pith_server_level *l,
                      const struct pith_level_result *r, const struct spreads *q,
                      const struct sums *s)
{
    char lead[48];
    const struct pith_line line = line_of(l, lead);
    for (size_t i = 0; i < r->failures; i++) {
        const struct pith_failure_kind *f = &r->failure[i];
        pith_report_line(to, &line, "%zu failed: %s%s%s", f->count, f->kind,
                         *f->example ? ": " : "", f->example);
    }
    say_notes(to, &line, r, q, s);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void set_limits(struct pith_report *to, const struct pith_goals *g)
{
    pith_report_open(to, "limits");
    for (size_t i = 0; i < PITH_TRAFFIC_LIMITS; i++)
        if (isfinite(g->most[i]))
            pith_report_set(to, pith_traffic_limits[i].name, pith_real(g->most[i], 3));
    pith_report_close(to);
}

static void set_load(struct pith_report *to, const struct pith_server_load *t)
{
    const struct pith_traffic_options *o = t->options;
    pith_report_set(to, "url", pith_words(o->url));
    pith_report_set(to, "endpoint", pith_words(t->asking.chat ? "chat" : "completions"));
    pith_report_set(to, "form", pith_words(t->words.id ? "ids" : "text"));
    pith_report_set(to, "prompt", pith_words(o->trace ? "trace" : o->prompt));
    pith_report_set(to, "gen", pith_words(o->trace ? "trace" : o->answer));
    pith_report_set(to, "prefix", pith_count(o->prefix));
    pith_report_set(to, "warmup", pith_count(o->warmup));
    pith_report_set(to, "temperature", pith_real(o->temperature, 2));
    pith_report_set(to, "ignore_eos", pith_yes(o->ignore_end != 0));
    pith_report_set(to, "seed", pith_count(o->seed));
    if (t->name) pith_report_set(to, "model", pith_words(t->name));
    if (o->rates) pith_report_set(to, "arrivals", pith_words(t->arrivals->name));
    if (o->duration > 0) pith_report_set(to, "duration", pith_real(o->duration, 1));
    if (t->more) pith_report_set(to, "body", pith_tree(json_incref(t->more)));
    if (!t->words.id)
        pith_report_set(to, "tokens_per_word",
                        t->estimated ? pith_words(NULL) : pith_real(t->words.per_word, 3));
    if (t->goals.any) set_limits(to, &t->goals);
}

struct pith_report *pith_server_load_report(const struct pith_server_load *t)
{
    const struct pith_traffic_options *o = t->options;
    struct pith_report *to = pith_report_new();
    if (!to) return NULL;
    pith_report_paged(to, pith_page_traffic);
    pith_report_judge(to, false); /* until something is answered */
    set_load(to, t);
    pith_report_line(to, &(struct pith_line){.strong = o->url}, ": model %s, %s, seed %zu",
                     t->name ? t->name : "", t->asking.chat ? "chat" : "completions", o->seed);
    pith_report_list(to, "levels");
    return to;
}

/* The first level's lengths, and the table that it begins. */
static struct pith_table *begin_levels(struct pith_report *to, const struct pith_server_load *t,
                                       const struct pith_level_result *r,
                                       const struct sums *s)
{
    static const char *const titles[] = {"answered", "failed",  "tokens/s", "requests/s",
                                         "first ms", "p90",     "p99",      "token ms",
                                         "p99",      "gap p99", "total s",  "p99"};
    const struct pith_traffic_options *o = t->options;
    const double n = (double)r->records;
    if (r->records > 0)
        pith_report_line(
            to, &(struct pith_line){.lead = "  ", .wrap = PITH_WRAP_TERMINAL, .indent = 4},
            "prompts: %s (requested %.0f tokens on average, were %.1f), answers: %s (were %.1f)",
            o->trace ? "trace" : o->prompt, wanted(t, s, r) / n, s->prompt / n,
            o->trace ? "trace" : o->answer, s->answer / n);
    pith_report_gap(to);
    struct pith_table *table = pith_report_add_table(to, PITH_DETAIL_ANY);
    const char *first = o->trace ? "trace" : o->rates ? "rate" : "clients";
    pith_table_column(table, first, NULL, PITH_CELL_TEXT);
    for (size_t i = 0; i < PITH_COUNT(titles); i++)
        pith_table_column(table, titles[i], NULL, PITH_CELL_NUMBER);
    if (t->goals.any) pith_table_column(table, "good %", NULL, PITH_CELL_NUMBER);
    return table;
}

enum pith_status pith_server_load_report_level(struct pith_server_load *t,
                                               const struct pith_server_level *level,
                                               const struct pith_level_result *r,
                                               struct pith_report *to, struct pith_error *err)
{
    struct spreads q;
    const struct sums s = sums_of(r);
    const struct goodput g = goodput_of(t, r);
    PITH_TRY(find_spreads(r, &q, err));
    if (!t->table) t->table = begin_levels(to, t, r, &s);
    if (r->records) pith_report_judge(to, true);
    put_level(t->table, level, t->options->trace, r, &q, &s);
    if (t->goals.any) pith_table_printf(t->table, "%.1f", of_something(100 * g.share));
    pith_report_open(to, "");
    if (level->clients) pith_report_set(to, "clients", pith_count(level->clients));
    else if (level->rate > 0) pith_report_set(to, "rate", pith_real(level->rate, 2));
    else pith_report_set(to, "trace", pith_words(t->options->trace));
    set_counts(to, t, r, &s);
    if (t->goals.any) set_goodput(to, t, &g, r->seconds);
    set_measures(to, r, &q);
    if (r->lates > 0) set_quantiles(to, "late_seconds", &q.late);
    pith_report_close(to);
    say_level(to, level, r, &q, &s);
    return PITH_OK;
}
