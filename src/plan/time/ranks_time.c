#include "plan/time/ranks_time.h"

#include "base/ranks/hops.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A positive decimal number at *at, which goes behind it; NAN where there is none. */
static double number_at(const char **at)
{
    char *end;
    if (!isdigit((unsigned char)**at)) return NAN;
    if ((*at)[0] == '0' && ((*at)[1] == 'x' || (*at)[1] == 'X')) return NAN;
    const double x = strtod(*at, &end);
    *at = end;
    return x;
}

enum pith_status pith_cable_parse(const char *text, struct pith_cable *out, struct pith_error *err)
{
    static const char units[] = "KMGT";
    double micro = 50;
    const char *at = text;
    double bits = number_at(&at);
    const char *unit = *at ? strchr(units, toupper((unsigned char)*at)) : NULL;
    if (unit) {
        for (const char *u = units; u <= unit; u++) bits *= 1000;
        at++;
    }
    if (*at == ',') {
        at++;
        micro = number_at(&at);
    }
    if (*at || !(bits > 0) || !isfinite(bits) || !(micro >= 0) || !isfinite(micro))
        return pith_fail(err, PITH_ARG,
                         "`link` is BITS[,MICROSECONDS], such as 10G or 100G,5; not '%s'", text);
    *out = (struct pith_cable){bits, micro / 1e6};
    return PITH_OK;
}

void pith_crew_add(struct pith_crew *c, enum pith_crew_part part, double seconds)
{
    c->seconds[part] += seconds;
}

void pith_crew_windows(struct pith_crew *c, double seconds, size_t windows)
{
    const size_t most = (windows + c->ranks - 1) / c->ranks;
    if (windows) c->seconds[PITH_CREW_DIVIDED] += seconds * (double)most / (double)windows;
}

enum { SHORT = 64 << 10 }; /* bytes */

/* How long nothing of a message is there: a long one is asked for when its beginning has come. */
static double under_way(const struct pith_crew *c, double bytes)
{
    return (bytes > SHORT ? 3 : 1) * c->cable.delay;
}

static double on_the_link(const struct pith_crew *c, double bytes)
{
    return 8 * bytes / c->cable.bits;
}

/* Of a message between two ranks. */
double pith_crew_message(const struct pith_crew *c, double bytes)
{
    return under_way(c, bytes) + on_the_link(c, bytes);
}

/* Round after round, each as long as what comes to one rank. */
static void spread(struct pith_crew *c, const struct pith_hops *s)
{
    if (c->ranks == 1 || pith_hops_bytes(s) == 0) return;
    for (unsigned round = 0; round < pith_hops_rounds(s); round++) {
        double longest = 0;
        for (unsigned k = 0; k < c->ranks; k++) {
            struct pith_hop hop, out;
            pith_hops_in(s, round, k, &hop);
            pith_hops_out(s, round, k, &out);
            const size_t a = hop.run[0].end - hop.run[0].first;
            const size_t b = hop.run[1].end - hop.run[1].first;
            const double one = under_way(c, pith_hops_cross(&hop, &out) ? PITH_HOPS_PIECE
                                                                        : (double)(a > b ? a : b)) +
                               on_the_link(c, (double)a + (double)b);
            c->received[k] += a + b;
            longest = a + b && one > longest ? one : longest;
        }
        c->seconds[PITH_CREW_LINK] += longest;
    }
}

void pith_crew_share(struct pith_crew *c, unsigned from, uint64_t bytes)
{
    spread(c,
           &(struct pith_hops){.ranks = c->ranks, .from = from, .items = (size_t)bytes, .size = 1});
}

void pith_crew_pass(struct pith_crew *c, unsigned to, uint64_t bytes)
{
    if (bytes == 0) return;
    c->received[to] += bytes;
    c->seconds[PITH_CREW_LINK] += pith_crew_message(c, (double)bytes);
}

void pith_crew_relay(struct pith_crew *c, double seconds, uint64_t bytes, size_t panels)
{
    const unsigned n = c->ranks;
    const double own = seconds / n, p = (double)panels;
    c->seconds[PITH_CREW_DIVIDED] += own;
    if (n == 1) return;
    for (unsigned k = 1; k < n; k++) c->received[k] += bytes;
    c->seconds[PITH_CREW_RELAY] += (n - 1) * own / p;
    /* A rank between two receives and sends. */
    const double one = pith_crew_message(c, (double)bytes / p);
    c->seconds[PITH_CREW_LINK] += (p + n - 1) * (n > 2 ? 2 : 1) * one;
}

void pith_crew_sum(struct pith_crew *c, double seconds, uint64_t bytes, size_t panels)
{
    pith_crew_relay(c, seconds, bytes, panels);
    for (size_t i = 0; i < panels; i++)
        pith_crew_share(c, c->ranks - 1, bytes * (i + 1) / panels - bytes * i / panels);
}

void pith_crew_told(void *ctx, unsigned rank, uint64_t bytes)
{
    struct pith_crew *c = ctx;
    c->told[rank + 1] = c->told[rank] + (size_t)bytes;
    if (rank + 1 < c->ranks) return;
    spread(c, &(struct pith_hops){.ranks = c->ranks, .own = true, .edges = c->told});
}

void pith_crew_work(struct pith_crew *c, unsigned rank, double divided, double repeated)
{
    c->divided[rank] += divided;
    c->repeated[rank] += repeated;
}

void pith_crew_meet(struct pith_crew *c)
{
    double most = 0, all = 0;
    for (unsigned k = 0; k < c->ranks; k++) {
        const double one = c->divided[k] + c->repeated[k];
        most = one > most ? one : most;
        all += c->divided[k];
        c->divided[k] = c->repeated[k] = 0;
    }
    c->seconds[PITH_CREW_DIVIDED] += all / c->ranks;
    c->seconds[PITH_CREW_REPEATED] += most - all / c->ranks;
}

double pith_crew_seconds(const struct pith_crew *c)
{
    double all = 0;
    for (int i = 0; i < PITH_CREW_PARTS_COUNT; i++) all += c->seconds[i];
    return all;
}

uint64_t pith_crew_received(const struct pith_crew *c)
{
    uint64_t most = 0;
    for (unsigned k = 0; k < c->ranks; k++) most = c->received[k] > most ? c->received[k] : most;
    return most;
}

enum pith_crew_part pith_crew_limit(const struct pith_crew *c)
{
    int most = PITH_CREW_DIVIDED;
    for (int i = most + 1; i < PITH_CREW_PARTS_COUNT; i++)
        if (c->seconds[i] > 0 && c->seconds[i] >= c->seconds[most]) most = i;
    return (enum pith_crew_part)most;
}

const char *pith_crew_key(enum pith_crew_part part)
{
    static const char *const keys[] = {
#define PITH_CREW_KEY(id, name, limit) name,
        PITH_CREW_PARTS(PITH_CREW_KEY)
#undef PITH_CREW_KEY
    };
    return keys[part];
}

const char *pith_crew_limit_name(enum pith_crew_part part)
{
    static const char *const names[] = {
#define PITH_CREW_LIMIT(id, name, limit) limit,
        PITH_CREW_PARTS(PITH_CREW_LIMIT)
#undef PITH_CREW_LIMIT
    };
    return names[part];
}

json_t *pith_crew_row(const struct pith_crew *c, double all, double speedup, json_t *received)
{
    json_t *j = json_pack("{s:i, s:f, s:f, s:f, s:s, s:I, s:o*}", "ranks", (int)c->ranks,
                          "seconds_expected", all, "speedup", speedup, "seconds_per_block",
                          pith_crew_seconds(c), "limit", pith_crew_limit_name(pith_crew_limit(c)),
                          "bytes_received_per_block", (json_int_t)pith_crew_received(c),
                          "rank_bytes_received", received);
    for (int i = 0; j && i < PITH_CREW_PARTS_COUNT; i++)
        pith_json_set(&j, pith_crew_key((enum pith_crew_part)i), json_real(c->seconds[i]));
    return j;
}
