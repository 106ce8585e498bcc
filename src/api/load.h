/* api/load.h: a checkpoint made ready to compute. */
#ifndef PITH_API_LOAD_H
#define PITH_API_LOAD_H

#include "api/context.h"
#include "model/model.h"

/* Opens the checkpoint in dir and loads its blocks, packed. In the fast mode the head of a
 * quantized model is rounded to bytes, unless the model is the reference that others are compared
 * with. On failure *out is NULL. */
enum pith_status pith_load_model(struct pith_context *context, const char *dir, bool reference,
                                 struct pith_model **out, struct pith_error *err);
/* Its two steps. Between them its memory can be estimated (eval/run_memory.h). The model that was
 * opened is the caller's, also when loading fails. */
enum pith_status pith_load_open(const struct pith_context *context, const char *dir,
                                struct pith_model **out, struct pith_error *err);
enum pith_status pith_load_opened(const struct pith_context *context, struct pith_model *m,
                                  bool reference, struct pith_error *err);
/* Whether the latter rounds the head. */
bool pith_load_rounds_head(const struct pith_context *context, const struct pith_model *m,
                           bool reference);

#endif
