#include "traffic/drive.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/mem.h"
#include "traffic/chunk.h"
#include "traffic/sse.h"

#include <math.h>
#include <string.h>

/* Of an answer that is no stream so much is stored; more can be no answer to such a request. */
enum { PLAIN_MOST = 8 << 20, FLIGHTS_MOST = 60000 };
/* Seconds: between two looks at the listener; that a client waits after one error, after many, and
 * at most when the server says so. */
#define BEAT 0.1
#define PAUSE_LEAST 0.05
#define PAUSE_MOST 2.0
#define PAUSE_STATED_MOST 60.0

struct loop;

/* A client, or where requests come by themselves a place for one. */
struct flight {
    struct loop *loop;
    struct pith_call call;
    struct pith_sse sse;
    struct pith_str body, plain;
    struct pith_planned planned;
    bool busy;
    double began, now, last; /* sent, the latest bytes, the latest chunk that counts */
    double first, pause;
    struct pith_gap *gap; /* of this answer */
    size_t gaps, room;
    uint32_t chunks, textless;
    struct pith_used used;
    bool done, finished;
    char error[200];
    double ready;    /* asks again no sooner */
    unsigned errors; /* one after the other */
};

struct loop {
    const struct pith_drive *d;
    struct pith_level_result *out;
    struct pith_planner planner;
    struct pith_planned next; /* to be sent next, if `more` */
    bool more;
    struct flight **flight;
    size_t flights, room, busy, over;
    double start, end, beat;
    enum pith_status failed; /* within a call of libcurl's */
    struct pith_error why;
};

/* --- reading ---------------------------------------------------------------------------------- */

static void say(struct flight *f, const char *text)
{
    if (!f->error[0]) (void)snprintf(f->error, sizeof f->error, "%.199s", text);
}

static enum pith_status keep_gap(struct flight *f, struct pith_error *err)
{
    void *more = pith_grow(f->gap, f->gaps, &f->room, 64, sizeof *f->gap);
    if (!more) return pith_fail_nomem(err, "what was measured");
    f->gap = more;
    const double wait = f->now - f->last;
    f->gap[f->gaps++] = (struct pith_gap){(float)(f->now - f->loop->start), (float)wait};
    f->pause = f->gaps == 1 ? wait : fmax(f->pause, wait);
    return PITH_OK;
}

static enum pith_status on_event(void *ctx, const struct pith_sse_event *event,
                                 struct pith_error *err)
{
    struct flight *f = ctx;
    struct pith_chunk c;
    if (f->done) return PITH_OK;
    const enum pith_status s = pith_chunk_read(event->data, event->size, &c, err);
    if (s != PITH_OK) return s;
    if (c.error[0] || event->error) say(f, c.error[0] ? c.error : "an error event");
    f->done |= c.done;
    f->finished |= c.finished;
    if (c.used.prompt >= 0 || c.used.answer >= 0) f->used = c.used;
    if (!c.token) return PITH_OK;
    if (f->chunks++ == 0) f->first = f->now - f->began;
    else PITH_TRY(keep_gap(f, err));
    f->textless += !c.text;
    f->last = f->now;
    return PITH_OK;
}

static bool is_good(const struct pith_call *c)
{
    return c->status >= 200 && c->status <= 299;
}

static bool on_data(struct pith_call *call, const char *data, size_t size)
{
    struct flight *f = call->ctx;
    struct pith_error err = {0};
    enum pith_status s = PITH_OK;
    f->now = pith_clock();
    if (is_good(call) && call->stream) {
        s = pith_sse_push(&f->sse, data, size, &err);
    } else if (f->plain.len + size <= PLAIN_MOST) {
        pith_str_append(&f->plain, data, size);
        if (f->plain.failed) s = pith_fail_nomem(&err, "an answer");
    }
    if (s == PITH_NOMEM) {
        f->loop->failed = s;
        f->loop->why = err;
    } else if (s != PITH_OK) {
        say(f, err.text);
    }
    return s == PITH_OK;
}

/* --- asking ----------------------------------------------------------------------------------- */

json_t *pith_traffic_body(const struct pith_traffic_asking *a, json_t *prompt, size_t answer,
                          uint64_t seed)
{
    json_t *j = json_object();
    if (a->model) pith_json_set(&j, "model", json_string(a->model));
    if (a->chat)
        pith_json_set(&j, "messages", json_pack("[{s:s, s:o}]", "role", "user", "content", prompt));
    else pith_json_set(&j, "prompt", prompt);
    pith_json_set(&j, "max_tokens", json_integer((json_int_t)answer));
    pith_json_set(&j, "temperature", json_real(a->temperature));
    if (a->temperature > 0)
        pith_json_set(&j, "seed", json_integer((json_int_t)(seed & 0x7fffffff)));
    pith_json_set(&j, "stream", json_true());
    pith_json_set(&j, "stream_options", json_pack("{s:b}", "include_usage", 1));
    if (a->ignore_end) pith_json_set(&j, "ignore_eos", json_true());
    if (j && a->more && json_object_update(j, (json_t *)(uintptr_t)a->more) != 0) {
        json_decref(j);
        j = NULL;
    }
    return j;
}

static enum pith_status write_body(struct flight *f, struct pith_error *err)
{
    const struct pith_drive *d = f->loop->d;
    json_t *prompt = pith_words_prompt(d->words, f->planned.prompt, f->planned.seed);
    json_t *j = pith_traffic_body(d->asking, prompt, f->planned.answer, f->planned.seed);
    pith_str_clear(&f->body);
    if (j) pith_json_dump(j, JSON_COMPACT, &f->body);
    const bool good = j && !f->body.failed;
    json_decref(j);
    return good ? PITH_OK : pith_fail_nomem(err, "a request");
}

/* Finds the next request that is this driver's. */
static void plan_next(struct loop *l)
{
    const struct pith_drive *d = l->d;
    do {
        l->more = pith_planner_next(&l->planner, &l->next);
        if (d->requests && l->more) l->more = l->next.index < d->requests;
    } while (l->more && d->drivers > 1 && l->next.index % d->drivers != d->driver);
}

/* Sends the next request from here. */
static enum pith_status send_next(struct flight *f, struct pith_error *err)
{
    struct loop *l = f->loop;
    const struct pith_drive *d = l->d;
    f->planned = l->next;
    plan_next(l);
    PITH_TRY(write_body(f, err));
    pith_sse_reset(&f->sse);
    pith_str_clear(&f->plain);
    f->gaps = 0;
    f->chunks = f->textless = 0;
    f->used = (struct pith_used){-1, -1, -1};
    f->done = f->finished = false;
    f->error[0] = '\0';
    f->first = f->pause = (double)NAN;
    f->call.path = d->asking->chat ? "/chat/completions" : "/completions";
    f->call.body = pith_str_text(&f->body);
    f->call.size = f->body.len;
    f->call.take = on_data;
    f->call.ctx = f;
    f->began = f->now = f->last = pith_clock();
    if (d->clients == 0)
        PITH_TRY(pith_level_late(l->out, f->began - l->start - f->planned.at, err));
    PITH_TRY(pith_call_start(d->wire, &f->call, err));
    f->busy = true;
    l->busy++;
    if (l->busy > l->out->most_at_once) l->out->most_at_once = l->busy;
    return PITH_OK;
}

static enum pith_status add_flight(struct loop *l, struct flight **out, struct pith_error *err)
{
    void *more = pith_grow(l->flight, l->flights, &l->room, 16, sizeof *l->flight);
    if (!more) return pith_fail_nomem(err, "connections");
    l->flight = more;
    struct flight *f = pith_zalloc(1, sizeof *f);
    if (!f) return pith_fail_nomem(err, "connections");
    f->loop = l;
    f->sse = (struct pith_sse){.take = on_event, .ctx = f};
    l->flight[l->flights++] = f;
    *out = f;
    return PITH_OK;
}

/* --- answers ---------------------------------------------------------------------------------- */

/* What a server says of a request that it refuses. */
static void read_refusal(struct flight *f)
{
    struct pith_chunk c;
    if (pith_answer_read(pith_str_text(&f->plain), f->plain.len, &c, NULL) == PITH_OK && c.error[0])
        say(f, c.error);
    else say(f, pith_str_text(&f->plain));
}

/* The kind of failure that an answer is; NULL for a good one. */
static const char *judge(struct flight *f, char kind[PITH_KIND_TEXT])
{
    const struct pith_call *c = &f->call;
    struct pith_error err = {0};
    const bool streams = is_good(c) && c->stream;
    if (c->end == PITH_CALL_NOBODY) return "connect";
    if (c->end == PITH_CALL_UNTRUSTED) return "certificate";
    if (c->end == PITH_CALL_REFUSED) return "rubbish";
    if (c->end == PITH_CALL_CUT && !f->done) return "cut";
    if (c->end == PITH_CALL_LATE && !f->done) return "timeout";
    if (!streams) read_refusal(f);
    if (!is_good(c)) {
        (void)snprintf(kind, PITH_KIND_TEXT, "http %ld", c->status);
        return kind;
    }
    if (!streams) return "no stream";
    if (pith_sse_end(&f->sse, &err) != PITH_OK) {
        say(f, err.text);
        return "rubbish";
    }
    if (f->error[0]) return "error in stream";
    return f->done || f->finished ? NULL : "unfinished";
}

static enum pith_status keep(struct flight *f, struct pith_error *err)
{
    struct loop *l = f->loop;
    const int64_t tokens = f->used.answer >= 0 ? f->used.answer : (int64_t)f->chunks;
    const struct pith_record r = {.begun = f->began - l->start,
                                  .first = f->first,
                                  .between = f->chunks > 1 && tokens > 1
                                                 ? (f->last - f->began - f->first) /
                                                       (double)(tokens - 1)
                                                 : (double)NAN,
                                  .pause = f->pause,
                                  .total = f->now - f->began,
                                  .requested_prompt = (uint32_t)f->planned.prompt,
                                  .requested_answer = (uint32_t)f->planned.answer,
                                  .prompt = f->used.prompt,
                                  .answer = f->used.answer,
                                  .cached = f->used.cached,
                                  .chunks = f->chunks,
                                  .textless = f->textless};
    PITH_TRY(pith_level_record(l->out, &r, err));
    if (f->chunks > 0) PITH_TRY(pith_level_first(l->out, r.begun + r.first, err));
    for (size_t i = 0; i < f->gaps; i++)
        PITH_TRY(pith_level_gap(l->out, (double)f->gap[i].at, (double)f->gap[i].wait, err));
    return PITH_OK;
}

static double pause_after(const struct flight *f)
{
    if (f->call.retry_after >= 0)
        return fmin(fmax(f->call.retry_after, PAUSE_LEAST), PAUSE_STATED_MOST);
    return fmin(PAUSE_LEAST * exp2((double)f->errors - 1), PAUSE_MOST);
}

static enum pith_status land(struct flight *f, struct pith_error *err)
{
    struct loop *l = f->loop;
    char text[PITH_KIND_TEXT];
    const char *kind = judge(f, text);
    const double now = pith_clock();
    f->busy = false;
    l->busy--;
    l->over++;
    l->end = now;
    l->out->busy += now - f->began;
    if (!kind) {
        f->errors = 0;
        return keep(f, err);
    }
    if (f->errors < 16) f->errors++;
    f->ready = now + pause_after(f);
    return pith_level_fail(l->out, kind, f->error[0] ? f->error : f->call.message, err);
}

/* --- the loop --------------------------------------------------------------------------------- */

static bool is_open(const struct loop *l, double now)
{
    const struct pith_drive *d = l->d;
    return l->more && (d->duration <= 0 || now - l->start < d->duration);
}

/* Clients that are free ask; *wake is when the next one will be. */
static enum pith_status ask_free(struct loop *l, double now, double *wake, struct pith_error *err)
{
    for (size_t i = 0; i < l->flights && is_open(l, now); i++) {
        struct flight *f = l->flight[i];
        if (f->busy) continue;
        if (f->ready <= now) PITH_TRY(send_next(f, err));
        else *wake = fmin(*wake, f->ready);
    }
    return PITH_OK;
}

static struct flight *find_free(const struct loop *l)
{
    for (size_t i = 0; i < l->flights; i++)
        if (!l->flight[i]->busy) return l->flight[i];
    return NULL;
}

/* Requests whose time has come are sent. */
static enum pith_status ask_due(struct loop *l, double now, double *wake, struct pith_error *err)
{
    while (is_open(l, now)) {
        if (l->start + l->next.at > now) {
            *wake = fmin(*wake, l->start + l->next.at);
            return PITH_OK;
        }
        struct flight *f = l->busy < l->flights ? find_free(l) : NULL;
        if (!f && l->flights == FLIGHTS_MOST)
            return pith_fail(err, PITH_IO,
                             "%d requests are unanswered: the rate is more than the server takes",
                             FLIGHTS_MOST);
        if (!f) PITH_TRY(add_flight(l, &f, err));
        PITH_TRY(send_next(f, err));
    }
    return PITH_OK;
}

static enum pith_status report_progress(struct loop *l, double now, struct pith_error *err)
{
    const struct pith_drive *d = l->d;
    const bool timed = d->duration > 0;
    const size_t all = d->plan->trace ? d->plan->trace->rows : 0;
    const size_t most = d->requests && (!all || d->requests < all) ? d->requests : all;
    if (now < l->beat) return PITH_OK;
    l->beat = now + BEAT;
    return pith_progress_step(d->progress, d->what,
                              timed ? fmin(now - l->start, d->duration) : (double)l->over,
                              timed ? d->duration : (double)most, err);
}

static enum pith_status step(struct loop *l, struct pith_error *err)
{
    const double now = pith_clock();
    double wake = now + BEAT;
    PITH_TRY(report_progress(l, now, err));
    if (l->d->clients) PITH_TRY(ask_free(l, now, &wake, err));
    else PITH_TRY(ask_due(l, now, &wake, err));
    const int ms = (int)(fmax(wake - pith_clock(), 0) * 1e3);
    PITH_TRY(pith_wire_move(l->d->wire, ms, err));
    if (l->failed != PITH_OK) return pith_fail(err, l->failed, "%s", l->why.text);
    for (size_t i = 0; i < l->flights; i++) {
        struct flight *f = l->flight[i];
        if (f->busy && f->call.over) PITH_TRY(land(f, err));
    }
    return PITH_OK;
}

static enum pith_status fly(struct loop *l, struct pith_error *err)
{
    struct flight *f;
    for (size_t i = 0; i < l->d->clients; i++) PITH_TRY(add_flight(l, &f, err));
    l->start = l->end = pith_clock();
    while (l->busy > 0 || is_open(l, pith_clock())) PITH_TRY(step(l, err));
    l->out->seconds = l->end - l->start;
    return PITH_OK;
}

static void free_flights(struct loop *l)
{
    for (size_t i = 0; i < l->flights; i++) {
        struct flight *f = l->flight[i];
        pith_call_close(&f->call);
        pith_sse_free(&f->sse);
        pith_str_free(&f->body);
        pith_str_free(&f->plain);
        pith_free(f->gap);
        pith_free(f);
    }
    pith_free(l->flight);
}

enum pith_status pith_drive_run(const struct pith_drive *drive, struct pith_level_result *out,
                                struct pith_error *err)
{
    struct loop l = {.d = drive, .out = out};
    *out = (struct pith_level_result){0};
    pith_planner_begin(&l.planner, drive->plan);
    plan_next(&l);
    const enum pith_status s = fly(&l, err);
    free_flights(&l);
    if (s != PITH_OK) pith_level_free(out);
    return s;
}

/* --- single questions ------------------------------------------------------------------------- */

static bool take_plain(struct pith_call *call, const char *data, size_t size)
{
    struct pith_str *s = call->ctx;
    if (s->len + size > PLAIN_MOST) return false;
    pith_str_append(s, data, size);
    return !s->failed;
}

enum pith_status pith_drive_ask(struct pith_wire *wire, const struct pith_plain_call *question,
                                struct pith_str *answer, long *status, struct pith_error *err)
{
    struct pith_str text = {0};
    struct pith_call call = {.path = question->path, .take = take_plain, .ctx = answer};
    if (question->body) {
        pith_json_dump(question->body, JSON_COMPACT, &text);
        call.body = pith_str_text(&text);
        call.size = text.len;
    }
    enum pith_status s = text.failed ? pith_fail_nomem(err, "a request")
                                     : pith_call_start(wire, &call, err);
    while (s == PITH_OK && !call.over) {
        s = pith_wire_move(wire, 100, err);
        if (s == PITH_OK)
            s = pith_progress_step(question->progress, "asking the server", 0, 0, err);
    }
    pith_call_close(&call);
    pith_str_free(&text);
    *status = call.status;
    if (s == PITH_OK && call.end != PITH_CALL_DONE)
        s = pith_fail(err, PITH_IO, "no answer to %s: %s", question->path,
                      call.end == PITH_CALL_REFUSED ? "it is too long" : call.message);
    if (s != PITH_OK) pith_str_free(answer);
    return s;
}
