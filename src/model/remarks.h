/* model/remarks.h: what was read otherwise than a checkpoint's files, names and lists say: lines
 * for reports and accounts. None of it is a fault. */
#ifndef PITH_MODEL_REMARKS_H
#define PITH_MODEL_REMARKS_H

#include "model/model.h"

/* *out is a new list of strings, empty when there is nothing to say; numbers and the first names of
 * each kind. Linears are compared with the config's lists by the names of their tensors: nothing is
 * loaded. m is the model that c's tensors are of, or NULL when they are of none. Of a model that is
 * shown dense (pith_model_open_source()) the lines are those of the files. */
enum pith_status pith_model_remarks(const struct pith_checkpoint *c, const struct pith_model *m,
                                    json_t **out, struct pith_error *err);

#endif
