#include "quantize/ranks/ranks.h"

#include "base/mem.h"
#include "quantize/memory_estimate.h"
#include "quantize/run.h"

#include <stdio.h>

/* --- who does what ---------------------------------------------------------------------------- */

struct pith_ranks *pith_job_ranks(const struct pith_job *job)
{
    struct pith_ranks *ranks = pith_backend_ranks(job->backend);
    return pith_ranks_alone(ranks) || job->options->rehearse ? NULL : ranks;
}

bool pith_run_writes(const struct pith_run *r)
{
    return pith_ranks_first(r->ranks);
}

bool pith_job_writes(const struct pith_job *job)
{
    return pith_ranks_first(pith_backend_ranks(job->backend));
}

bool pith_job_receives(const struct pith_job *job)
{
    return pith_job_ranks(job) && pith_ranks_first(pith_job_ranks(job));
}

/* What goes round of a site's statistics, and its linears, of which one after the other is there
 * where one rank works alone. */
static uint64_t site_bytes(const struct pith_job *job, const struct pith_relay *relay,
                           uint32_t layer, const struct pith_site_spec *site)
{
    const unsigned ranks = pith_ranks_count(relay->ranks);
    const uint64_t rows = job->fast ? site->dim : pith_ranks_panel(ranks, site->dim);
    uint64_t made = 0;
    for (uint32_t i = 0; i < site->count; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, site->first + i);
        if (!c->grid.format) continue;
        made = pith_sum_bytes(made, pith_job_made_bytes(job, c));
        made += c->rows * (uint64_t)(2 * sizeof(double)); /* what each row loses */
        made += pith_ranks_count(relay->ranks) * sizeof(uint32_t);
    }
    made = pith_sum_bytes(made, rows * site->dim * sizeof(float));
    return job->needs_round & PITH_NEED_HESSIAN
               ? pith_sum_bytes(made, pith_cholesky_scratch(ranks, site->dim))
               : made;
}

uint64_t pith_ranks_bytes(const struct pith_job *job)
{
    const struct pith_relay relay = {.ranks = pith_job_ranks(job)};
    uint64_t most = 0;
    if (!relay.ranks) return 0;
    if (!pith_job_calibrates(job)) return pith_writers_bytes(job);
    for (uint32_t layer = 0; layer < job->model->shape.layers; layer++) {
        const struct pith_layer_plan *l = pith_job_plan(job, layer);
        for (uint32_t i = 0; i < l->sites; i++) {
            const uint64_t bytes = site_bytes(job, &relay, layer, &l->site[i]);
            most = bytes > most ? bytes : most;
        }
    }
    const uint64_t results = job->model->plans.most_linears *
                             (uint64_t)(sizeof(struct pith_linear_result) + sizeof(unsigned));
    return pith_sum_bytes(most + results + pith_writers_bytes(job),
                          job->calib.windows * (uint64_t)PITH_SHA256_HEX);
}

enum pith_status pith_ranks_digest(struct pith_ranks *ranks, const struct pith_acts *a,
                                   char hex[PITH_SHA256_HEX], struct pith_error *err)
{
    const size_t all = pith_acts_all(a), floats = pith_acts_floats(a);
    hex[0] = '\0';
    if (!a->x) return PITH_OK;
    char(*of)[PITH_SHA256_HEX] = pith_zalloc(all, sizeof *of);
    bool good = of;
    for (size_t w = 0; w < a->windows && good; w++)
        good = pith_sha256_hex(pith_acts_window(a, w), floats * sizeof(float), of[a->first + w]);
    enum pith_status s = good ? PITH_OK : pith_fail_nomem(err, "a digest");
    if (s == PITH_OK) s = pith_ranks_share_parts(ranks, of, all, sizeof *of, err);
    if (s == PITH_OK && !pith_sha256_hex(of, all * sizeof *of, hex))
        s = pith_fail_nomem(err, "a digest");
    pith_free(of);
    return s;
}

/* --- the run ---------------------------------------------------------------------------------- */

enum pith_status pith_ranks_begin(const struct pith_job *job, bool *done, struct pith_error *err)
{
    struct pith_ranks *ranks = pith_backend_ranks(job->backend);
    char what[160];
    (void)snprintf(what, sizeof what, "%s %s", job->fingerprint,
                   job->options->resume ? "resumed" : "new");
    PITH_TRY(pith_ranks_agree(ranks, what, "an input, options or a version", err));
    return pith_ranks_share(ranks, 0, done, sizeof *done, err);
}

enum pith_status pith_ranks_units(const struct pith_run *r, size_t *done, struct pith_error *err)
{
    uint64_t n = *done;
    PITH_TRY(pith_ranks_share(r->ranks, 0, &n, sizeof n, err));
    *done = (size_t)n;
    return PITH_OK;
}
