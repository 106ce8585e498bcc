#include "plan/time/ranks_forecast.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the link --------------------------------------------------------------------------------- */

/* A positive decimal number at *at, which moves behind it; NAN where there is none. */
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

/* --- the formula ------------------------------------------------------------------------------ */

void pith_ranks_traffic(struct pith_ranks_cost *c, enum pith_traffic_kind kind, double bytes,
                        double messages)
{
    if (bytes <= 0) return;
    c->bytes[kind] += bytes;
    c->messages[kind] += messages;
}

double pith_ranks_cost_seconds(const struct pith_ranks_cost *c)
{
    double all = 0;
    for (int i = 0; i < PITH_WORK_KINDS; i++) all += c->seconds[i];
    return all;
}

/* The part of the rank that has most of so many windows. */
static double most_windows(unsigned ranks, size_t windows)
{
    return windows ? (double)((windows + ranks - 1) / ranks) / (double)windows : 1;
}

static double part_of(const struct pith_ranks_cost *c, enum pith_work_kind kind, unsigned ranks)
{
    switch (kind) {
    case PITH_WORK_WINDOWS: return most_windows(ranks, c->windows);
    case PITH_WORK_BATCH: return most_windows(ranks, c->batch);
    case PITH_WORK_ROWS: return fmax(1.0 / ranks, c->largest);
    default: return 1;
    }
}

/* Of the bytes of a kind of traffic: how often they pass a rank's link, and how often a rank
 * receives them; and how many delays a message takes. */
struct passage {
    double link, received, rounds;
};

static struct passage passage_of(enum pith_traffic_kind kind, unsigned ranks)
{
    const double n = ranks, others = (n - 1) / n, levels = ceil(log2(n));
    const bool middle = ranks > 2; /* there are ranks that both receive and send a sum's panels */
    switch (kind) {
    case PITH_TRAFFIC_GATHER: return (struct passage){others, others, levels};
    case PITH_TRAFFIC_SHARE: return (struct passage){2 * others, others, 2 * levels};
    case PITH_TRAFFIC_SUM:
        return (struct passage){(middle ? 2.25 : 1) + 2 * others, middle ? 2 : 1, n};
    case PITH_TRAFFIC_APPEND: return (struct passage){(n - 1) / 2 + 2 * others, 1 + (n - 2) / n, n};
    default: return (struct passage){others / n, others / n, n - 1};
    }
}

void pith_ranks_forecast_add(struct pith_ranks_forecast *f, const struct pith_ranks_cost *c,
                             double times)
{
    for (int i = 0; i < PITH_WORK_KINDS; i++) {
        const double part = part_of(c, (enum pith_work_kind)i, f->ranks), even = 1.0 / f->ranks;
        f->divided += times * c->seconds[i] * fmin(part, even);
        f->repeated += times * c->seconds[i] * fmax(part - even, 0);
    }
    for (int i = 0; i < PITH_TRAFFIC_KINDS && f->ranks > 1; i++) {
        const struct passage p = passage_of((enum pith_traffic_kind)i, f->ranks);
        f->received += times * c->bytes[i] * p.received;
        f->link += times * (8 * c->bytes[i] * p.link / f->cable.bits +
                            c->messages[i] * p.rounds * f->cable.delay);
    }
}

double pith_ranks_forecast_seconds(const struct pith_ranks_forecast *f)
{
    return f->divided + f->repeated + f->link;
}

const char *pith_ranks_limit(const struct pith_ranks_forecast *f)
{
    if (f->ranks == 1 || (f->repeated < f->divided && f->link < f->divided)) return "";
    return f->link >= f->repeated ? "link" : "repeated";
}
