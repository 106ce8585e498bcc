#include "choose/auto_clock.h"

#include "base/file.h"

#include <stdio.h>

/* The share of the whole that is done when `part` of this stage is. */
static double share_of(const struct pith_auto_clock *c, double part)
{
    double before = 0, all = 0;
    for (size_t i = 0; i < c->stages; i++) {
        all += c->expected[i];
        if (i < c->now) before += c->expected[i];
    }
    if (c->stages == 0 || !(all > 0)) return 0;
    return (before + part * c->expected[c->now]) / all;
}

static int on_step(void *ctx, const char *what, double done, double total)
{
    struct pith_auto_clock *c = ctx;
    const double part = total > 0 && done < total ? done / total : total > 0;
    const double share = share_of(c, part);
    if (share > c->shown) c->shown = share;
    return c->inner.fn ? c->inner.fn(c->inner.ctx, what, c->shown, 1) : 0;
}

void pith_auto_clock_start(struct pith_auto_clock *c, const struct pith_quantize_options *o,
                           struct pith_progress *out)
{
    const struct pith_notice notice = c->notice;
    *c = (struct pith_auto_clock){
        .inner = o->progress, .started = pith_clock(), .notice = notice, .requested = *o};
    *out = (struct pith_progress){on_step, c};
}

/* The recipe that will be found, as far as it is known: rounders that use drift are included. */
static double run_seconds(const struct pith_job *job, const struct pith_quantize_options *o,
                          double speed)
{
    struct pith_recipe r = job->recipe;
    struct pith_error ignored = {0};
    const size_t available = job->calib.available, requested = o->calib_tokens;
    if (!o->round && r.round == pith_rounder_find("gptq"))
        (void)pith_recipe_set(&r, "round", "qep", &ignored);
    return pith_expect_quantize(job, &r, requested < available ? requested : available, speed);
}

void pith_auto_clock_expect(struct pith_auto_clock *c, const struct pith_job *job,
                            const struct pith_sense *sense, size_t transforms)
{
    char text[PITH_EXPECT_TEXT], line[160];
    const double speed = pith_expect_speed(job->backend);
    const double each = pith_expect_sense(job, pith_sense_tried(sense), speed);
    const struct pith_sense_effort e = pith_expect_effort(job, pith_sense_tried(sense));
    const double way = each / (1 + e.back + e.head / job->model->shape.layers);
    double all = 0;
    if (c->stages) return;
    for (size_t i = 0; i < transforms && c->stages + 1 < PITH_AUTO_STAGES; i++)
        c->expected[c->stages++] = each + (i ? PITH_EXPECT_TRANSFORM * way : 0);
    c->expected[c->stages++] = run_seconds(job, &c->requested, speed) +
                               pith_expect_check(job, speed);
    for (size_t i = 0; i < c->stages; i++) all += c->expected[i];
    if (!c->notice.say || !(all > 0)) return;
    (void)snprintf(line, sizeof line,
                   "time: -r auto: %s expected, of them %.0f%% to find the grids",
                   pith_expect_text(all, text), 100 * (1 - c->expected[c->stages - 1] / all));
    c->notice.say(c->notice.ctx, line);
}

void pith_auto_clock_next(struct pith_auto_clock *c)
{
    const double share = share_of(c, 1);
    if (share > c->shown) c->shown = share;
    if (c->now + 1 < c->stages) c->now++;
}
