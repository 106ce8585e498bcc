/* serve/grammar/number.h: numbers of a range as JSON writes them. */
#ifndef PITH_SERVE_GRAMMAR_NUMBER_H
#define PITH_SERVE_GRAMMAR_NUMBER_H

#include "serve/grammar/net.h"

#include <jansson.h>

/* Digits before the point, behind it, and of the exponent of what is written. */
enum { PITH_NUMBER_WHOLE = 18, PITH_NUMBER_FRACTION = 17, PITH_NUMBER_EXPONENT = 2 };
/* Digits behind the point of a bound, at most. */
enum { PITH_BOUND_FRACTION = 40 };

struct pith_bound {
    bool set, exclusive, negative;
    bool huge; /* beyond all numbers that are written */
    uint64_t whole;
    char fraction[PITH_BOUND_FRACTION + 1]; /* without zeros at the end */
};

/* The bound that a JSON number is, as the shortest decimal that is it. PITH_UNSUPPORTED: it has too
 * many digits. */
enum pith_status pith_bound_read(const json_t *number, bool exclusive, struct pith_bound *out,
                                 struct pith_error *err);
/* Below 0, 0, above 0: as a lies to b; of equal ones the exclusive one is the larger. */
int pith_bound_compare(const struct pith_bound *a, const struct pith_bound *b);

/* Steps of units / 10^places; no units: of no size. */
enum { PITH_STEP_PLACES = 9 };
struct pith_number_step {
    uint64_t units;
    int places;
};

/* Numbers within bounds. */
struct pith_number_set {
    bool integer;                 /* whole ones alone */
    struct pith_number_step step; /* multiples of it alone */
    struct pith_bound lo, hi;
};

/* Adds ways from a node to another by each of them, in decimal. Without bounds and step numbers may
 * have an exponent; with them they have none. */
void pith_net_number(struct pith_net *n, uint32_t from, const struct pith_number_set *what,
                     uint32_t to);

#endif
