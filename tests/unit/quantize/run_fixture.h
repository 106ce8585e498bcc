/* A job on a golden model, and its journal. */
#ifndef PITH_TEST_PIPE_RUN_FIXTURE_H
#define PITH_TEST_PIPE_RUN_FIXTURE_H

#include "quantize/output/journal.h"
#include "quantize/output/work_folder.h"
#include "quantize/select.h"
#include "unit/model/arch_case.h"

struct run_fixture {
    struct pith_quantize_options options;
    struct pith_job job;
    struct pith_journal journal;
    char *model, *work;
};

/* An open input (a folder that becomes the fixture's) and the recipe rtn with per-channel weights;
 * options may be changed before pith_job_select(). */
static inline void run_open_folder(struct run_fixture *f, char *model)
{
    struct pith_error err = {0};
    memset(f, 0, sizeof *f);
    f->model = model;
    f->work = test_temp_dir();
    pith_quantize_defaults(&f->options);
    f->options.model = f->model;
    f->options.out = f->work;
    f->job.options = &f->options;
    f->job.container = pith_container_find("compressed-tensors");
    assert_ok(pith_model_open(f->model, &f->job.model, &err), err);
    assert_ok(pith_recipe_load("rtn", &f->job.recipe, &err), err);
    assert_ok(pith_recipe_set(&f->job.recipe, "weights", "int4:channel", &err), err);
    assert_ok(pith_place_name(&f->job, &err), err);
}

static inline void run_open(struct run_fixture *f)
{
    struct golden g;
    golden_load(&g, "llama_gqa_tied");
    run_open_folder(f, folder_make(g.config, g.weights));
    golden_free(&g);
}

/* The same on a case of tests/golden/arch. */
static inline void run_open_arch(struct run_fixture *f, const char *name)
{
    struct pith_error err = {0};
    json_t *file;
    char path[128];
    snprintf(path, sizeof path, ARCH_GOLDEN "%s.json", name);
    assert_ok(pith_json_load(path, 1 << 22, &file, &err), err);
    run_open_folder(f, arch_folder_make(file));
    json_decref(file);
}

static inline void run_close(struct run_fixture *f)
{
    pith_job_unselect(&f->job);
    json_decref(f->journal.units);
    pith_model_close(f->job.model);
    pith_free(f->job.partial);
    pith_free(f->job.journal_path);
    folder_remove(f->model);
    folder_remove(f->work);
}

#endif
