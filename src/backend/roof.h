/* backend/roof.h: what this machine can do at most, to hold a speed against: how fast memory can be
 * read, and how many multiply-adds a second its units make. Measured, since neither stands in any
 * register, and since a shared machine gives less than its maker says. */
#ifndef PITH_BACKEND_ROOF_H
#define PITH_BACKEND_ROOF_H

#include "backend/backend.h"

/* Memory that is read: more than any cache holds that a process has for itself. */
#define PITH_ROOF_BYTES ((size_t)512 << 20)

/* Bytes a second of one linear read of huge pages, by one thread and by all threads of the backend
 * at once (the fastest instructions of the CPU, whatever tier the backend is limited to).
 * Operations a second of all threads, a multiply-add being two, by the instructions of the
 * backend's tier; 0 where it has none of that kind. */
struct pith_roof_sample {
    double read_one, read_all;
    double f32, int8, bf16;
};

struct pith_roof;
/* b is borrowed. PITH_NOMEM when PITH_ROOF_BYTES are not to be had. */
enum pith_status pith_roof_new(struct pith_backend *b, struct pith_roof **out,
                               struct pith_error *err);
void pith_roof_free(struct pith_roof *r); /* NULL is allowed */

/* One measurement; takes some hundredths of a second a field. Not from inside a pool task. Several
 * of them, spread over the time of the work that is compared with them, make a roof. */
void pith_roof_measure(struct pith_roof *r, struct pith_roof_sample *out);

#endif
