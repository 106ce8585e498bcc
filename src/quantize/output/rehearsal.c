/* What a rehearsal estimates of the whole. */
#include "quantize/select.h"
#include "quantize/output/account.h"
#include "quantize/output/summary.h"
#include "quantize/run.h"

#include <stdio.h>

/* Of its linears, each as often as its block stands for one. */
struct means {
    double bits, weights, error, linears;
};
static struct means means_of(const struct pith_run *r, const struct pith_rehearsal *all)
{
    struct means m = {0};
    const json_t *unit, *entry;
    size_t i, k;
    json_array_foreach (r->journal.units, i, unit)
        json_array_foreach (json_object_get(unit, "linears"), k, entry) {
            const size_t which = i > all->count ? all->count : i; /* learned together */
            const double times = i ? all->block[which - 1].like : 1,
                         n = times * pith_account_weights(entry);
            m.bits += n * json_real_value(json_object_get(entry, "bits_per_weight"));
            m.weights += n;
            m.error += times * json_real_value(json_object_get(entry, "relative_error"));
            m.linears += times;
        }
    return m;
}

/* "rehearsed blocks 1, 2 and 9 of 32", or "1 to 4", those that are learned together. */
static void say_blocks(struct pith_report *to, const struct pith_run *r,
                       const struct pith_rehearsal *all)
{
    const uint32_t blocks = r->job->model->shape.layers,
                   together = all->together < blocks ? all->together : blocks;
    struct pith_str text = {0};
    if (together > 1) pith_str_printf(&text, "s 1 to %u", together);
    else if (all->count != 1) pith_str_puts(&text, "s");
    for (uint32_t i = 0; together < 2 && i < all->count; i++)
        pith_str_printf(&text, "%s%u",
                        i == 0                ? " "
                        : i + 1 == all->count ? " and "
                                              : ", ",
                        all->block[i].layer + 1);
    pith_report_line(to, &(struct pith_line){0},
                     "rehearsed block%s of %u; for the whole model expect:", pith_str_text(&text),
                     blocks);
    to->failed |= text.failed;
    pith_str_free(&text);
}

static void list_blocks(struct pith_report *to, const struct pith_rehearsal *all)
{
    pith_report_list(to, "rehearsed");
    for (uint32_t i = 0; i < all->count; i++) {
        pith_report_open(to, "");
        pith_report_set(to, "layer", pith_count(all->block[i].layer));
        pith_report_set(to, "like", pith_count(all->block[i].like));
        pith_report_set(to, "seconds", pith_real(all->seconds[i], 1));
        pith_report_close(to);
    }
    pith_report_close(to);
}

/* What the whole takes. */
struct expected {
    double seconds, per_block, bits, error;
    uint64_t memory, output;
};
static struct expected expect(const struct pith_run *r, const struct pith_rehearsal *all)
{
    const struct means m = means_of(r, all);
    struct expected e = {.memory = r->job->expected,
                         .output = r->job->layout.total_bytes,
                         .bits = m.weights > 0 ? m.bits / m.weights : 0.0,
                         .error = m.linears > 0 ? m.error / m.linears : 0.0};
    for (uint32_t i = 0; i < all->count; i++) e.seconds += all->block[i].like * all->seconds[i];
    e.per_block = e.seconds / (int)r->job->model->shape.layers;
    e.seconds += all->other;
    return e;
}

static void say_expected(struct pith_report *to, const struct pith_run *r, const struct expected *e,
                         const json_t *phases)
{
    char block[32], whole[32], memory[32], size[32];
    pith_seconds_text(e->per_block, block, sizeof block);
    pith_seconds_text(e->seconds, whole, sizeof whole);
    pith_bytes_text((double)e->memory, memory, sizeof memory);
    pith_bytes_text((double)e->output, size, sizeof size);
    pith_report_label(to, "time", PITH_WRAP_NONE, "%s (%s a block)", whole, block);
    pith_summary_phases(to, phases, r->job->model->shape.layers);
    pith_report_label(to, "memory", PITH_WRAP_NONE, "%s at most", memory);
    pith_report_label(to, "size", PITH_WRAP_NONE, "%s, %.3f bits per weight in the linears", size,
                      e->bits);
    pith_report_label(to, "error", PITH_WRAP_NONE, "%.4f relative on average", e->error);
}

/* What is a tree in it because pith.json has it too. */
struct parts {
    json_t *recipe, *phases, *linears, *calibration, *groups;
};

/* The text. */
static void say_rehearsal(struct pith_report *to, const struct pith_run *r,
                          const struct pith_rehearsal *all, const struct parts *p)
{
    const struct expected e = expect(r, all);
    say_blocks(to, r, all);
    say_expected(to, r, &e, p->phases);
    pith_summary_calibration(to, p->calibration);
    pith_summary_groups(to, p->groups, json_array_size(p->linears));
    if (json_object_get(p->recipe, "linears")) pith_summary_grids(to, p->linears);
    pith_summary_cache(to, p->recipe);
    pith_rehearsed_text(to, r->job, all);
}

static void set_rehearsal(struct pith_report *to, const struct pith_run *r,
                          const struct pith_rehearsal *all, const struct parts *p)
{
    const struct expected e = expect(r, all);
    pith_report_set(to, "pith", pith_words(pith_version()));
    pith_report_set(to, "rehearsal", pith_yes(true));
    pith_report_set(to, "container", pith_words(pith_account_container(r->job)));
    pith_report_set(to, "recipe", pith_tree(p->recipe));
    pith_report_set(to, "blocks", pith_count(r->job->model->shape.layers));
    list_blocks(to, all);
    pith_report_set(to, "seconds_per_block", pith_real(e.per_block, 1));
    pith_report_set(to, "seconds_expected", pith_real(e.seconds, 1));
    pith_report_set(to, "block", pith_tree(p->phases));
    pith_report_set(to, "memory_expected_bytes", pith_whole((int64_t)e.memory));
    pith_report_set(to, "output_bytes_expected", pith_whole((int64_t)e.output));
    pith_report_set(to, "bits_per_weight", pith_real(e.bits, 3));
    pith_report_set(to, "relative_error", pith_real(e.error, 4));
    pith_report_set(to, "linears", pith_tree(p->linears));
    pith_report_set(to, "calibration", pith_tree(p->calibration));
    pith_rehearsed_set(to, r->job, all);
    if (pith_job_falls(r->job)) pith_report_set(to, "groups", pith_tree(p->groups));
}

struct pith_report *pith_run_rehearsal(struct pith_run *r, const struct pith_rehearsal *all)
{
    struct pith_report *to = pith_report_new();
    if (!to) return NULL;
    struct parts p = {.recipe = pith_job_recipe_json(r->job),
                      .phases = json_object(),
                      .linears = pith_account_joined(r, "linears"),
                      .calibration = pith_account_calibration(r->job)};
    if (!p.phases || !pith_phases_report(&all->phases, p.phases)) to->failed = true;
    if (pith_job_falls(r->job)) p.groups = pith_account_groups(p.linears);
    say_rehearsal(to, r, all, &p);
    set_rehearsal(to, r, all, &p); /* takes the parts */
    return to;
}
