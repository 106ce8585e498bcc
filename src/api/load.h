/* api/load.h: a checkpoint made ready to compute. */
#ifndef PITH_API_LOAD_H
#define PITH_API_LOAD_H

#include "api/context.h"
#include "model/model.h"

/* Opens the checkpoint in dir and loads its blocks, packed. In the fast mode the head of a
 * quantized model is rounded to bytes, unless the model is the reference that others are held
 * against. On failure *out is NULL. */
enum pith_status pith_load_model(struct pith_context *context, const char *dir, bool reference,
                                 struct pith_model **out, struct pith_error *err);

#endif
