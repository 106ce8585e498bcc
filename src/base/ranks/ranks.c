#include "base/ranks/ranks.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/ranks/hops.h"
#include "base/ranks/link.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct pith_ranks {
    void *object;
    const struct pith_link *link;
    struct pith_progress beat;
    unsigned own, count;
    struct pith_rank_pace pace;
    bool pinged, answered; /* whether rank 0 is there */
    bool failed;           /* here or elsewhere: no message is on its way any more */
    enum pith_status status;
    struct pith_error why; /* as it was reported */
};

unsigned pith_ranks_count(const struct pith_ranks *r)
{
    return r ? r->count : 1;
}

unsigned pith_ranks_own(const struct pith_ranks *r)
{
    return r ? r->own : 0;
}

/* MPI looks for parts of itself among the symbols of the whole program. */
static enum pith_status load(const char *object, struct pith_ranks *r, struct pith_error *err)
{
    r->object = dlopen(object, RTLD_NOW | RTLD_GLOBAL);
    if (!r->object) {
        const char *why = dlerror();
        return pith_fail(err, PITH_UNSUPPORTED, "%s cannot be loaded: %s", object,
                         why ? why : "no reason is known");
    }
    r->link = dlsym(r->object, PITH_LINK);
    if (r->link && r->link->version == PITH_LINK_VERSION) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "%s is not of this version of pith", object);
}

enum pith_status pith_ranks_open(const char *object, const struct pith_progress *beat,
                                 struct pith_ranks **out, struct pith_error *err)
{
    char why[256] = "";
    struct pith_ranks *r = pith_zalloc(1, sizeof *r);
    if (!r) return pith_fail_nomem(err, "the ranks");
    if (beat) r->beat = *beat;
    r->count = 1;
    enum pith_status s = load(object, r, err);
    if (s == PITH_OK && r->link->open(&r->own, &r->count, why, sizeof why) != 0)
        s = pith_fail(err, PITH_IO, "MPI does not start: %s", why);
    if (s == PITH_OK) {
        *out = r;
        return PITH_OK;
    }
    if (r->object) dlclose(r->object);
    pith_free(r);
    return s;
}

/* The object stays loaded: MPI leaves handlers behind that are in it. */
void pith_ranks_close(struct pith_ranks *r)
{
    if (!r) return;
    const bool good = r->pinged ? r->answered : !r->failed;
    r->link->close(good ? PITH_LINK_GOOD : r->pinged ? PITH_LINK_PINGED : PITH_LINK_FAILED);
    pith_free(r);
}

bool pith_ranks_answer(struct pith_ranks *r)
{
    enum { MILLISECONDS = 300 }; /* launchers leave a second between asking a rank and killing it */
    if (pith_ranks_alone(r) || pith_ranks_first(r)) return true;
    if (!r->pinged) r->answered = r->link->answers(MILLISECONDS) != 0;
    r->pinged = true;
    return r->answered;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static enum pith_status fail_alerted(const struct pith_ranks *r, struct pith_error *err)
{
    return pith_fail(err, r->status, "%s", r->why.text);
}

/* Whether another rank has failed. */
static bool look(struct pith_ranks *r)
{
    struct pith_distress d;
    unsigned from;
    if (!r->failed && r->link->alerted(&d, &from)) {
        d.text[sizeof d.text - 1] = '\0';
        r->failed = true;
        r->status = d.status > PITH_OK && d.status <= PITH_LENGTH ? (enum pith_status)d.status
                                                                  : PITH_IO;
        if (r->status == PITH_INTERRUPTED) (void)pith_fail(&r->why, r->status, "%s", d.text);
        else (void)pith_fail(&r->why, r->status, "rank %u: %s", from, d.text);
    }
    return r->failed;
}

/* Asks every waiting-time of about that many tries. Until then nobody naps: a message may be on its
 * way, and between ranks of one machine it moves when it is polled. */
static enum pith_status pause_a_little(const struct pith_ranks *r, unsigned tries, double then,
                                       struct pith_error *err)
{
    enum { BUSY = 200, BEAT = 256 };
    const struct timespec nap = {.tv_nsec = 50000};
    if (tries < BUSY) return PITH_OK;
    if (pith_clock() < then) (void)sched_yield();
    else nanosleep(&nap, NULL);
    return tries % BEAT ? PITH_OK
                        : pith_progress_step(&r->beat, "waiting for the other ranks", 0, 1, err);
}

static enum pith_status wait_for(struct pith_ranks *r, struct pith_flight *f, size_t bytes,
                                 struct pith_error *err)
{
    const double slow = 5e8; /* bytes a second */
    const double then = pith_clock() + (double)bytes / slow;
    enum pith_status s = PITH_OK;
    for (unsigned tries = 0; s == PITH_OK; tries++) {
        const int done = r->link->done(f);
        if (done > 0) return PITH_OK;
        if (done < 0) return pith_fail(err, PITH_IO, "a message between ranks was lost");
        if (tries % 16 == 0 && look(r)) s = fail_alerted(r, err);
        if (s == PITH_OK) s = pause_a_little(r, tries, then, err);
    }
    r->link->drop(f);
    return s;
}

struct pith_rank_pace pith_ranks_pace(const struct pith_ranks *r)
{
    return r ? r->pace : (struct pith_rank_pace){0};
}

unsigned pith_ranks_slowest(const double *seconds, unsigned count, double *median)
{
    unsigned slowest = 0;
    *median = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned below = 0; /* it, and equal ones before it, aside */
        for (unsigned k = 0; k < count; k++)
            below += seconds[k] < seconds[i] || (seconds[k] == seconds[i] && k < i);
        if (below == (count - 1) / 2) *median = seconds[i];
        if (seconds[i] > seconds[slowest]) slowest = i;
    }
    const double over = count ? seconds[slowest] - *median : 0;
    return over > 0.5 * *median && over > 0.5 ? slowest : count;
}

/* Messages that are under way together: one in, one out. */
struct flights {
    struct pith_flight flight[2];
    size_t bytes[2];
    unsigned count;
};

struct message {
    enum pith_flight_kind kind;
    unsigned rank;
    char *data;
    size_t bytes;
};

static enum pith_status begin(struct pith_ranks *r, const struct message *m, struct flights *f,
                              struct pith_error *err)
{
    if (m->bytes == 0) return PITH_OK;
    if (m->kind == PITH_FLIGHT_IN) r->pace.received += m->bytes;
    struct pith_flight *one = &f->flight[f->count];
    *one = (struct pith_flight){{NULL}};
    if (r->link->begin(m->kind, m->rank, m->data, m->bytes, one) != 0)
        return pith_fail(err, PITH_IO, "a message between ranks cannot be sent");
    f->bytes[f->count++] = m->bytes;
    return PITH_OK;
}

/* Until all are done, or one fails: then s is a failure already, or becomes one. */
static enum pith_status land(struct pith_ranks *r, struct flights *f, enum pith_status s,
                             struct pith_error *err)
{
    for (unsigned i = 0; i < f->count; i++)
        if (s == PITH_OK) s = wait_for(r, &f->flight[i], f->bytes[i], err);
        else r->link->drop(&f->flight[i]);
    return s;
}

static enum pith_status carry(struct pith_ranks *r, enum pith_flight_kind kind, unsigned rank,
                              void *data, size_t bytes, struct pith_error *err)
{
    if (pith_ranks_alone(r) || bytes == 0) return PITH_OK;
    if (look(r)) return fail_alerted(r, err);
    const double start = pith_clock();
    for (size_t at = 0, n; at < bytes; at += n) {
        struct flights f = {.count = 0};
        n = bytes - at < PITH_LINK_MOST ? bytes - at : PITH_LINK_MOST;
        const struct message m = {kind, rank, (char *)data + at, n};
        const enum pith_status s = begin(r, &m, &f, err);
        PITH_TRY(land(r, &f, s, err));
    }
    r->pace.waited += pith_clock() - start;
    return PITH_OK;
}

/* The n-th piece of a hop, of `most` bytes at most; 0 behind the last. */
static size_t piece(const struct pith_hop *hop, size_t most, size_t n, size_t *first)
{
    for (int i = 0; i < 2; i++) {
        const size_t bytes = hop->run[i].end - hop->run[i].first;
        const size_t count = (bytes + most - 1) / most;
        if (n < count) {
            *first = hop->run[i].first + n * most;
            return n + 1 < count ? most : bytes - n * most;
        }
        n -= count;
    }
    return 0;
}

/* A round of a spread: what comes, of[0], and what goes, of[1]; so many pieces at a time that
 * neither way waits for the other, and one of the two is no further ahead. */
static enum pith_status hop(struct pith_ranks *r, const struct pith_hop of[2], char *data,
                            struct pith_error *err)
{
    enum { WINDOW = 16 };
    static const enum pith_flight_kind kinds[] = {PITH_FLIGHT_IN, PITH_FLIGHT_OUT};
    const size_t most = pith_hops_cross(&of[0], &of[1]) ? PITH_HOPS_PIECE : PITH_LINK_MOST;
    struct flights window[WINDOW] = {0};
    enum pith_status s = PITH_OK;
    size_t n = 0;
    for (bool more = true; more && s == PITH_OK; n++) {
        struct flights *f = &window[n % WINDOW];
        more = false;
        s = land(r, f, s, err);
        f->count = 0;
        for (int i = 0; i < 2 && s == PITH_OK; i++) {
            size_t first = 0;
            const size_t bytes = piece(&of[i], most, n, &first);
            s = begin(r, &(struct message){kinds[i], of[i].from, data + first, bytes}, f, err);
            more = more || bytes > 0;
        }
    }
    for (size_t i = 0; i < WINDOW; i++) s = land(r, &window[(n + i) % WINDOW], s, err);
    return s;
}

static enum pith_status spread(struct pith_ranks *r, struct pith_hops s, void *data,
                               struct pith_error *err)
{
    s.ranks = pith_ranks_count(r);
    if (s.ranks == 1 || pith_hops_bytes(&s) == 0) return PITH_OK;
    if (look(r)) return fail_alerted(r, err);
    const double start = pith_clock();
    for (unsigned round = 0; round < pith_hops_rounds(&s); round++) {
        struct pith_hop of[2];
        pith_hops_in(&s, round, r->own, &of[0]);
        pith_hops_out(&s, round, r->own, &of[1]);
        PITH_TRY(hop(r, of, data, err));
    }
    r->pace.waited += pith_clock() - start;
    return PITH_OK;
}

/* --- broadcasts ------------------------------------------------------------------------------- */

enum pith_status pith_ranks_send(struct pith_ranks *r, unsigned other, const void *data,
                                 size_t bytes, struct pith_error *err)
{
    return carry(r, PITH_FLIGHT_OUT, other, (void *)(uintptr_t)data, bytes, err);
}

enum pith_status pith_ranks_receive(struct pith_ranks *r, unsigned other, void *data, size_t bytes,
                                    struct pith_error *err)
{
    return carry(r, PITH_FLIGHT_IN, other, data, bytes, err);
}

enum pith_status pith_ranks_share(struct pith_ranks *r, unsigned from, void *data, size_t bytes,
                                  struct pith_error *err)
{
    return spread(r, (struct pith_hops){.from = from, .items = bytes, .size = 1}, data, err);
}

enum pith_status pith_ranks_share_parts(struct pith_ranks *r, void *data, size_t items, size_t size,
                                        struct pith_error *err)
{
    return spread(r, (struct pith_hops){.own = true, .items = items, .size = size}, data, err);
}

enum pith_status pith_ranks_share_runs(struct pith_ranks *r, void *data, const size_t *edges,
                                       struct pith_error *err)
{
    return spread(r, (struct pith_hops){.own = true, .edges = edges}, data, err);
}

enum pith_status pith_ranks_share_text(struct pith_ranks *r, unsigned from, char **text,
                                       size_t *size, struct pith_error *err)
{
    const bool own = pith_ranks_own(r) == from;
    uint64_t bytes = *size;
    if (!own) *text = NULL;
    PITH_TRY(pith_ranks_share(r, from, &bytes, sizeof bytes, err));
    if (!own && !(*text = pith_zalloc((size_t)bytes + 1, 1)))
        return pith_fail_nomem(err, "what another rank has");
    *size = (size_t)bytes;
    const enum pith_status s = pith_ranks_share(r, from, *text, *size, err);
    if (s == PITH_OK || own) return s;
    pith_free(*text);
    *text = NULL;
    return s;
}

enum pith_status pith_ranks_meet(struct pith_ranks *r, struct pith_error *err)
{
    const size_t count = pith_ranks_count(r);
    if (count == 1) return PITH_OK;
    char *here = pith_zalloc(count, 1);
    if (!here) return pith_fail_nomem(err, "a word to each rank");
    const enum pith_status s = pith_ranks_share_parts(r, here, count, 1, err);
    pith_free(here);
    return s;
}

enum pith_status pith_ranks_agree(struct pith_ranks *r, const char *value, const char *what,
                                  struct pith_error *err)
{
    enum { MOST = 256 };
    char first[MOST] = "", own[MOST] = "";
    snprintf(own, sizeof own, "%s", value);
    memcpy(first, own, sizeof own);
    PITH_TRY(pith_ranks_share(r, 0, first, sizeof first, err));
    const bool same = memcmp(first, own, sizeof own) == 0;
    enum pith_status s = PITH_OK;
    if (!same)
        s = pith_fail(err, PITH_MISMATCH, "has %s other than rank 0: \"%s\", not \"%s\"", what, own,
                      first);
    return s == PITH_OK ? pith_ranks_meet(r, err) : s;
}

enum pith_status pith_ranks_fail(struct pith_ranks *r, enum pith_status s,
                                 const struct pith_error *err)
{
    struct pith_distress d = {.status = (int)s};
    if (s == PITH_OK || pith_ranks_alone(r) || r->failed) return s;
    snprintf(d.text, sizeof d.text, "%s",
             err && err->status == s ? err->text : pith_status_text(s));
    r->failed = true;
    r->link->alert(&d);
    return s;
}
