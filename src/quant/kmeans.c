#include "quant/kmeans.h"

#include "base/mem.h"

#include <string.h>

/* A number, and how much it counts. */
struct point {
    float x;
    double weight;
};

struct solver {
    size_t n;               /* distinct numbers */
    const double *s, *f;    /* [n + 1] running sums of weight * value and of weight */
    const double *before;   /* [n + 1] the most that one level less saves on the first j */
    double *best;           /* [n + 1] the same with this level */
    uint32_t *from;         /* [n + 1] where the last of the clusters begins */
};

size_t pith_kmeans_bytes(size_t n, unsigned k)
{
    return 2 * n * sizeof(struct point) + 4 * (n + 1) * sizeof(double) +
           k * (n + 1) * sizeof(uint32_t) + sizeof(double);
}

/* Merge sort: qsort may take memory, and differs between C libraries where numbers are equal. */
static struct point *sort_points(struct point *x, struct point *other, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            const size_t mid = lo + width < n ? lo + width : n;
            const size_t hi = lo + 2 * width < n ? lo + 2 * width : n;
            size_t a = lo, b = mid;
            for (size_t i = lo; i < hi; i++)
                other[i] = a < mid && (b == hi || x[a].x <= x[b].x) ? x[a++] : x[b++];
        }
        struct point *t = x;
        x = other;
        other = t;
    }
    return x;
}

/* Keeps the points that count, equal numbers as one; returns how many remain. */
static size_t join_points(struct point *p, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (count > 0 && p[count - 1].x == p[i].x) p[count - 1].weight += p[i].weight;
        else p[count++] = p[i];
    }
    return count;
}

/* Those that count: of weights that the sum of all hardly notices a difference of two sums keeps
 * no digits, and the mean of a cluster of such numbers means nothing. */
static size_t load_points(const float *x, const float *weight, size_t n, struct point *p)
{
    size_t count = 0;
    double sum = 0.0;
    for (size_t i = 0; weight && i < n; i++) sum += (double)weight[i];
    for (size_t i = 0; i < n; i++)
        if (!weight || (double)weight[i] > sum * 0x1p-32)
            p[count++] = (struct point){x[i], weight ? (double)weight[i] : 1.0};
    return count == 0 && weight ? load_points(x, NULL, n, p) : count;
}

/* What one cluster of the points i..j-1 saves, i < j. */
static inline double saving(const struct solver *v, size_t i, size_t j)
{
    const double s = v->s[j] - v->s[i];
    return s * s / (v->f[j] - v->f[i]);
}

/* best[j] for lo <= j < hi, where the last cluster begins in first..last. */
static void solve_range(const struct solver *v, size_t lo, size_t hi, size_t first, size_t last)
{
    while (lo < hi) {
        const size_t j = lo + (hi - lo) / 2, end = last < j - 1 ? last : j - 1;
        size_t at = first;
        double most = -1.0;
        for (size_t i = first; i <= end; i++) {
            const double x = v->before[i] + saving(v, i, j);
            if (x > most) {
                most = x;
                at = i;
            }
        }
        v->best[j] = most;
        v->from[j] = (uint32_t)at;
        solve_range(v, lo, j, first, at);
        lo = j + 1;
        first = at;
    }
}

/* from[level][j] for every level; returns the most that k levels save on all points. */
static double solve(struct solver *v, unsigned k, double *rows[2], uint32_t *from)
{
    double *now = rows[0], *next = rows[1];
    for (size_t j = 1; j <= v->n; j++) now[j] = saving(v, 0, j);
    memset(from, 0, (v->n + 1) * sizeof *from);
    for (unsigned level = 1; level < k; level++) {
        v->before = now;
        v->best = next;
        v->from = from + level * (v->n + 1);
        const size_t least = level + 1 == k ? v->n : level + 1; /* the last level: all points */
        solve_range(v, least, v->n + 1, level, v->n - 1);
        next = now;
        now = v->best;
    }
    return now[v->n];
}

/* Each level is the mean of its cluster. */
static void take_levels(const struct solver *v, const uint32_t *from, double middle, unsigned k,
                        float *levels)
{
    size_t end = v->n;
    for (unsigned level = k; level-- > 0;) {
        const size_t begin = from[level * (v->n + 1) + end];
        levels[level] = (float)(middle + (v->s[end] - v->s[begin]) / (v->f[end] - v->f[begin]));
        end = begin;
    }
}

/* Running sums of numbers less `middle`, which keeps their squares small; returns the sum of
 * weighted squares. */
static double sum_points(const struct point *p, size_t n, double middle, double *s, double *f)
{
    double squares = 0.0;
    s[0] = f[0] = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)p[i].x - middle;
        s[i + 1] = s[i] + p[i].weight * x;
        f[i + 1] = f[i] + p[i].weight;
        squares += p[i].weight * x * x;
    }
    return squares;
}

static double mean_of(const struct point *p, size_t n)
{
    double sum = 0.0, weight = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += p[i].weight * (double)p[i].x;
        weight += p[i].weight;
    }
    return sum / weight;
}

double pith_kmeans(const float *x, const float *weight, size_t n, unsigned k, float *levels,
                   void *scratch)
{
    struct point *p = scratch, *other = p + n;
    double *sums = (double *)(void *)(other + n), *rows[2] = {sums + 2 * (n + 1),
                                                             sums + 3 * (n + 1)};
    uint32_t *from = (uint32_t *)(void *)(sums + 4 * (n + 1));
    const size_t loaded = load_points(x, weight, n, p);
    p = sort_points(p, other, loaded);
    const size_t count = join_points(p, loaded);
    if (count <= k) {
        for (size_t i = 0; i < k; i++)
            levels[i] = count == 0 ? 0.0f : p[i < count ? i : count - 1].x;
        return 0.0;
    }
    const double middle = mean_of(p, count);
    const double squares = sum_points(p, count, middle, sums, sums + n + 1);
    struct solver v = {.n = count, .s = sums, .f = sums + n + 1};
    const double left = squares - solve(&v, k, rows, from);
    take_levels(&v, from, middle, k, levels);
    return left > 0.0 ? left : 0.0;
}

uint32_t pith_kmeans_nearest(const float *levels, unsigned k, float x)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i < k; i++)
        if (levels[i] > levels[at] &&
            2.0 * (double)x > (double)levels[at] + (double)levels[i])
            at = i;
    return at;
}
