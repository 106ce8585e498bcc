/* choose/kv_plan.h: what choose/kv_auto.h chooses for, and among what: the keys and the values of
 * each layer, in each candidate of backend/cache/kv.def that the model's heads can be stored in.
 * Inside choose/kv_auto.c and choose/kv_measure.c only. */
#ifndef PITH_CHOOSE_KV_PLAN_H
#define PITH_CHOOSE_KV_PLAN_H

#include "backend/cache/kinds.h"
#include "choose/kv_auto.h"
#include "model/kv/kv.h"

/* The keys, the values, or (of latents) both of a layer. */
enum pith_kv_side { PITH_KV_KEYS, PITH_KV_VALUES, PITH_KV_BOTH, PITH_KV_SIDES };

/* A part in a candidate, and what that loses. */
struct pith_kv_plan_row {
    size_t candidate;
    bool near;         /* queries see their own page in floats */
    double loss, mean; /* KL without the noise of few positions (kld_capped), and with it */
};
struct pith_kv_plan_part {
    uint32_t layer;
    enum pith_kv_side side;
    struct pith_kv_plan_row row[2 * PITH_KV_CANDIDATES]; /* the same ones in all parts of a side */
    size_t rows;
};

struct pith_kv_plan {
    const struct pith_kv_auto_job *job;
    const char *name[PITH_KV_CANDIDATES];          /* NULL: the model's heads cannot be stored so */
    char offset[PITH_KV_CANDIDATES][PITH_KV_TEXT]; /* of keys without what is known of them
                                                      beforehand; "": they are stored as they are */
    struct pith_kv_format format[PITH_KV_CANDIDATES]; /* for keys and values alike */
    struct pith_kv_plan_part
        *part; /* of a layer the keys and the values, one after the other, or both in one */
    size_t parts;
    size_t context;               /* where bits are counted */
    double numbers;               /* of a position, over all layers */
    struct pith_kv_format *layer; /* [layers] */
    char identity[PITH_SHA256_HEX];
    char *path;   /* of the record */
    bool levels;  /* formats that need levels of these weights are among them */
    json_t *file; /* the record, or NULL */
};

/* Fills p, whose job and levels are set. PITH_ARG where nothing is cached by position, PITH_NOMEM;
 * pith_kv_plan_free() is right in any case. */
enum pith_status pith_kv_plan_find(struct pith_kv_plan *p, struct pith_error *err);
void pith_kv_plan_free(struct pith_kv_plan *p);
/* Without what needs levels: those of a model that is still to be made are not known. */
void pith_kv_plan_drop_levels(struct pith_kv_plan *p);

/* Makes a layer's format what that row of that side says. */
void pith_kv_plan_set(const struct pith_kv_plan *p, struct pith_kv_format *f,
                      enum pith_kv_side side, const struct pith_kv_plan_row *row);

#endif
