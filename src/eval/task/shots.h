/* eval/task/shots.h: which examples stand in front of a question: those that Python's
 * random.Random(1234).sample() would take, as the harness draws them. */
#ifndef PITH_EVAL_TASK_SHOTS_H
#define PITH_EVAL_TASK_SHOTS_H

#include "eval/task/questions.h"

/* MT19937 (Matsumoto and Nishimura 1998). */
struct pith_twister {
    uint32_t state[624];
    size_t at;
};
/* As random.Random(seed). */
void pith_twister_seed(struct pith_twister *t, uint32_t seed);
/* `count` different numbers below n, count <= n, as random.sample(range(n), count). PITH_NOMEM. */
enum pith_status pith_twister_sample(struct pith_twister *t, size_t n, size_t count, size_t *out,
                                     struct pith_error *err);

/* The examples of a subject's questions, which have to be chosen in order: every choice depends on
 * those before. */
struct pith_shots {
    const struct pith_task_source *source;
    const struct pith_subject *subject;
    size_t wanted;
    struct pith_twister twister;
    size_t *index; /* [wanted + 1] of the pool's questions, in order: the examples */
};
/* PITH_ARG when the pool is too small. */
enum pith_status pith_shots_begin(struct pith_shots *s, const struct pith_task_source *source,
                                  const struct pith_subject *subject, size_t wanted,
                                  struct pith_error *err);
/* Fills index[0 .. wanted - 1] for question number `question` of source->questions. */
enum pith_status pith_shots_choose(struct pith_shots *s, size_t question, struct pith_error *err);
/* Where those indices point. */
const struct pith_questions *pith_shots_pool(const struct pith_shots *s);
void pith_shots_free(struct pith_shots *s);

#endif
