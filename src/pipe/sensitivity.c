/* pith sensitivity: a job of its own that rounds but writes nothing. */
#include "pipe/sensitivity.h"

#include "base/file.h"
#include "base/json.h"
#include "pipe/sense.h"
#include "pipe/tries.h"

static void add_rows(json_t **rows, const struct pith_job *job, const struct pith_sense *s)
{
    for (size_t i = 0; i < job->choice_count; i++)
        for (size_t g = 0; g < s->grids; g++) {
            const struct pith_sense_cell *cell = pith_sense_at(s, i, g);
            const struct pith_choice *c = &job->choices[i];
            char grid[PITH_GRID_TEXT];
            if (!cell->can) continue;
            pith_grid_format(&s->grid[g], grid);
            pith_json_add(
                rows, json_pack("{s:s, s:s, s:f, s:I, s:f, s:f}", "part", c->module, "grid", grid,
                                "bits", 8.0 * (double)cell->bytes / c->rows / c->cols, "bytes",
                                (json_int_t)cell->bytes, "kld", cell->kld, "error", cell->error));
        }
}

static json_t *report_of(const struct pith_job *job, const struct pith_sense *s)
{
    json_t *rows = json_array(), *grids = json_array();
    for (size_t g = 0; g < s->grids; g++) {
        char text[PITH_GRID_TEXT];
        pith_grid_format(&s->grid[g], text);
        pith_json_add(&grids, json_string(text));
    }
    add_rows(&rows, job, s);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o}", "model", job->options->model, "round",
                     job->recipe.round->name, "container", job->container->name, "tokens",
                     (json_int_t)(job->calib.windows * job->calib.length), "context",
                     (json_int_t)job->calib.length, "grids", grids, "rows", rows);
}

static enum pith_status measure(struct pith_job *job, struct pith_candidates *t, json_t **report,
                                struct pith_error *err)
{
    PITH_TRY(pith_job_open(job, err));
    PITH_TRY(pith_sense_check(job, err));
    PITH_TRY(pith_tries_settle(job, t, err));
    PITH_TRY(pith_dir_make(job->partial, err));
    struct pith_sense s = {.grid = t->grid, .grids = t->count};
    enum pith_status r = pith_sense_run(job, job->partial, &s, err);
    (void)pith_dir_remove(job->partial, NULL);
    if (r == PITH_OK && !(*report = report_of(job, &s))) r = pith_fail_nomem(err, "the report");
    pith_sense_free(&s);
    return r;
}

enum pith_status pith_pipe_sensitivity(struct pith_backend *be,
                                       const struct pith_quantize_options *o,
                                       const struct pith_list *tries, json_t **report,
                                       struct pith_error *err)
{
    struct pith_candidates t;
    PITH_TRY(pith_tries_parse(tries, &t, err));
    struct pith_job job = {.options = o, .backend = be, .senses = true};
    enum pith_status s = measure(&job, &t, report, err);
    s = pith_checkpoint_settle(job.model ? job.model->checkpoint : NULL, false, s, err);
    pith_job_close(&job);
    return s;
}
