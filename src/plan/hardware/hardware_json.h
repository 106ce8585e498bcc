/* plan/hardware/hardware_json.h: hardware as JSON: the table's rows, files of others, the machine
 * at hand. */
#ifndef PITH_PLAN_HARDWARE_HARDWARE_JSON_H
#define PITH_PLAN_HARDWARE_HARDWARE_JSON_H

#include "base/json.h"
#include "plan/hardware/hardware.h"
#include "report/report.h"

/* Adds the rows of an object that says all of it. */
void pith_hardware_rows(struct pith_report *r, const struct pith_hardware *h);
/* A row from such an object, whose texts it borrows; what is missing is not known. PITH_FORMAT
 * names the key that is wrong, with `where` in front. */
enum pith_status pith_hardware_read(const json_t *object, const char *where,
                                    struct pith_hardware *out, struct pith_error *err);

#endif
