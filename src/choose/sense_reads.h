/* choose/sense_reads.h: what rounding what layers read would cost the whole model: the inputs of
 * linears, site by site, and the keys and values of each layer.
 *
 * With x + d in place of what is read, the divergence grows, as in choose/sense.h, by
 *
 *     KL = 1/2 mean over tokens of E[(sum over i, c of d_ic g_ic)^2]
 *
 * where g is the gradient with respect to x, rows i are the tokens of a window and c its channels
 * (of a format that rotates heads, those after the rotation). Errors of different channels count as
 * independent, so that their squares add up; those of one channel's tokens do not: a rounding that
 * always errs to one side is felt as such. */
#ifndef PITH_CHOOSE_SENSE_READS_H
#define PITH_CHOOSE_SENSE_READS_H

#include "choose/sense_routes.h"
#include "model/grad/block_grad.h"
#include "model/kv/kv.h"
#include "quant/stats.h"
#include "quantize/job.h"

enum { PITH_READ_TRIES = 24 };

struct pith_reads {
    /* What is measured: grids of inputs, and caches, by name as given, alike for keys and values or
     * not. */
    struct pith_grid acts[PITH_READ_TRIES];
    struct pith_kv_format kv[PITH_READ_TRIES];
    char kv_name[PITH_READ_TRIES][PITH_KV_TEXT];
    size_t acts_count, kv_count;
    /* What is found, in nats a token; NaN: it cannot be, or has not been looked at. */
    double *site;  /* [layers][most sites][acts_count], owned */
    double *cache; /* [layers][2][kv_count], keys and values (of latents both, as keys), owned */
    /* Of mixtures (choose/sense_routes.h), else NULL: what each router behind has its margins'
     * variance grow by, laid as the others. */
    double *site_sway, *cache_sway;
    bool swaying; /* whether gradients are those of margins */
    struct pith_read_work *work;
};
/* Where those of a site begin, and of a layer's keys or values. */
static inline size_t pith_reads_site(const struct pith_reads *r, const struct pith_plans *p,
                                     uint32_t layer, uint32_t site)
{
    return ((size_t)layer * p->most_sites + site) * r->acts_count;
}
static inline size_t pith_reads_cache(const struct pith_reads *r, uint32_t layer, bool values)
{
    return (2 * (size_t)layer + values) * r->kv_count;
}

/* Adds what is to be measured: texts may list several grids with commas; of a cache each is one
 * name. "none" adds nothing; no text: the usual grids and those of backend/cache/kv.def. Caches,
 * which need the model, that it cannot have are omitted unless they were named. PITH_ARG,
 * PITH_UNSUPPORTED, PITH_LIMIT for too many. */
enum pith_status pith_reads_acts(struct pith_reads *r, const struct pith_list *texts,
                                 struct pith_error *err);
enum pith_status pith_reads_caches(struct pith_reads *r, const struct pith_model *m,
                                   const struct pith_list *names, struct pith_error *err);

/* Room for what is found, and to find it on windows of that length. PITH_NOMEM. */
enum pith_status pith_reads_open(struct pith_reads *r, const struct pith_job *job,
                                 struct pith_error *err);
void pith_reads_free(struct pith_reads *r);
/* Bytes that this takes. */
uint64_t pith_reads_bytes(const struct pith_reads *r, const struct pith_model *m, unsigned threads);
/* What must be gathered of each site beforehand (enum pith_needs). */
unsigned pith_reads_needs(const struct pith_reads *r);

/* A layer begins; what its sites were seen to hold, where something is to be known of it; then
 * windows are read, r being the context of pith_reads_seen(); and the layer ends. */
void pith_reads_begin(struct pith_reads *r, uint32_t layer);
void pith_reads_range(struct pith_reads *r, uint32_t site, const struct pith_stats *stats);
void pith_reads_seen(void *ctx, const struct pith_tape_read *read);
void pith_reads_end(struct pith_reads *r, const struct pith_routes *routes);

/* Of the layer at hand, what its windows have given so far: that many numbers, out of *r, and into
 * it. */
size_t pith_reads_count(const struct pith_reads *r);
void pith_reads_take(const struct pith_reads *r, double *out);
void pith_reads_put(struct pith_reads *r, const double *in);
/* Adds what one window gave to what those before it did; `begun` is what a layer begins with. */
void pith_reads_add(const double *begun, const double *one, size_t count, double *sum);
/* What a site was seen to hold, from that rank to all. */
enum pith_status pith_reads_share_range(struct pith_reads *r, uint32_t site,
                                        struct pith_ranks *ranks, unsigned from,
                                        struct pith_error *err);

/* A position's bits a number in a site's input, or of a layer's keys or values. */
double pith_reads_acts_bits(const struct pith_reads *r, size_t grid, uint32_t width);
double pith_reads_cache_bytes(const struct pith_reads *r, size_t kv,
                              const struct pith_state_spec *s, bool values);

#endif
