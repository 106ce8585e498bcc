#include "traffic/plan.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* Bytes of a trace's file; tokens of one request; seconds of a trace. */
enum { TRACE_MOST = 1 << 30, TOKENS_MOST = 1 << 24 };
#define SECONDS_MOST 1e7

/* --- traces ----------------------------------------------------------------------------------- */

/* Names that a trace's columns go by, and what they are multiplied by. */
struct column {
    const char *name;
    double unit;
};
static const struct column times[] = {{"time", 1}, {"timestamp", 1e-3}};
static const struct column prompts[] = {{"prompt", 1}, {"prompt_tokens", 1}, {"input_length", 1}};
static const struct column answers[] = {{"answer", 1}, {"answer_tokens", 1}, {"output_length", 1}};

/* The first of some columns that is there; NaN without. */
static double value_of(const json_t *j, const struct column *columns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_object_get(j, columns[i].name);
        if (json_is_number(v)) return json_number_value(v) * columns[i].unit;
    }
    return (double)NAN;
}

static enum pith_status read_row(const char *line, size_t size, struct pith_planned *out,
                                 struct pith_error *err)
{
    json_t *j;
    PITH_TRY(pith_json_parse(line, size, "a row", &j, err));
    const double at = value_of(j, times, PITH_COUNT(times));
    const double prompt = value_of(j, prompts, PITH_COUNT(prompts));
    const double answer = value_of(j, answers, PITH_COUNT(answers));
    json_decref(j);
    if (!(at >= 0 && at <= SECONDS_MOST))
        return pith_fail(err, PITH_FORMAT,
                         "a row needs \"time\" in seconds, or \"timestamp\" in "
                         "milliseconds, from 0 on");
    if (!(prompt >= 0 && prompt <= TOKENS_MOST && answer >= 0 && answer <= TOKENS_MOST))
        return pith_fail(err, PITH_FORMAT, "a row needs \"prompt\" and \"answer\" in tokens");
    *out = (struct pith_planned){
        .at = at, .prompt = (size_t)fmax(prompt, 1), .answer = (size_t)fmax(answer, 1)};
    return PITH_OK;
}

static enum pith_status add_row(struct pith_trace *t, size_t *room, const struct pith_planned *row,
                                struct pith_error *err)
{
    if (t->rows > 0 && row->at < t->row[t->rows - 1].at)
        return pith_fail(err, PITH_FORMAT, "its time is before that of the row above");
    void *more = pith_grow(t->row, t->rows, room, 64, sizeof *t->row);
    if (!more) return pith_fail_nomem(err, "a trace");
    t->row = more;
    t->row[t->rows] = *row;
    t->row[t->rows].index = t->rows;
    t->rows++;
    return PITH_OK;
}

enum pith_status pith_trace_parse(const char *text, size_t size, const char *where,
                                  struct pith_trace *out, struct pith_error *err)
{
    enum pith_status s = PITH_OK;
    size_t room = 0, number = 0;
    *out = (struct pith_trace){0};
    for (size_t at = 0; at < size && s == PITH_OK;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t n = end ? (size_t)(end - text) - at : size - at;
        struct pith_planned row;
        number++;
        if (!pith_is_blank(text + at, n)) {
            s = read_row(text + at, n, &row, err);
            if (s == PITH_OK) s = add_row(out, &room, &row, err);
        }
        at += n + 1;
    }
    if (s == PITH_OK && out->rows == 0) s = pith_fail(err, PITH_FORMAT, "it has no rows");
    if (s == PITH_OK) return PITH_OK;
    char prefix[300];
    (void)snprintf(prefix, sizeof prefix, "%.200s, line %zu", where, number);
    pith_trace_free(out);
    return pith_fail_in(err, s, prefix);
}

enum pith_status pith_trace_read(const char *path, struct pith_trace *out, struct pith_error *err)
{
    char *text;
    size_t size;
    *out = (struct pith_trace){0};
    PITH_TRY(pith_file_read(path, TRACE_MOST, &text, &size, err));
    const enum pith_status s = pith_trace_parse(text, size, path, out, err);
    pith_free(text);
    return s;
}

void pith_trace_free(struct pith_trace *trace)
{
    pith_free(trace->row);
    *trace = (struct pith_trace){0};
}

/* --- plans ------------------------------------------------------------------------------------ */

/* Streams of one seed that have nothing to do with each other. */
enum stream { LENGTHS = 1, GAPS, PROMPTS };

static void begin_stream(struct pith_rng *rng, uint64_t seed, uint64_t stream, uint64_t level)
{
    pith_rng_seed(rng, seed);
    const uint64_t mixed = pith_rng_next(rng);
    pith_rng_seed(rng, mixed + UINT64_C(0x9E3779B97F4A7C15) * (stream + 4 * level));
}

void pith_planner_begin(struct pith_planner *p, const struct pith_plan_options *options)
{
    *p = (struct pith_planner){.options = options};
    begin_stream(&p->lengths, options->seed, LENGTHS, 0);
    begin_stream(&p->gaps, options->seed, GAPS, 0);
    begin_stream(&p->prompts, options->seed, PROMPTS, options->level);
}

bool pith_planner_next(struct pith_planner *p, struct pith_planned *out)
{
    const struct pith_plan_options *o = p->options;
    if (o->trace) {
        if (p->next >= o->trace->rows) return false;
        *out = o->trace->row[p->next];
    } else {
        if (o->rate > 0) p->at += o->arrivals->gap(&p->gaps) / o->rate;
        *out = (struct pith_planned){.at = p->at};
        out->prompt = pith_lengths_draw(&o->prompt, &p->lengths);
        out->answer = pith_lengths_draw(&o->answer, &p->lengths);
    }
    out->index = p->next++;
    out->seed = pith_rng_next(&p->prompts);
    return true;
}
