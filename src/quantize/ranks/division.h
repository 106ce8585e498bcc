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

/* How many linears of the site are rounded before these are stored: alone one, whose floats are
 * freed before the next is rounded. */
uint32_t pith_division_batch(const struct pith_division *d);
/* Whether linear i is rounded here, all or some of it. */
bool pith_division_has(const struct pith_division *d, uint32_t i);
/* Whether the factor of the site's Hessian is needed here, for rows or to make it with others; with
 * which others, NULL: alone. */
bool pith_division_factors(const struct pith_division *d);
struct pith_ranks *pith_division_factorers(const struct pith_division *d);
/* pith_round() of those rows of linear i that are rounded here. Then whether all are: if so, its
 * measures are the caller's to take. */
enum pith_status pith_division_round(const struct pith_division *d, uint32_t i,
                                     const struct pith_rounder *rounder,
                                     const struct pith_round_job *job, struct pith_rounded *out,
                                     struct pith_error *err);
bool pith_division_whole(const struct pith_division *d, uint32_t i);

/* The site's linears, made[site->count], become whole everywhere; an expert's stay where they are.
 * What is measured of those that were divided is found by one rank each, and is everyone's after
 * pith_division_share(), to be called once they are stored. */
enum pith_status pith_division_join(const struct pith_division *d, struct pith_rounded *made,
                                    struct pith_error *err);
enum pith_status pith_division_share(const struct pith_division *d, struct pith_rounded *made,
                                     struct pith_error *err);

/* A linear that `owner` alone has rounded becomes everyone's. */
enum pith_status pith_rounded_share(const struct pith_run *r, const struct pith_choice *c,
                                    unsigned owner, struct pith_rounded *m, struct pith_error *err);

#endif
