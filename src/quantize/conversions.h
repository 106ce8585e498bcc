/* quantize/conversions.h: the table of conversions between containers. */
#ifndef PITH_QUANTIZE_CONVERSIONS_H
#define PITH_QUANTIZE_CONVERSIONS_H

#include "report/report.h"

/* Adds one object a grid that some container takes: "grid", and for each container the grid on
 * which it holds the codes of such a matrix from another, with " *" where scales or minimums may be
 * rounded; "itself" where no other holds it; "anew" where it cannot. */
void pith_conversions(struct pith_report *r);

#endif
