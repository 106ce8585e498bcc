/* choose/sense_pass.h: a pass of choose/sense.h, and what ranks do together on it. Inside
 * choose/sense*.c only.
 *
 * Each rank has a run of the windows. Sums over windows are in their order, so what each window
 * gives is stored while it is felt, and then added as the sums go round (calib/relay.h). */
#ifndef PITH_CHOOSE_SENSE_PASS_H
#define PITH_CHOOSE_SENSE_PASS_H

#include "base/file.h"
#include "calib/collect.h"
#include "calib/pairs.h"
#include "choose/sense.h"
#include "choose/sense_state.h"
#include "quantize/time_estimate.h"

/* What this rank's windows gave of a layer; all 0: one rank adds at once. */
struct pith_sense_spread {
    struct pith_ranks *ranks;
    struct pith_scratch_file sites, sent; /* calib/relay.h */
    struct pith_scratch_file dots_file, routes_file;
    char *folder;
    size_t most_rows;         /* of linears that are in memory at once */
    float *dots;              /* [windows][2][most rows][grids]: of the output, and of margins */
    double *routes;           /* [windows][2][length][PITH_ROUTER_POINTS] */
    struct pith_guide *guide; /* whose pairs lie in the room of these; NULL: of none */
    struct pith_pairs pairs;
    struct pith_scratch_file pairs_file;
    double *reads; /* [windows + 2][reads]: then what a layer begins with, and the sum */
};

/* A linear whose errors are in memory. */
struct pith_felt {
    size_t choice;
    uint32_t linear, rows, cols;
    float *error;   /* [rows][grids][cols] */
    float *grad;    /* [rows][cols]: of one window */
    double *square; /* [rows][grids] */
    double *sway;   /* the same, of margins */
    size_t first;   /* task */
    size_t row;     /* of the rows of all in memory, its first */
};

struct pith_sense_pass {
    const struct pith_job *job;
    struct pith_sense *s;
    struct pith_tape tape;
    struct pith_collector collector;
    struct pith_scratch_file acts_file, grad_file;
    struct pith_sense_state state;
    uint32_t there, back; /* layers that are done, of each way */
    bool head_done;
    bool taken, good; /* the lines of the state are looked at; they follow from each other */
    unsigned slot;    /* which half of grad_file holds the gradient */
    bool sways;       /* there are mixtures: margins' gradients lie behind those of the output */
    bool swaying;     /* these are at work */
    struct pith_route_work routing;
    size_t length, windows; /* windows: of this rank, from number `first` on, of `all` */
    size_t first, all;
    float *left; /* what a window leaves the layer with, which nobody reads */
    struct pith_sense_spread spread;
    bool judged; /* what is felt counts: no rounder has seen that window */
    size_t at;   /* of this rank's windows, the one that is felt; with several ranks */
    struct pith_block block;
    struct pith_felt *felt; /* [most linears] */
    size_t felts, tasks, rows;
    float **to; /* [most linears]: the tape's; and behind them as many that are NULL */
    unsigned needs;
    uint64_t most;      /* bytes of errors in memory at once, those of one site more */
    double done, total; /* layers begun, there and back; what all weigh, in ways there */
    struct pith_sense_effort effort;
};

/* The gradient of the stream in a window of this rank: of the output, or of margins (`swaying`). */
float *pith_sense_grad(const struct pith_sense_pass *p, unsigned slot, bool swaying, size_t window);

/* sense_parted.c. A rounder that learns from tokens loses less on them than on others. So it sees
 * the windows of even numbers (`a`: this rank's; returned: those of them), and those of odd numbers
 * judge what it makes. Rounders that see no tokens, and texts of one window, are judged by all. */
bool pith_sense_judges(const struct pith_sense_pass *p, size_t number);
double pith_sense_judged(const struct pith_sense_pass *p); /* tokens that judge, of all ranks */
struct pith_acts pith_sense_fitted(const struct pith_sense_pass *p, struct pith_acts a);

/* sense_made_up.c. The part of a linear's loss that remains when the linear behind it is rounded
 * for what it gets (s->made_up): 1, or less for those whose outputs are just values of attention.
 * These reach the linear behind without anything between that bends, so it makes up for most of
 * what rounding did to them (docs/mixed.md, "What the linear behind makes up for"). How they sway
 * routers counts in full. */
double pith_sense_left(const struct pith_layer_plan *l, uint32_t linear);

/* sense_ranks.c. With one rank the calls do nothing.
 *
 * Room for it in the folder, of this rank's own; NULL-safe to close. */
enum pith_status pith_sense_spread_open(struct pith_sense_pass *p, const char *folder,
                                        struct pith_error *err);
void pith_sense_spread_close(struct pith_sense_spread *s);
/* Before the first window of those that are felt; before one of them goes back; after it went. */
void pith_sense_spread_begin(struct pith_sense_pass *p, bool last);
void pith_sense_spread_window(struct pith_sense_pass *p, size_t window);
void pith_sense_spread_keep(struct pith_sense_pass *p, size_t window, bool last);
/* Where the products of a linear's rows go; NULL: their squares are added. */
float *pith_sense_spread_dots(const struct pith_sense_pass *p, const struct pith_felt *f);
/* After the last window: the sums over the windows of all, everywhere. */
enum pith_status pith_sense_spread_meet(struct pith_sense_pass *p, bool last, bool sways,
                                        struct pith_error *err);
/* The rank that rounds a linear to a grid; its errors and its cell go to all. */
unsigned pith_sense_owner(const struct pith_sense_pass *p, const struct pith_felt *f, size_t grid);
enum pith_status pith_sense_hand_round(const struct pith_sense_pass *p, const struct pith_felt *f,
                                       struct pith_error *err);
/* A hash of a gradient, the same everywhere. */
enum pith_status pith_sense_digest_grad(const struct pith_sense_pass *p, unsigned slot,
                                        char hex[PITH_SHA256_HEX], struct pith_error *err);
/* Whether a line of the journal has that hash. */
bool pith_sense_same(const json_t *line, const char *key, const char *hex);
/* Whether rank 0's guide is as the lines say, as far as they go; it then becomes everyone's. */
enum pith_status pith_sense_guide_intact(const struct pith_sense_pass *p, bool *intact,
                                         struct pith_error *err);
/* sense_memory.c: bytes that filling a guide takes. */
uint64_t pith_sense_guide_bytes(const struct pith_job *job);

#endif
