#include "report/axis.h"

#include <math.h>
#include <stdio.h>

static void add(struct pith_axis *a, double v)
{
    if (a->ticks < PITH_AXIS_TICKS) a->tick[a->ticks++] = v;
}

static void linear(struct pith_axis *a, double lo, double hi, size_t wanted)
{
    if (!(hi > lo)) {
        const double room = fmax(fabs(lo) * 0.1, 1e-9);
        lo -= room;
        hi += room;
    }
    const double raw = (hi - lo) / (double)wanted, power = pow(10, floor(log10(raw)));
    const double m = raw / power;
    const double step = power * (m > 5 ? 10 : m > 2 ? 5 : m > 1 ? 2 : 1);
    const double first = floor(lo / step + 1e-9), last = ceil(hi / step - 1e-9);
    a->lo = first * step;
    a->hi = last * step;
    for (double k = first; k <= last + 0.5; k++) add(a, k * step);
}

static void logarithmic(struct pith_axis *a, double lo, double hi, size_t wanted)
{
    static const double parts[] = {1, 2, 5};
    if (!(hi > lo * 1.0001)) {
        lo /= 1.5;
        hi *= 1.5;
    }
    a->lo = lo / pow(hi / lo, 0.05);
    a->hi = hi * pow(hi / lo, 0.05);
    const double decades = log10(a->hi / a->lo);
    const int first = (int)floor(log10(a->lo)), last = (int)ceil(log10(a->hi));
    const int skip = (int)ceil(decades / (double)wanted);
    const size_t fine = decades * 2 < (double)wanted ? 3 : 1;
    for (int e = first; e <= last; e += skip > 1 ? skip : 1)
        for (size_t i = 0; i < fine; i++) {
            const double v = parts[i] * pow(10, e);
            if (v >= a->lo && v <= a->hi) add(a, v);
        }
    if (a->ticks >= 2) return;
    /* Less than a decade: even steps, as many as lie inside. */
    struct pith_axis even = {0};
    linear(&even, a->lo, a->hi, wanted);
    a->ticks = 0;
    for (size_t i = 0; i < even.ticks; i++)
        if (even.tick[i] >= a->lo && even.tick[i] <= a->hi) add(a, even.tick[i]);
    if (a->ticks >= 2) return;
    a->ticks = 0;
    add(a, a->lo);
    add(a, a->hi);
}

void pith_axis_choose(struct pith_axis *a, double lo, double hi, bool log, size_t wanted)
{
    *a = (struct pith_axis){.log = log};
    if (wanted < 2) wanted = 2;
    if (wanted > PITH_AXIS_TICKS / 2) wanted = PITH_AXIS_TICKS / 2;
    if (log) logarithmic(a, lo, hi, wanted);
    else linear(a, lo, hi, wanted);
}

double pith_axis_place(const struct pith_axis *a, double v)
{
    return a->log ? log(v / a->lo) / log(a->hi / a->lo) : (v - a->lo) / (a->hi - a->lo);
}

void pith_axis_label(const struct pith_axis *a, double v, char *text, size_t size)
{
    /* A sum of rounded steps passes near 0, not through it. */
    if (!a->log && fabs(v) < (a->hi - a->lo) * 1e-9) v = 0;
    static const struct {
        double unit;
        const char *sign;
    } large[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    for (size_t i = 0; i < sizeof large / sizeof large[0] && fabs(v) < 1e15; i++)
        if (fabs(v) >= large[i].unit * 0.9995) {
            snprintf(text, size, "%.3g%s", v / large[i].unit, large[i].sign);
            return;
        }
    snprintf(text, size, "%.3g", v);
}
