/* eval/labels.h: short names for a list of paths. */
#ifndef PITH_EVAL_LABELS_H
#define PITH_EVAL_LABELS_H

#include <pith/quantize.h>

/* What to call item i: its last component, with as many of those before it as distinguish it from
 * others; a path that stands there twice gets a number. Slashes at the end count for nothing; what
 * lies in the cache of a hub is called by its name there. The caller pith_free()s it; NULL when
 * memory is out. */
char *pith_label(const struct pith_list *paths, size_t i);

#endif
