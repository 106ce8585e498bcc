/* Where a run works: which folders may be there before, what remains of them after. */
#include "quantize/output/work_folder.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "quantize/output/seal.h"
#include "quantize/run.h"

#include <string.h>

enum { ACCOUNT_LIMIT = 1 << 30 };

char *pith_account_path(const char *model)
{
    struct pith_str s = {0};
    if (!pith_container_of_path(model)) return pith_path_join(model, "pith.json");
    pith_str_printf(&s, "%s.pith.json", model);
    return pith_str_take(&s);
}

/* Gives what was read back its final name. What is changed in the moment between the last look and
 * the name shows behind it, and the name is taken back. */
static enum pith_status name_it(const struct pith_run *r, const char *from, struct pith_error *err)
{
    const char *out = r->job->options->out;
    PITH_TRY(pith_reread_holds(r, NULL, err));
    PITH_TRY(pith_rename(from, out, err));
    const enum pith_status s = pith_reread_holds(r, out, err);
    if (s != PITH_OK) (void)pith_rename(out, from, NULL);
    return s;
}

/* The folder gets its final name when all but the journal is in order; the journal goes last. */
static enum pith_status publish_folder(struct pith_run *r, json_t *account, struct pith_error *err)
{
    char *path = pith_path_join(r->job->partial, "pith.json");
    enum pith_status s = path ? pith_account_save(path, account, err)
                              : pith_fail_nomem(err, "pith.json");
    pith_free(path);
    if (s == PITH_OK) s = pith_place_sweep(r->job, r->job->partial, false, err);
    if (s == PITH_OK) s = pith_dir_sync(r->job->partial, err);
    if (s == PITH_OK) s = name_it(r, r->job->partial, err);
    pith_output_close(r->job, &r->out);
    if (s == PITH_OK) s = pith_place_sweep(r->job, r->job->options->out, true, err);
    return s == PITH_OK ? pith_dir_sync(r->job->options->out, err) : s;
}

/* The account comes first, then the file its name; the folder goes last. */
static enum pith_status publish_file(struct pith_run *r, json_t *account, struct pith_error *err)
{
    const char *out = r->job->options->out;
    char *path = pith_account_path(out),
         *made = pith_path_join(r->job->partial, r->job->container->file);
    char *folder = pith_path_parent(out);
    enum pith_status s = path && made && folder ? pith_account_save(path, account, err)
                                                : pith_fail_nomem(err, "names");
    if (s == PITH_OK) s = name_it(r, made, err);
    pith_output_close(r->job, &r->out);
    if (s == PITH_OK) s = pith_dir_sync(folder, err);
    if (s == PITH_OK) s = pith_dir_remove(r->job->partial, err);
    pith_free(path);
    pith_free(made);
    pith_free(folder);
    return s;
}

enum pith_status pith_place_publish(struct pith_run *r, json_t *account, struct pith_error *err)
{
    return pith_container_of_path(r->job->options->out) ? publish_file(r, account, err)
                                                        : publish_folder(r, account, err);
}

enum pith_status pith_place_name(struct pith_job *job, struct pith_error *err)
{
    struct pith_str name = {0};
    size_t n = strlen(job->options->out);
    if (n == 0) return pith_fail(err, PITH_ARG, "the name of the output folder is empty");
    while (n > 1 && job->options->out[n - 1] == '/') n--;
    pith_str_append(&name, job->options->out, n);
    pith_str_puts(&name, job->options->rehearse ? ".rehearsal" : ".partial");
    job->partial = pith_str_take(&name);
    job->journal_path = job->partial ? pith_path_join(job->partial, "pith.journal") : NULL;
    return job->journal_path ? PITH_OK : pith_fail_nomem(err, "names");
}

bool pith_place_is_begun(const struct pith_quantize_options *o)
{
    struct pith_job job = {.options = o};
    const bool begun = pith_place_name(&job, NULL) != PITH_OK || pith_path_exists(o->out) ||
                       pith_path_exists(job.journal_path);
    pith_free(job.partial);
    pith_free(job.journal_path);
    return begun;
}

static enum pith_status fail_taken(const struct pith_job *job, struct pith_error *err)
{
    PITH_TRY(pith_path_look(job->options->out, err));
    return pith_fail(err, PITH_IO, "%s: exists already; remove it or choose another `out`",
                     job->options->out);
}

/* A folder of that name which is neither empty nor pith's is not touched. */
static enum pith_status check_foreign(const struct pith_job *job, struct pith_error *err)
{
    if (!pith_path_exists(job->partial) || pith_path_exists(job->journal_path)) return PITH_OK;
    char **names;
    size_t count;
    PITH_TRY(pith_dir_list(job->partial, &names, &count, err));
    /* Killed between making it and the journal's first line. */
    const bool begun = count == 0 || (count == 1 && strcmp(names[0], "pith.journal.tmp") == 0);
    pith_names_free(names, count);
    if (begun) return PITH_OK;
    return pith_fail(err, PITH_IO,
                     "%s: is needed to work in, but holds something else; move it away",
                     job->partial);
}

enum pith_status pith_place_check(const struct pith_job *job, struct pith_error *err)
{
    const struct pith_quantize_options *o = job->options;
    /* Who writes nothing leaves what is in its folder alone. */
    if (!pith_job_writes(job)) return PITH_OK;
    PITH_TRY(check_foreign(job, err));
    if (o->rehearse) return PITH_OK;
    if (!o->resume && pith_path_exists(o->out)) return fail_taken(job, err);
    if (!o->resume && pith_path_exists(job->journal_path))
        return pith_fail(err, PITH_IO,
                         "%s: an unfinished run is there; continue it with `resume`, or remove it",
                         job->partial);
    return PITH_OK;
}

enum pith_status pith_place_published(const struct pith_job *job, json_t **report,
                                      struct pith_error *err)
{
    const struct pith_quantize_options *o = job->options;
    json_t *account = NULL;
    if (o->rehearse || !pith_path_exists(o->out)) return PITH_OK;
    const bool file = pith_container_of_path(o->out);
    char *path = pith_account_path(o->out);
    char *journal = file ? pith_strdup(job->journal_path) : pith_path_join(o->out, "pith.journal");
    enum pith_status s = path && journal ? PITH_OK : pith_fail_nomem(err, "names");
    if (s == PITH_OK && pith_path_exists(path))
        s = pith_json_load(path, ACCOUNT_LIMIT, &account, err);
    const char *whose = json_string_value(json_object_get(account, "job"));
    if (s == PITH_OK && !(whose && strcmp(whose, job->fingerprint) == 0)) s = fail_taken(job, err);
    if (s == PITH_OK) s = pith_unlink(journal, err);
    if (s == PITH_OK && file && pith_path_is_dir(job->partial))
        s = pith_dir_remove(job->partial, err);
    if (s == PITH_OK) *report = account;
    else json_decref(account);
    pith_free(path);
    pith_free(journal);
    return s;
}

enum pith_status pith_place_make(struct pith_run *r, struct pith_error *err)
{
    PITH_TRY(pith_dir_make(r->job->partial, err));
    PITH_TRY(pith_dir_lock(r->job->partial, &r->out.lock, err));
    /* A rehearsal that was killed is not gone on with. */
    return r->job->options->rehearse ? pith_unlink(r->job->journal_path, err) : PITH_OK;
}

void pith_place_leave(const struct pith_run *r, enum pith_status s, struct pith_error *err)
{
    if (!r->out.owns_partial) return;
    if (r->job->options->rehearse || pith_status_is_final(s))
        pith_dir_remove(r->job->partial, NULL);
    else (void)pith_fail_resumable(err, s);
}

enum pith_status pith_place_sweep(const struct pith_job *job, const char *dir, bool journal,
                                  struct pith_error *err)
{
    static const char *const names[] = {
        "pith.acts.0",       "pith.acts.1",        "pith.acts.between",
        "pith.acts.float.0", "pith.acts.float.1",  "pith.acts.between.float",
        "pith.guide",        "pith.guide.journal", "pith.sense.acts",    PITH_WRITERS_SIGN,
        "pith.sense.grad",   "pith.journal.tmp",   "pith.journal"};
    for (size_t i = 0; i < PITH_COUNT(names) - (journal ? 0 : 1); i++) {
        char *path = pith_path_join(dir, names[i]);
        const enum pith_status s = path ? pith_unlink(path, err)
                                        : pith_fail_nomem(err, job->partial);
        pith_free(path);
        if (s != PITH_OK) return s;
    }
    return PITH_OK;
}
