/* The files that hold activations. */
#include "quantize/calibration.h"

#include "base/mem.h"
#include "quantize/run.h"

#include <stdio.h>

static enum pith_status open_one(struct pith_run *r, const char *name, uint64_t bytes,
                                 struct pith_scratch_file *f, struct pith_error *err)
{
    char *path = pith_path_join(r->job->partial, name);
    const enum pith_status s = path ? pith_scratch_file_open(path, bytes, f, err)
                                    : pith_fail_nomem(err, name);
    pith_free(path);
    return s;
}

enum pith_status pith_calibration_own(struct pith_run *r, const char *name, uint64_t bytes,
                                      struct pith_scratch_file *f, struct pith_error *err)
{
    return pith_scratch_file_own(r->job->partial, name, pith_ranks_own(r->ranks), bytes, f, err);
}

enum pith_status pith_calibration_keep(struct pith_run *r, const char *name, uint64_t bytes,
                                       struct pith_scratch_file *f, struct pith_error *err)
{
    return pith_run_writes(r) ? open_one(r, name, bytes, f, err)
                              : pith_calibration_own(r, name, bytes, f, err);
}

/* Room for what one stage of a block leaves for the next. It saves time, nothing else: on a disk
 * without that room the stages are computed again for each site. */
static enum pith_status open_between(struct pith_run *r, struct pith_error *err)
{
    enum { SPARE = 64 << 20 }; /* for what is still written in addition to the reserved files */
    const uint64_t tokens = (uint64_t)r->cal.acts[0].windows * r->job->calib.length;
    const uint64_t bytes = tokens * pith_stages_width(&r->job->model->plans) * sizeof(float);
    if (!r->job->needs_round || pith_job_learns(r->job)) return PITH_OK;
    const bool alone = pith_ranks_alone(r->ranks);
    if (r->job->needs_round & PITH_NEED_DRIFT && alone) {
        PITH_TRY(open_one(r, "pith.acts.between.float", bytes, &r->cal.between_float, err));
        return open_one(r, "pith.acts.between", bytes, &r->cal.between, err);
    }
    const uint64_t some = bytes ? bytes : 1;
    if (r->job->needs_round & PITH_NEED_DRIFT)
        PITH_TRY(
            pith_calibration_own(r, "pith.acts.between.float", some, &r->cal.between_float, err));
    if (!alone) return pith_calibration_own(r, "pith.acts.between", some, &r->cal.between, err);
    char *path = pith_path_join(r->job->partial, "pith.acts.between");
    if (!path) return pith_fail_nomem(err, "a file's name");
    const uint64_t room = pith_disk_free(r->job->partial);
    struct pith_error why = {0};
    enum pith_status s = PITH_OK;
    const bool there = pith_path_exists(path) || room >= bytes + SPARE;
    if (!there || pith_scratch_file_open(path, bytes, &r->cal.between, &why) != PITH_OK) {
        char text[160];
        snprintf(text, sizeof text,
                 "%s: no room for %llu MiB of intermediate results, so they are computed again",
                 r->job->partial, (unsigned long long)(bytes >> 20));
        s = pith_unlink(path, err);
        if (s == PITH_OK) s = pith_progress_step(&r->job->options->progress, text, 0, 1, err);
    }
    pith_free(path);
    return s;
}

/* The windows here, in a file that has room for all, so that any number of ranks can go on. */
static struct pith_acts acts_in(const struct pith_run *r, float *data)
{
    const size_t all = r->job->calib.windows;
    const struct pith_window_span here = pith_windows_here(r, all);
    struct pith_acts a = {.x = data,
                          .windows = here.end - here.first,
                          .length = r->job->calib.length,
                          .hidden = r->job->model->shape.hidden,
                          .carried = pith_plans_carried(&r->job->model->plans),
                          .first = here.first,
                          .all = all};
    a.stride = pith_acts_stride(pith_acts_floats(&a));
    a.x += here.first * a.stride;
    return a;
}

enum pith_status pith_calibration_open(struct pith_run *r, struct pith_error *err)
{
    const size_t hidden = r->job->model->shape.hidden;
    const size_t carried = pith_plans_carried(&r->job->model->plans);
    const size_t stride = pith_acts_stride(r->job->calib.length * (hidden + carried));
    const size_t bytes = r->job->calib.windows * stride * sizeof(float);
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "pith.acts.%d", i);
        PITH_TRY(open_one(r, name, bytes, &r->cal.acts_file[i], err));
        r->cal.acts[i] = acts_in(r, r->cal.acts_file[i].data);
    }
    PITH_TRY(open_between(r, err));
    PITH_TRY(pith_learn_open(r, err));
    PITH_TRY(pith_collector_init(&r->cal.collector, r->job->backend, r->job->model,
                                 r->job->calib.length, err));
    r->cal.collector.token_limit = r->job->recipe.round_options.token_limit;
    return pith_windows_open_relay(r, err);
}

void pith_calibration_swap(struct pith_calibration *cal)
{
    const struct pith_acts a = cal->acts[0];
    cal->acts[0] = cal->acts[1];
    cal->acts[1] = a;
    pith_learn_swap(&cal->learn);
}

enum pith_status pith_calibration_check(const struct pith_calibration *cal, struct pith_error *err)
{
    for (int i = 0; i < 2; i++) {
        PITH_TRY(pith_scratch_file_check(&cal->acts_file[i], "pith.acts", err));
        PITH_TRY(pith_scratch_file_check(&cal->learn.file[i], "pith.acts.float", err));
        PITH_TRY(pith_scratch_file_check(&cal->learn.whole[i], "pith.acts.whole", err));
    }
    PITH_TRY(pith_scratch_file_check(&cal->between_float, "pith.acts.between.float", err));
    PITH_TRY(pith_scratch_file_check(&cal->sites, "pith.acts.sites", err));
    PITH_TRY(pith_scratch_file_check(&cal->guiding.file, "pith.guide", err));
    return pith_scratch_file_check(&cal->between, "pith.acts.between", err);
}

void pith_calibration_close(struct pith_calibration *cal)
{
    pith_collector_free(&cal->collector);
    for (int i = 0; i < 2; i++) pith_scratch_file_close(&cal->acts_file[i]);
    pith_scratch_file_close(&cal->between);
    pith_scratch_file_close(&cal->sites);
    pith_scratch_file_close(&cal->sent);
    pith_scratch_file_close(&cal->between_float);
    pith_learn_close(&cal->learn);
    pith_guiding_close(&cal->guiding);
}
