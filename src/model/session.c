#include "model/session.h"

static struct pith_runner_options runner_options(const struct pith_session_options *options)
{
    /* A fork has a copy of the page that it goes on in, and one more that is not full. */
    const size_t own = options->forked + 2 * 32 * (size_t)options->forks;
    return (struct pith_runner_options){.sequences = 1 + options->forks + options->others,
                                        .context = options->capacity,
                                        .rows = options->chunk,
                                        .format = options->kv,
                                        .keep = options->keep,
                                        .tokens = options->forks ? options->capacity + own : 0};
}

uint64_t pith_session_bytes(const struct pith_model *m, const struct pith_session_options *options)
{
    const struct pith_runner_options o = runner_options(options);
    return pith_runner_bytes(m, &o);
}

enum pith_status pith_session_init(struct pith_session *s, struct pith_model *m,
                                   struct pith_backend *be,
                                   const struct pith_session_options *options,
                                   struct pith_error *err)
{
    const struct pith_runner_options o = runner_options(options);
    uint32_t sequence;
    *s = (struct pith_session){0};
    PITH_TRY(pith_runner_init(&s->runner, m, be, &o, err));
    return pith_runner_open(&s->runner, &sequence, err); /* the only one */
}

void pith_session_free(struct pith_session *s)
{
    pith_runner_free(&s->runner);
    *s = (struct pith_session){0};
}

void pith_session_rewind(struct pith_session *s, size_t length)
{
    pith_runner_rewind(&s->runner, 0, length);
    s->length = pith_runner_length(&s->runner, 0);
}

enum pith_status pith_session_append(struct pith_session *s, const int32_t *ids, size_t n, float *x,
                                     struct pith_error *err)
{
    const struct pith_step_span span = {.ids = ids, .n = n, .x = x};
    PITH_TRY(pith_runner_step(&s->runner, &span, 1, err));
    s->length += n;
    return PITH_OK;
}
