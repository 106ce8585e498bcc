#include <pith/quantize.h>

#include "api/context.h"
#include "pipe/run.h"
#include "tok/door.h"

void pith_quantize_defaults(struct pith_quantize_options *o)
{
    *o = (struct pith_quantize_options){
        .recipe = "awq",
        .calib_tokens = 131072,
        .seq_len = 2048,
        .max_shard = 5000000000u,
    };
}

static enum pith_status check(const struct pith_quantize_options *o, bool convert, char **report,
                              struct pith_error *err)
{
    json_t *j = NULL;
    PITH_TRY(pith_pipe_check(o, convert, &j, err));
    if (report) return pith_report_text(j, report, err);
    json_decref(j);
    return PITH_OK;
}

enum pith_status pith_quantize_check(const struct pith_quantize_options *o, char **report,
                                     struct pith_error *err)
{
    return check(o, false, report, err);
}

enum pith_status pith_quantize(struct pith_context *c, const struct pith_quantize_options *o,
                               char **report, struct pith_error *err)
{
    json_t *j = NULL;
    if (!o->model || !o->out)
        return pith_fail(err, PITH_ARG, "a model and an output folder are needed");
    struct pith_door door;
    PITH_TRY(pith_door_read(o->crlf, &door, err));
    PITH_TRY(pith_pipe_quantize(c->backend, o, false, &j, err));
    if (report) return pith_report_text(j, report, err);
    json_decref(j);
    return PITH_OK;
}

static struct pith_quantize_options converting(const struct pith_convert_options *o)
{
    struct pith_quantize_options all;
    pith_quantize_defaults(&all);
    all.model = o->model;
    all.out = o->out;
    all.recipe = "rtn";
    all.weights = o->weights ? o->weights : "none";
    all.container = o->container;
    all.targets = o->targets;
    if (o->max_shard) all.max_shard = o->max_shard;
    all.allow_error = o->allow_error;
    all.resume = o->resume;
    all.progress = o->progress;
    return all;
}

enum pith_status pith_convert_check(const struct pith_convert_options *o, char **report,
                                    struct pith_error *err)
{
    const struct pith_quantize_options all = converting(o);
    return check(&all, true, report, err);
}

enum pith_status pith_convert(struct pith_context *c, const struct pith_convert_options *o,
                              char **report, struct pith_error *err)
{
    json_t *j = NULL;
    if (!o->model || !o->out || (!o->container && !pith_place_is_file(o->out)))
        return pith_fail(err, PITH_ARG, "a model, a container and an output folder are needed");
    const struct pith_quantize_options all = converting(o);
    PITH_TRY(pith_pipe_quantize(c->backend, &all, true, &j, err));
    if (report) return pith_report_text(j, report, err);
    json_decref(j);
    return PITH_OK;
}

enum pith_status pith_verify_check(const struct pith_verify_options *o, struct pith_error *err)
{
    for (size_t i = 0; i < o->targets.count; i++) {
        struct pith_target ignored;
        PITH_TRY(pith_target_parse(o->targets.item[i], &ignored, err));
    }
    return PITH_OK;
}

enum pith_status pith_verify(struct pith_context *c, const struct pith_verify_options *o,
                             char **report, struct pith_error *err)
{
    json_t *j = NULL;
    const enum pith_status s = pith_pipe_verify(c->backend, o, &j, err);
    if (!j) return s;
    if (!report) {
        json_decref(j);
        return s;
    }
    const enum pith_status t = pith_report_text(j, report, err);
    return t == PITH_OK ? s : t;
}
