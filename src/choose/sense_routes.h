/* choose/sense_routes.h: what it costs that a mixture's tokens take other experts than they did.
 *
 * A router's choice is a step: however small an error of what it reads, some tokens stand so near
 * to another choice that they make it, and then their sum changes by all of one expert's worth. A
 * token t of margin m_t, for which another choice costs c_t nats (half the square of the change
 * times the gradient, as in choose/sense.h), under errors of its margin with variance V, has on
 * average
 *
 *     c_t P(error < -m_t) = c_t Phi(-m_t / sqrt V)
 *
 * The mean over tokens, as a function of V, is a router's curve: it grows with the root of V where
 * V is small, so that small errors cost more than their squares say, and two of them less than the
 * sum of each alone. Margins and V are relative to the mean margin of a window's tokens.
 *
 * Another choice is itself an error for the routers behind: c_t has what their curves make of it.
 *
 * What an error of some part adds to V is found as its cost is: by gradients, of margins, that go
 * back with random signs, all later routers' at once. Each of these is taken to be swayed alike. */
#ifndef PITH_CHOOSE_SENSE_ROUTES_H
#define PITH_CHOOSE_SENSE_ROUTES_H

#include "model/grad/block_grad.h"

enum { PITH_ROUTER_POINTS = 33 };

struct pith_router_curve {
    uint32_t layer;
    double kld[PITH_ROUTER_POINTS]; /* nats a token, at pith_router_variance(i) */
};
struct pith_routes {
    struct pith_router_curve *router; /* owned; one a mixture, in the order of layers */
    uint32_t routers;
};

/* Of a model's mixtures; curves are 0. PITH_NOMEM. */
enum pith_status pith_routes_open(struct pith_routes *r, const struct pith_plans *p,
                                  struct pith_error *err);
void pith_routes_free(struct pith_routes *r);
/* The router of a layer, or NULL. */
struct pith_router_curve *pith_routes_of(const struct pith_routes *r, uint32_t layer);

/* The first router that an error of that linear of a layer sways, of a site's input, of what
 * attention keeps (`linear`: PITH_NO_PART); `routers` where none does. */
uint32_t pith_routes_from(const struct pith_routes *r, const struct pith_plans *p, uint32_t layer,
                          uint32_t linear);

/* From 1e-6 to 100 by quarters of a decade. */
double pith_router_variance(size_t point);
/* The curve between its points, straight, from 0 at 0; level behind the last. And its slope. */
double pith_router_kld(const struct pith_router_curve *c, double variance);
double pith_router_slope(const struct pith_router_curve *c, double variance);
/* Sums over the routers from `from` on, which all have that variance. */
double pith_routes_kld(const struct pith_routes *r, uint32_t from, double variance);

/* --- while a layer is looked at --------------------------------------------------------------- */

/* Room for one window's rows. */
struct pith_route_work {
    struct pith_tape_rivals rivals;
    float *d_margin; /* [rows] */
    double mean;     /* margin */
    double variance[PITH_ROUTER_POINTS];
    struct pith_router_curve *curve;
    size_t rows; /* of the window at hand */
    double *log; /* [rows][PITH_ROUTER_POINTS], 0: what goes there instead of onto the curve */
    void *memory;
};
enum pith_status pith_route_work_init(struct pith_route_work *w, const struct pith_model *m,
                                      size_t rows, struct pith_error *err);
void pith_route_work_free(struct pith_route_work *w);
uint64_t pith_route_work_bytes(const struct pith_model *m, size_t rows);
/* After a forward pass over n rows: their rivals, and gradients of their margins with random signs
 * by `seed`. False where the layer is no mixture. */
bool pith_route_look(struct pith_route_work *w, struct pith_tape *t, const struct pith_block *b,
                     uint64_t seed);
/* What another choice costs those rows, whose sum has that gradient, onto the curve. Or, where the
 * gradient is that of margins behind, what it costs by swaying the routers there, whose curves are
 * settled. */
void pith_route_feel(struct pith_route_work *w, const struct pith_routes *r,
                     const struct pith_tape_read *read, bool sways);
/* Sums become means over tokens, and the curve its least concave majorant: that of a sample has
 * dents that are noise, and the solver of -r auto takes costs as concave. */
void pith_route_settle(struct pith_router_curve *c, double tokens);

#endif
