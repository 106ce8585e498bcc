/* io/foreign.h: what a folder that holds no model for pith holds instead. */
#ifndef PITH_IO_FOREIGN_H
#define PITH_IO_FOREIGN_H

#include "base/status.h"

/* PITH_UNSUPPORTED, named for what it is, when files of a folder without a config.json say that a
 * model is there in another form (io/foreign.c); PITH_OK when nothing does, or it has one. */
enum pith_status pith_foreign_check(const char *dir, struct pith_error *err);
/* PITH_UNSUPPORTED for a folder with a tensor that only Mistral's own form has. */
enum pith_status pith_foreign_tensor(const char *dir, const char *tensor, struct pith_error *err);

#endif
