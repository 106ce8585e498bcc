#include "api/load.h"

#include "base/progress.h"

enum pith_status pith_load_model(struct pith_context *context, const char *dir, bool reference,
                                 struct pith_model **out, struct pith_error *err)
{
    struct pith_backend *be = context->backend;
    *out = NULL;
    pith_context_look(context, dir);
    PITH_TRY(pith_model_open(dir, out, err));
    const bool fast = pith_backend_mode(be) == PITH_MODE_FAST && !reference;
    enum pith_status s = pith_model_load_blocks(*out, be, err);
    if (s == PITH_OK) s = pith_progress_step(&context->progress, "loading", 1, 3, err);
    if (s == PITH_OK) s = pith_model_pack(*out, be, err);
    if (s == PITH_OK) s = pith_progress_step(&context->progress, "loading", 2, 3, err);
    if (s == PITH_OK && fast && (*out)->container) s = pith_model_round_head(*out, be, err);
    else if (s == PITH_OK && fast)
        pith_context_tell(context, dir, "is not quantized, and is computed as in the exact mode");
    s = pith_checkpoint_settle((*out)->checkpoint, false, s, err);
    if (s == PITH_OK) return PITH_OK;
    pith_model_close(*out);
    *out = NULL;
    return s;
}
