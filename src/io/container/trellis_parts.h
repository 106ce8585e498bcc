/* io/container/trellis_parts.h: what the containers of trellises (num/trellis.h) share. Of a linear
 * W[N, K] of b bits a weight, N and K multiples of 128, they have
 *
 *     tiles    [N / 16, K / 16, unit b], or by inputs [K / 16, N / 16, unit b]
 *     inputs   F16 [K]   their factors
 *     outputs  F16 [N]
 *     a mark   I32 []    of a code that is not the plain one: its multiplier
 *
 * A struct pith_trellis_parts says in what one of them differs. What is called as a member of
 * struct pith_container fails as that does. Inside io/ only. */
#ifndef PITH_IO_CONTAINER_TRELLIS_PARTS_H
#define PITH_IO_CONTAINER_TRELLIS_PARTS_H

#include "io/parts.h"
#include "num/trellis.h"

/* The mark of a module of that code. */
struct pith_trellis_mark {
    enum pith_trellis_code code;
    const char *suffix, *name;
    uint32_t multiplier;
};

struct pith_trellis_parts {
    const char *name, *subject; /* the container's, before a message and in one */
    const char *tiles;          /* a suffix, as are the others */
    enum pith_dtype dtype;      /* of tiles */
    unsigned unit;              /* elements of a tile for each bit of a weight */
    bool by_inputs;
    /* Factors; and what older files have in their place, or NULL: their signs alone, I16 [n / 16],
     * a bit each, lowest first, set: -1. */
    const char *inputs[2], *outputs[2];
    enum pith_trellis_code plain;
    const struct pith_trellis_mark *mark;
    size_t marks;
    const char *untiled;       /* of a part of a module without tiles: why it is wrong */
    const char *misshapen;     /* what tiles of another shape or type are */
    enum pith_status unfilled; /* of a matrix that does not end with a block of 128, and why */
    const char *unfilled_why;
    /* PITH_UNSUPPORTED for a format that it does not hold. */
    enum pith_status (*holds)(const struct pith_format *f, struct pith_error *err);
};

/* accepts() and scale_dtype(). */
enum pith_status pith_trellis_accepts(const struct pith_trellis_parts *p,
                                      const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                      const struct pith_container_opts *opts,
                                      struct pith_error *err);
enum pith_dtype pith_trellis_scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype);
/* plan() of what it accepts. */
void pith_trellis_plan(const struct pith_trellis_parts *p, const struct pith_format *f,
                       uint32_t rows, uint32_t cols, struct pith_packed_set *out);
/* pack(); PITH_NUMERIC names a factor that F16 does not hold. */
enum pith_status pith_trellis_store(const struct pith_trellis_parts *p, const struct pith_qmat *q,
                                    const struct pith_container_opts *opts,
                                    struct pith_packed_set *out, struct pith_error *err);

/* What open() gives on to load() and describe(), which are members as they are. */
static inline void *pith_trellis_state(const struct pith_trellis_parts *p)
{
    return (void *)(uintptr_t)p;
}
enum pith_status pith_trellis_load(void *state, const struct pith_checkpoint *c,
                                   const char *module, uint32_t rows, uint32_t cols,
                                   struct pith_qmat *q, bool *found, struct pith_error *err);
enum pith_status pith_trellis_describe(void *state, const struct pith_checkpoint *c,
                                       const char *module, struct pith_grid *grid,
                                       struct pith_container_opts *opts, struct pith_error *err);

#endif
