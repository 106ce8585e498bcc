/* choose/plan.h: a plan: which ways to hold a model are looked at, of what engines load and of what
 * quantized files hold. What a deployment comes to is plan/search.h's. */
#ifndef PITH_CHOOSE_PLAN_H
#define PITH_CHOOSE_PLAN_H

#include "export/preflight.h"
#include "plan/search.h"

/* What there is for such a model, ranked; the options and what they point to outlive it. On failure
 * *p owns nothing. */
enum pith_status pith_plan_search_make(const struct pith_plan_model_options *options,
                                       struct pith_plan_search *p, struct pith_error *err);
void pith_plan_search_free(struct pith_plan_search *p);
/* What pith_plan_model() reports, with options as they are given to it. */
enum pith_status pith_plan_make(const struct pith_plan_model_options *options,
                                struct pith_report **report, struct pith_error *err);

/* Fills p->stored, NULL when the model is not quantized. */
enum pith_status pith_plan_stored_open(struct pith_plan_search *p, struct pith_error *err);
void pith_plan_stored_free(struct pith_plan_search *p);
/* The form of its weights, or of what pith convert makes of it in another container. */
void pith_plan_stored_form(const struct pith_plan_search *p, const struct pith_container *container,
                           struct pith_weight_form *out);
/* Whether pith convert can put all of it there with its codes. */
bool pith_plan_stored_converts(const struct pith_plan_search *p,
                               const struct pith_container *container);

/* The candidates that the options name, or those that a plan tries by itself. */
enum pith_status pith_plan_candidates_make(struct pith_plan_search *m, struct pith_error *err);

/* Whether that engine loads it there (h NULL: anywhere): c->why is empty then. */
enum pith_status pith_plan_candidate_ask(const struct pith_plan_search *m,
                                         struct pith_plan_candidate *c, size_t engine,
                                         const struct pith_hardware *h, struct pith_error *err);

/* How its weights lie in that container (NULL: in the recipe's) for an engine. */
void pith_plan_form(const struct pith_plan_search *p, const struct pith_plan_candidate *c,
                    const char *engine, const struct pith_container *container,
                    struct pith_weight_form *out);
/* Sizes of groups that linears have in that form, least first; none where the grid has no groups.
 */
size_t pith_plan_groups(const struct pith_plan_search *p, const struct pith_weight_form *f,
                        uint32_t size[PITH_PLAN_GROUPS]);

/* Looks at every combination that the options leave open: fills p->rows and p->out. */
enum pith_status pith_plan_enumerate(struct pith_plan_search *p, struct pith_error *err);

#endif
