#include "api/load.h"

#include "base/progress.h"
#include "model/remarks.h"

enum pith_status pith_load_open(const struct pith_context *context, const char *dir,
                                struct pith_model **out, struct pith_error *err)
{
    json_t *remarks;
    *out = NULL;
    pith_context_look(context, dir);
    PITH_TRY(pith_model_open(dir, out, err));
    const enum pith_status s = pith_model_remarks((*out)->checkpoint, *out, &remarks, err);
    if (s == PITH_OK) {
        pith_context_report_all(context, dir, remarks);
        json_decref(remarks);
        return PITH_OK;
    }
    pith_model_close(*out);
    *out = NULL;
    return s;
}

bool pith_load_rounds_head(const struct pith_context *context, const struct pith_model *m,
                           bool reference)
{
    return pith_backend_mode(context->backend) == PITH_MODE_FAST && m->container && !reference;
}

enum pith_status pith_load_opened(const struct pith_context *context, struct pith_model *m,
                                  bool reference, struct pith_error *err)
{
    struct pith_backend *be = context->backend;
    enum pith_status s = pith_model_load_blocks(m, be, err);
    if (s == PITH_OK) s = pith_progress_step(&context->progress, "loading", 1, 3, err);
    if (s == PITH_OK) s = pith_model_pack(m, be, err);
    if (s == PITH_OK) s = pith_progress_step(&context->progress, "loading", 2, 3, err);
    if (s == PITH_OK && pith_load_rounds_head(context, m, reference))
        s = pith_model_round_head(m, be, err);
    else if (s == PITH_OK && !reference && pith_backend_mode(be) == PITH_MODE_FAST)
        pith_context_report(context, m->checkpoint->dir,
                            "is not quantized, and is computed as in the exact mode");
    return pith_checkpoint_settle(m->checkpoint, false, s, err);
}

enum pith_status pith_load_model(struct pith_context *context, const char *dir, bool reference,
                                 struct pith_model **out, struct pith_error *err)
{
    PITH_TRY(pith_load_open(context, dir, out, err));
    const enum pith_status s = pith_load_opened(context, *out, reference, err);
    if (s == PITH_OK) return PITH_OK;
    pith_model_close(*out);
    *out = NULL;
    return s;
}
