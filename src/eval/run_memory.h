/* eval/run_memory.h: the memory of a running model, estimated before its weights are read. */
#ifndef PITH_EVAL_RUN_MEMORY_H
#define PITH_EVAL_RUN_MEMORY_H

#include "base/arena.h"
#include "model/model.h"

/* In which form its weights will be in memory. */
struct pith_run_form {
    const struct pith_grid *linears, *head; /* put on that grid on load; NULL: as stored */
    size_t rows;                            /* computed at once, at most */
    bool bytes_head;                        /* rounded to bytes: pith_model_round_head() */
};
/* What loading and packing the blocks and the head of m takes, in that order: m was only opened.
 * From the layouts of the packed form and of what is read, by each matrix's spec; one matrix of
 * each kind is read to know it (model/kinds.h). */
enum pith_status pith_run_meter(const struct pith_model *m, const struct pith_backend *be,
                                const struct pith_run_form *how, struct pith_meter *meter,
                                struct pith_error *err);
/* What the process holds now, with what computing takes of every thread: where a meter begins. */
void pith_run_meter_begin(const struct pith_backend *be, struct pith_meter *meter);

#endif
