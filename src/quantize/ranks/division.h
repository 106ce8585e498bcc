/* quantize/ranks/division.h: which rows of a site's linears are rounded here, and how what several
 * ranks have rounded becomes everyone's.
 *
 * Rows are divided among all ranks; where a rounder couples them (pith_round_cut()), one rank has
 * all rows of a linear; an expert's linears are its owner's (experts.h). Alone, all rows are here,
 * and the calls that join and share do nothing. All ranks make the same calls in the same order. */
#ifndef PITH_QUANTIZE_RANKS_DIVISION_H
#define PITH_QUANTIZE_RANKS_DIVISION_H

#include "quant/round.h"

struct pith_choice;
struct pith_qmat;
struct pith_ranks;
struct pith_rounded;
struct pith_run;
struct pith_site_spec;
struct pith_work;

struct pith_division {
    struct pith_work *work; /* borrowed, as are the next three */
    const struct pith_site_spec *site;
    const struct pith_choice *choice; /* [site->count] */
    struct pith_ranks *ranks;
    uint32_t *first; /* [site->count][ranks + 1], owned: from which row on rank k has rows; NULL:
                      * alone */
};

/* The caller closes *d, also after a failure: PITH_NOMEM. */
enum pith_status pith_division_open(struct pith_work *w, const struct pith_site_spec *site,
                                    struct pith_division *d, struct pith_error *err);
void pith_division_close(struct pith_division *d);

/* How many linears of the site are rounded before they are stored: all if ranks divide the site,
 * else one, whose floats are freed before the next is rounded. */
uint32_t pith_division_batch(const struct pith_division *d);
/* Whether linear i is rounded here, all or some of it. */
bool pith_division_has(const struct pith_division *d, uint32_t i);
/* Whether the factor of the site's Hessian is computed here. */
bool pith_division_factors(const struct pith_division *d);
/* The ranks that compute it together, or NULL: each computes it alone. */
struct pith_ranks *pith_division_factorers(const struct pith_division *d);
/* pith_round() of those rows of linear i that are rounded here. The caller frees out->q and
 * out->lost.loss, also after a failure. */
enum pith_status pith_division_round(const struct pith_division *d, uint32_t i,
                                     const struct pith_rounder *rounder,
                                     const struct pith_round_job *job, struct pith_rounded *out,
                                     struct pith_error *err);
/* Whether these are all rows: then the caller measures the result. */
bool pith_division_whole(const struct pith_division *d, uint32_t i);

/* The site's linears, made[site->count], become whole everywhere; an expert's stay where they are.
 * Each measure of a divided linear is taken by one rank, and sent to all by pith_division_share(),
 * which is called once the linears are stored. */
enum pith_status pith_division_join(const struct pith_division *d, struct pith_rounded *made,
                                    struct pith_error *err);
enum pith_status pith_division_share(const struct pith_division *d, struct pith_rounded *made,
                                     struct pith_error *err);

/* A linear that `owner` alone has rounded becomes everyone's. The caller frees m->q, also after a
 * failure. */
enum pith_status pith_rounded_share(const struct pith_run *r, const struct pith_choice *c,
                                    unsigned owner, struct pith_rounded *m, struct pith_error *err);

#endif
