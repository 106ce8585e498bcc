#include "backend/adamw.h"

#include "backend/parts.h"

#include <math.h>

struct work {
    const struct pith_adamw *a;
    float whole1, whole2; /* 1 - beta^t */
};

/* beta^t by squaring: libm's pow() is not the same everywhere. */
static double power(double beta, size_t t)
{
    double r = 1.0;
    for (; t; t >>= 1, beta *= beta)
        if (t & 1) r *= beta;
    return r;
}

static void step_task(void *ctx, size_t task, unsigned thread)
{
    const struct work *w = ctx;
    const struct pith_adamw *a = w->a;
    const size_t last = pith_min(a->n, (task + 1) * PITH_TASK_ELEMENTS);
    const float rest1 = 1.0f - a->beta1, rest2 = 1.0f - a->beta2;
    (void)thread;
    for (size_t i = task * PITH_TASK_ELEMENTS; i < last; i++) {
        const float g = a->g[i];
        const float m = a->beta1 * a->m[i] + rest1 * g, v = a->beta2 * a->v[i] + rest2 * (g * g);
        const float by = m / w->whole1 / (sqrtf(v / w->whole2) + a->eps);
        a->m[i] = m;
        a->v[i] = v;
        a->p[i] -= a->rate * (by + a->decay * a->p[i]);
    }
}

void pith_adamw(struct pith_backend *b, const struct pith_adamw *a)
{
    struct work w = {.a = a,
                     .whole1 = (float)(1.0 - power((double)a->beta1, a->step)),
                     .whole2 = (float)(1.0 - power((double)a->beta2, a->step))};
    pith_pool_run(b->pool, pith_tasks(a->n, PITH_TASK_ELEMENTS), step_task, &w);
}
