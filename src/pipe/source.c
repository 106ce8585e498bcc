/* The input, in full, as each unit reads it: a run that goes on later must go on with the same. */
#include "pipe/run.h"

#include "base/mem.h"
#include "io/digest.h"

#include <string.h>

/* A tensor of the input, and its hash. */
struct read {
    const struct pith_checkpoint *in;
    const struct pith_tensor *tensor;
    const char *want; /* what it was, or NULL */
    char hex[PITH_SHA256_HEX];
};

static void hash_task(void *ctx, size_t task, unsigned thread)
{
    struct read *t = (struct read *)ctx + task;
    (void)thread;
    struct pith_sha256 *h = pith_sha256_new();
    pith_tensor_hash(t->tensor, h);
    pith_sha256_finish(h, t->hex);
    pith_checkpoint_release(t->in, t->tensor);
}

/* Hashes them in order, some at a time, so that the listener can stop it. */
static enum pith_status hash_all(const struct pith_job *job, struct read *list, size_t count,
                                 const char *what, struct pith_error *err)
{
    const size_t most = 4 * (size_t)pith_pool_threads(pith_backend_pool(job->backend));
    for (size_t at = 0; at < count; at += most) {
        const size_t n = count - at < most ? count - at : most;
        pith_pool_run(pith_backend_pool(job->backend), n, hash_task, list + at);
        if (what)
            PITH_TRY(pith_progress_step(&job->options->progress, what, (double)(at + n),
                                        (double)count, err));
    }
    for (size_t i = 0; i < count; i++)
        if (list[i].hex[0] == '\0') return pith_fail_nomem(err, list[i].tensor->name);
    return PITH_OK;
}

enum pith_status pith_source_note(struct pith_run *r, size_t index, json_t *unit,
                                  struct pith_error *err)
{
    const struct pith_checkpoint *in = r->job->model->checkpoint;
    size_t most, count = 0;
    const size_t first = pith_unit_tensors(r->job->model, index, &most);
    struct read *list = pith_zalloc(most, sizeof *list);
    json_t *source = json_object();
    enum pith_status s = list && source ? PITH_OK : pith_fail_nomem(err, "the input's hashes");
    for (size_t i = first; i < first + most && s == PITH_OK; i++)
        if (pith_unit_of(&r->job->model->plans, in->tensors[i].name) == index)
            list[count++] = (struct read){.in = in, .tensor = &in->tensors[i]};
    pith_phases_begin(&r->phases);
    if (s == PITH_OK) s = hash_all(r->job, list, count, NULL, err);
    pith_phases_mark(&r->phases, PITH_PHASE_READ);
    bool bad = false;
    for (size_t i = 0; i < count && s == PITH_OK && !bad; i++)
        bad = json_object_set_new(source, list[i].tensor->name, json_string(list[i].hex)) != 0;
    if (s == PITH_OK && (bad || json_object_set(unit, "source", source) != 0))
        s = pith_fail_nomem(err, "the journal");
    json_decref(source);
    pith_free(list);
    return s;
}

void pith_source_forget(json_t *unit)
{
    (void)json_object_del(unit, "source");
}

/* The tensors of the input that finished units read, each once. */
static size_t list_read(const struct pith_run *r, struct read *list)
{
    const struct pith_checkpoint *in = r->job->model->checkpoint;
    size_t count = 0;
    for (size_t i = 0; i < in->count; i++) {
        const char *name = in->tensors[i].name;
        const json_t *unit =
            json_array_get(r->journal.units, pith_unit_of(&r->job->model->plans, name));
        const json_t *source = json_object_get(unit, "source");
        if (!unit) continue;
        const char *want = json_string_value(json_object_get(source, name));
        list[count++] =
            (struct read){.in = in, .tensor = &in->tensors[i], .want = want ? want : ""};
    }
    return count;
}

enum pith_status pith_source_check(struct pith_run *r, struct pith_error *err)
{
    if (json_array_size(r->journal.units) == 0) return PITH_OK;
    struct read *list = pith_zalloc(r->job->model->checkpoint->count, sizeof *list);
    if (!list) return pith_fail_nomem(err, "the input's hashes");
    const size_t count = list_read(r, list);
    pith_phases_begin(&r->phases);
    enum pith_status s = hash_all(r->job, list, count, "comparing the input", err);
    pith_phases_mark(&r->phases, PITH_PHASE_REREAD);
    for (size_t i = 0; i < count && s == PITH_OK; i++)
        if (strcmp(list[i].hex, list[i].want) != 0)
            s = pith_fail(err, PITH_IO,
                          "%s: %s is not what the interrupted run read; remove %s and start again",
                          r->job->options->model, list[i].tensor->name, r->job->partial);
    pith_free(list);
    return s;
}
