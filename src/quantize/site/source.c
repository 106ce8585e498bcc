/* The input, in full, as each unit reads it: a run that goes on later must go on with the same. */
#include "quantize/run.h"

#include "base/keyed.h"
#include "base/mem.h"
#include "io/digest.h"

#include <string.h>

static void add_bytes(void *hash, const void *data, size_t size)
{
    pith_keyed_update(hash, data, size);
}

static void hash_task(void *ctx, size_t task, unsigned thread)
{
    struct pith_read *t = (struct pith_read *)ctx + task;
    (void)thread;
    t->status = pith_tensor_need(t->tensor, &t->err);
    if (t->status != PITH_OK) return;
    if (!t->other) {
        struct pith_sha256 *h = pith_sha256_new();
        pith_tensor_hash(t->tensor, h);
        pith_sha256_finish(h, t->hex);
    }
    if (t->key) {
        struct pith_keyed *k = pith_keyed_new(t->key);
        pith_tensor_say(t->tensor, add_bytes, k);
        pith_keyed_finish(k, t->same);
    }
    pith_checkpoint_release(t->in, t->tensor);
}

static bool is_hashed(const struct pith_read *t)
{
    return (t->other || t->hex[0]) && (!t->key || t->same[0]);
}

/* Hashes them in order, some at a time, so that the listener can stop it. */
static enum pith_status hash_all(const struct pith_job *job, struct pith_read *list, size_t count,
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
    for (size_t i = 0; i < count; i++) {
        if (list[i].status != PITH_OK && err) *err = list[i].err;
        if (list[i].status != PITH_OK) return list[i].status;
        if (!is_hashed(&list[i])) return pith_fail_nomem(err, list[i].tensor->name);
    }
    return PITH_OK;
}

/* --- a unit ----------------------------------------------------------------------------------- */

/* list[] may be NULL: counted only. */
static size_t list_unit(const struct pith_job *job, size_t unit, struct pith_read *list)
{
    const struct pith_checkpoint *in = job->model->checkpoint;
    size_t most, count = 0;
    const size_t first = pith_unit_tensors(job->model, unit, &most);
    for (size_t i = first; i < first + most; i++) {
        if (pith_unit_of(&job->model->plans, in->tensors[i].name) != unit) continue;
        if (list) list[count] = (struct pith_read){.in = in, .tensor = &in->tensors[i]};
        count++;
    }
    return count;
}

static enum pith_status note(json_t *unit, const struct pith_read *list, size_t count,
                             struct pith_error *err)
{
    json_t *source = json_object();
    bool good = source != NULL;
    for (size_t i = 0; i < count && good; i++)
        good = json_object_set_new(source, list[i].tensor->name, json_string(list[i].hex)) == 0;
    good = good && json_object_set(unit, "source", source) == 0;
    json_decref(source);
    return good ? PITH_OK : pith_fail_nomem(err, "the journal");
}

enum pith_status pith_source_note(struct pith_run *r, size_t index, json_t *unit,
                                  struct pith_error *err)
{
    const size_t count = list_unit(r->job, index, NULL);
    struct pith_read *list = pith_zalloc(count + 1, sizeof *list);
    struct pith_keyed_key key;
    if (!list) return pith_fail_nomem(err, "the input's hashes");
    (void)list_unit(r->job, index, list);
    const double start = pith_clock();
    pith_phases_begin(&r->phases);
    enum pith_status s = pith_hashes_divide(r, list, count, &key, err);
    if (s == PITH_OK) s = hash_all(r->job, list, count, NULL, err);
    if (s == PITH_OK) s = pith_hashes_join(r, list, count, err);
    pith_phases_mark(&r->phases, PITH_PHASE_READ);
    r->hashing += pith_clock() - start;
    if (s == PITH_OK && pith_run_writes(r)) s = note(unit, list, count, err);
    pith_free(list);
    return s;
}

void pith_source_forget(json_t *unit)
{
    (void)json_object_del(unit, "source");
}

/* The tensors of the input that finished units read, each once. */
static size_t list_read(const struct pith_run *r, struct pith_read *list)
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
            (struct pith_read){.in = in, .tensor = &in->tensors[i], .want = want ? want : ""};
    }
    return count;
}

enum pith_status pith_source_check(struct pith_run *r, struct pith_error *err)
{
    if (json_array_size(r->journal.units) == 0) return PITH_OK;
    struct pith_read *list = pith_zalloc(r->job->model->checkpoint->count, sizeof *list);
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
