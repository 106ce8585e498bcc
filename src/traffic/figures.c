#include "traffic/figures.h"

#include "base/grow.h"
#include "base/mem.h"

#include <pith/names.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- lists ------------------------------------------------------------------------------------ */

/* Room for one more of `size` bytes. */
static enum pith_status grow(void **items, size_t count, size_t *room, size_t size,
                             struct pith_error *err)
{
    void *more = pith_grow(*items, count, room, 64, size);
    if (!more) return pith_fail_nomem(err, "what was measured");
    *items = more;
    return PITH_OK;
}

enum pith_status pith_level_record(struct pith_level_result *r, const struct pith_record *record,
                                   struct pith_error *err)
{
    void *items = r->record;
    PITH_TRY(grow(&items, r->records, &r->record_room, sizeof *r->record, err));
    r->record = items;
    r->record[r->records++] = *record;
    return PITH_OK;
}

enum pith_status pith_level_gap(struct pith_level_result *r, double at, double wait,
                                struct pith_error *err)
{
    void *items = r->gap;
    PITH_TRY(grow(&items, r->gaps, &r->gap_room, sizeof *r->gap, err));
    r->gap = items;
    r->gap[r->gaps++] = (struct pith_gap){(float)at, (float)wait};
    return PITH_OK;
}

enum pith_status pith_level_first(struct pith_level_result *r, double at, struct pith_error *err)
{
    void *items = r->first_at;
    PITH_TRY(grow(&items, r->firsts, &r->first_room, sizeof *r->first_at, err));
    r->first_at = items;
    r->first_at[r->firsts++] = (float)at;
    return PITH_OK;
}

enum pith_status pith_level_late(struct pith_level_result *r, double by, struct pith_error *err)
{
    void *items = r->late;
    PITH_TRY(grow(&items, r->lates, &r->late_room, sizeof *r->late, err));
    r->late = items;
    r->late[r->lates++] = by;
    return PITH_OK;
}

enum pith_status pith_level_fail(struct pith_level_result *r, const char *kind, const char *example,
                                 struct pith_error *err)
{
    for (size_t i = 0; i < r->failures; i++)
        if (strcmp(r->failure[i].kind, kind) == 0) {
            r->failure[i].count++;
            return PITH_OK;
        }
    void *more = pith_realloc(r->failure, r->failures + 1, sizeof *r->failure);
    if (!more) return pith_fail_nomem(err, "what was measured");
    r->failure = more;
    struct pith_failure_kind *f = &r->failure[r->failures++];
    f->count = 1;
    (void)snprintf(f->kind, sizeof f->kind, "%s", kind);
    (void)snprintf(f->example, sizeof f->example, "%s", example);
    return PITH_OK;
}

size_t pith_level_failed(const struct pith_level_result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->failures; i++) n += r->failure[i].count;
    return n;
}

void pith_level_free(struct pith_level_result *r)
{
    pith_free(r->record);
    pith_free(r->gap);
    pith_free(r->first_at);
    pith_free(r->failure);
    pith_free(r->late);
    *r = (struct pith_level_result){0};
}

/* --- quantiles -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double q)
{
    const double at = q * (double)(n - 1);
    const size_t i = (size_t)at;
    if (i + 1 >= n) return sorted[n - 1];
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

void pith_quantiles_of(double *value, size_t n, struct pith_quantiles *out)
{
    size_t seen = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(value[i])) value[seen++] = value[i];
    const double none = (double)NAN;
    *out = (struct pith_quantiles){seen, none, none, none, none, none, none};
    if (seen == 0) return;
    qsort(value, seen, sizeof *value, compare);
    for (size_t i = 0; i < seen; i++) sum += value[i];
    out->mean = sum / (double)seen;
    out->least = value[0];
    out->p50 = quantile(value, seen, 0.5);
    out->p90 = quantile(value, seen, 0.9);
    out->p99 = quantile(value, seen, 0.99);
    out->most = value[seen - 1];
}

enum pith_status pith_quantiles_member(const struct pith_level_result *r, size_t offset,
                                       struct pith_quantiles *out, struct pith_error *err)
{
    double *value = pith_alloc(r->records, sizeof *value);
    if (!value) return pith_fail_nomem(err, "what was measured");
    for (size_t i = 0; i < r->records; i++)
        memcpy(&value[i], (const char *)&r->record[i] + offset, sizeof value[i]);
    pith_quantiles_of(value, r->records, out);
    pith_free(value);
    return PITH_OK;
}

enum pith_status pith_quantiles_gaps(const struct pith_level_result *r, struct pith_quantiles *out,
                                     struct pith_error *err)
{
    double *value = pith_alloc(r->gaps, sizeof *value);
    if (!value) return pith_fail_nomem(err, "what was measured");
    for (size_t i = 0; i < r->gaps; i++) value[i] = (double)r->gap[i].wait;
    pith_quantiles_of(value, r->gaps, out);
    pith_free(value);
    return PITH_OK;
}

/* --- limits ----------------------------------------------------------------------------------- */

const struct pith_traffic_limit pith_traffic_limits[] = {
    {"first", "from asking to the first token", offsetof(struct pith_record, first)},
    {"between", "mean time of a token after the first", offsetof(struct pith_record, between)},
    {"pause", "the longest gap between two chunks", offsetof(struct pith_record, pause)},
    {"total", "from asking to the end", offsetof(struct pith_record, total)},
};
_Static_assert(PITH_COUNT(pith_traffic_limits) == PITH_TRAFFIC_LIMITS, "its rows");

/* "100ms", "1.5s"; the unit is needed, since others take either for granted. */
static bool take_seconds(const char **text, double *out)
{
    char *end;
    if ((**text < '0' || **text > '9') && **text != '.') return false;
    double x = strtod(*text, &end);
    if (strncmp(end, "ms", 2) == 0) {
        x *= 1e-3;
        end += 2;
    } else if (*end == 's') {
        end++;
    } else {
        return false;
    }
    *text = end;
    *out = x;
    return x > 0 && isfinite(x) && (*end == ',' || *end == '\0');
}

static bool take_goal(const char **text, struct pith_goals *out)
{
    const size_t n = strcspn(*text, "=");
    for (size_t i = 0; i < PITH_TRAFFIC_LIMITS; i++) {
        const char *name = pith_traffic_limits[i].name;
        if (strlen(name) != n || strncmp(*text, name, n) != 0 || (*text)[n] != '=') continue;
        *text += n + 1;
        return take_seconds(text, &out->most[i]);
    }
    return false;
}

enum pith_status pith_goals_parse(const char *text, struct pith_goals *out, struct pith_error *err)
{
    const char *at = text;
    for (size_t i = 0; !out->any && i < PITH_TRAFFIC_LIMITS; i++) out->most[i] = (double)INFINITY;
    for (;;) {
        if (!take_goal(&at, out))
            return pith_fail(err, PITH_ARG,
                             "`limit` %.100s: like first=1000ms,between=100ms; first, between, "
                             "pause and total, in ms or s",
                             text);
        out->any = true;
        if (*at == '\0') return PITH_OK;
        at++;
    }
}

bool pith_goal_met(const struct pith_goals *g, size_t i, const struct pith_record *record)
{
    double x;
    memcpy(&x, (const char *)record + pith_traffic_limits[i].offset, sizeof x);
    if (isnan(x)) return pith_traffic_limits[i].offset != offsetof(struct pith_record, first);
    return x <= g->most[i];
}
