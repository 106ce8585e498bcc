/* serve/scheduler.h: many requests over one model, by one thread.
 *
 *     submit -> incoming -> tickets -> answers: wait -> run -> over -> cached for their prefix
 *                                        ^          |
 *                                        +--- pages are out: the newest waits again
 *
 * Each step takes every running answer's next token and, as far as time allows, pieces of prompts.
 * An answer whose pages were taken away reads prompt and answer again: the bits are the same
 * (model/runner.h), and so is what it gets. */
#ifndef PITH_SERVE_SCHEDULER_H
#define PITH_SERVE_SCHEDULER_H

#include "model/runner.h"
#include "serve/clients.h"
#include "serve/pace.h"
#include "serve/prefix.h"
#include "serve/ticket.h"

#include <pthread.h>

/* What it works with; all borrowed. */
struct pith_scheduler_parts {
    struct pith_model *model;
    struct pith_backend *backend;
    const struct pith_tokenizer *tokenizer;
    const struct pith_ids *ends; /* that end an answer */
};
struct pith_scheduler_options {
    struct pith_runner_options runner; /* sequences: those that run, and those that are cached */
    uint32_t running, cached;          /* that run at once, that are cached, at most */
    size_t queue;                      /* tickets that wait beyond free places, at most */
    double pace;                       /* seconds that prompts may add to a step */
};

/* Rows whose logits are computed at once. */
enum { PITH_LOGIT_ROWS = 32 };

/* A row of a step whose logits are wanted. */
struct pith_wanted_row {
    struct pith_completion *answer;
    size_t row;      /* of the step */
    size_t position; /* of its token in the answer's ids, guesses behind them */
    int32_t guess;   /* what comes next if it is right; -1: none */
};

struct pith_scheduler {
    struct pith_scheduler_parts parts;
    struct pith_scheduler_options options;
    struct pith_runner runner;
    struct pith_choose choose;
    struct pith_prefix prefix;
    struct pith_pace pace;
    struct pith_clients clients;
    bool looks_up; /* sequences can be cut back */

    float *x;                         /* [rows][hidden]: of a step */
    float *some, *logits;             /* [PITH_LOGIT_ROWS] of them */
    int32_t *ids;                     /* [rows] */
    struct pith_step_span *span;      /* [running] */
    struct pith_completion **running; /* [options.running]: that have a sequence, oldest first */
    struct pith_completion **of;      /* [options.running]: of each span */
    struct pith_wanted_row *want;     /* [rows] */
    void *lists;                      /* memory of these */
    size_t runs, spans, rows, wants;

    struct pith_ticket *tickets; /* accepted, oldest first */

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    /* Under the lock: */
    struct pith_ticket *incoming, **last;
    size_t waiting; /* tickets of which no answer runs yet */
    size_t taken;   /* answers of the other tickets that are not over: their places are taken */
    uint64_t newest;
    bool started, draining, closing;
    struct pith_service_state state;
};

/* Starts the thread; on failure *s owns nothing. */
enum pith_status pith_scheduler_init(struct pith_scheduler *s,
                                     const struct pith_scheduler_parts *parts,
                                     const struct pith_scheduler_options *options,
                                     struct pith_error *err);
/* Ends what runs, joins the thread and frees what s owns. */
void pith_scheduler_free(struct pith_scheduler *s);
/* Bytes that it needs, the cache among them. */
uint64_t pith_scheduler_bytes(const struct pith_model *m,
                              const struct pith_scheduler_options *options);

/* Takes a ticket in, which is its own then. PITH_BUSY, PITH_CLOSED, PITH_LENGTH leave it. */
enum pith_status pith_scheduler_submit(struct pith_scheduler *s, struct pith_ticket *t,
                                       uint64_t *id, struct pith_error *err);
void pith_scheduler_cancel(struct pith_scheduler *s, uint64_t id);
void pith_scheduler_drain(struct pith_scheduler *s);
/* Waits until an embedding is over. */
void pith_scheduler_wait(struct pith_scheduler *s, struct pith_embedding *e);
void pith_scheduler_state(struct pith_scheduler *s, struct pith_service_state *out);

/* --- its parts, for its thread ---------------------------------------------------------------- */

/* Gives sequences to answers that wait, as far as there are pages (serve/admit.c). */
void pith_scheduler_admit(struct pith_scheduler *s);
/* Takes an answer out of those that run; keep: its sequence stays for its prefix. */
void pith_scheduler_stop(struct pith_scheduler *s, struct pith_completion *a, bool keep);
/* Makes room in the pool: drops what is cached, or lets the newest running answer wait. False when
 * there is but one left. */
bool pith_scheduler_make_room(struct pith_scheduler *s);
/* An answer of an admitted ticket is over: its place is free before its end is reported. */
void pith_scheduler_leave(struct pith_scheduler *s, const struct pith_completion *a);
/* One step (serve/step.c). On failure its answers' tickets have failed. */
void pith_scheduler_step(struct pith_scheduler *s);
/* An answer ends (serve/answer.c). */
void pith_completion_finish(struct pith_scheduler *s, struct pith_completion *a,
                            const char *finish);
/* Takes the next token of an answer from logits. False when it has ended, or failed. */
bool pith_completion_next(struct pith_scheduler *s, struct pith_completion *a, float *logits);
/* Scores a token of the prompt, its ids[position], from the logits before it. */
void pith_completion_score(struct pith_scheduler *s, struct pith_completion *a, size_t position,
                           const float *logits);
/* A ticket fails, with all its answers. */
void pith_scheduler_fail(struct pith_scheduler *s, struct pith_ticket *t,
                         const struct pith_error *error);

#endif
