/* api/report.h: what the calls that make a report have in common. */
#ifndef PITH_API_REPORT_H
#define PITH_API_REPORT_H

#include "report/report.h"

/* Ends a call that gives the JSON of a report: writes it where there is one (there may be none, and
 * there may be one of a call that failed with s) and json is not NULL, and frees the report. *json
 * is untouched otherwise. */
enum pith_status pith_report_give(struct pith_report **report, enum pith_status s, char **json,
                                  struct pith_error *err);

#endif
