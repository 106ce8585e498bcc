#include "serve/pace.h"

#include <math.h>
#include <string.h>

/* Sizes by which terms are divided, so that the sums are of like magnitude; what a step weighs
 * after the next; and how many steps are worth trusting. */
static const double unit[PITH_PACE_TERMS] = {1, 64, 65536};
#define DECAY 0.98
enum { TRUSTED = 4, FIRST_ROWS = 32 };

struct pith_step_load pith_load_add(struct pith_step_load load, size_t depth, size_t rows)
{
    const double n = (double)rows;
    load.rows += n;
    load.pairs += n * ((double)depth + (n + 1) / 2);
    return load;
}

/* Solves the normal equations for the terms in `use`, others 0; false when they do not say. */
static bool solve(const struct pith_pace *p, const bool use[PITH_PACE_TERMS],
                  double out[PITH_PACE_TERMS])
{
    enum { N = PITH_PACE_TERMS };
    double m[N][N + 1];
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) m[i][k] = use[i] && use[k] ? p->gram[i][k] : 0;
        m[i][N] = use[i] ? p->right[i] : 0;
        m[i][i] = use[i] ? m[i][i] * (1 + 1e-9) + 1e-12 : 1;
    }
    for (int i = 0; i < N; i++) { /* positive definite: no exchange of rows is needed */
        if (!(m[i][i] > 0)) return false;
        for (int r = 0; r < N; r++) {
            const double f = r == i ? 0 : m[r][i] / m[i][i];
            for (int k = i; f != 0 && k <= N; k++) m[r][k] -= f * m[i][k];
        }
    }
    for (int i = 0; i < N; i++) out[i] = m[i][N] / m[i][i];
    return true;
}

void pith_pace_learn(struct pith_pace *p, struct pith_step_load load, double seconds)
{
    const double x[PITH_PACE_TERMS] = {1, load.rows / unit[1], load.pairs / unit[2]};
    /* Relative errors count: a step of one row as much as one of five hundred. */
    const double weight = 1 / (seconds * seconds + 1e-12);
    for (int i = 0; i < PITH_PACE_TERMS; i++) {
        p->right[i] = DECAY * p->right[i] + weight * x[i] * seconds;
        for (int k = 0; k < PITH_PACE_TERMS; k++)
            p->gram[i][k] = DECAY * p->gram[i][k] + weight * x[i] * x[k];
    }
    bool use[PITH_PACE_TERMS] = {true, true, true};
    for (int round = 0; round < PITH_PACE_TERMS; round++) { /* no term takes time back */
        double t[PITH_PACE_TERMS];
        bool again = false;
        if (!solve(p, use, t)) break;
        for (int i = 0; i < PITH_PACE_TERMS; i++)
            if (use[i] && t[i] < 0) use[i] = false, again = true;
        if (again) continue;
        memcpy(p->term, t, sizeof t);
        break;
    }
    p->steps++;
}

double pith_pace_seconds(const struct pith_pace *p, struct pith_step_load load)
{
    return p->term[0] + p->term[1] * load.rows / unit[1] + p->term[2] * load.pairs / unit[2];
}

size_t pith_pace_rows(const struct pith_pace *p, size_t depth, size_t most, double seconds)
{
    const double pair = p->term[2] / unit[2], row = p->term[1] / unit[1] + pair * (double)depth;
    if (most <= 1) return 1;
    if (p->steps < TRUSTED) return most < FIRST_ROWS ? most : FIRST_ROWS;
    /* row n + pair n (n + 1) / 2 = seconds */
    const double b = row + pair / 2;
    const double n = pair > 0 ? (sqrt(b * b + 2 * pair * seconds) - b) / pair
                     : b > 0  ? seconds / b
                              : (double)most;
    if (!(n < (double)most)) return most;
    return n < 1 ? 1 : (size_t)n;
}
