#include "quantize/ranks/writers.h"

#include "base/file.h"
#include "base/mem.h"
#include "quantize/output/work_folder.h"
#include "quantize/ranks/route.h"
#include "quantize/run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char sign[] = PITH_WRITERS_SIGN;

bool pith_writers_share(const struct pith_run *r)
{
    return r->writers.hash != NULL;
}

bool pith_writers_own(const struct pith_run *r)
{
    return pith_writers_share(r) || pith_run_writes(r);
}

uint64_t pith_writers_bytes(const struct pith_job *job)
{
    const uint64_t of_one = 3 * sizeof(pith_hash_text) + sizeof(uint32_t);
    const uint64_t of_rank = 2 * sizeof(uint64_t);
    return job->layout.count * of_one + pith_ranks_count(pith_job_ranks(job)) * of_rank;
}

/* --- who sees the folder ---------------------------------------------------------------------- */

/* A word that no earlier run wrote, and that no folder of that name elsewhere contains. */
static void make_word(const struct pith_run *r, char word[PITH_SHA256_HEX])
{
    struct timespec now = {0};
    char text[256];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const int n = snprintf(text, sizeof text, "%s %ld %lld %ld", r->job->fingerprint,
                           (long)getpid(), (long long)now.tv_sec, now.tv_nsec);
    (void)pith_sha256_hex(text, (size_t)n, word);
}

static bool sees(const char *path, const char *word)
{
    char *text = NULL;
    size_t size = 0;
    const bool read = pith_file_read_own(path, PITH_SHA256_HEX, &text, &size, NULL) == PITH_OK;
    const bool same = read && size == PITH_SHA256_HEX && memcmp(text, word, size) == 0;
    pith_free(text);
    return same;
}

/* Whether all of them do. */
static enum pith_status all_see(const struct pith_run *r, const char *path, bool *all,
                                struct pith_error *err)
{
    const bool first = pith_run_writes(r);
    char word[PITH_SHA256_HEX] = "";
    *all = true;
    if (first) make_word(r, word);
    if (first) PITH_TRY(pith_file_write(path, word, sizeof word, err));
    PITH_TRY(pith_ranks_share(r->ranks, 0, word, sizeof word, err));
    const unsigned count = pith_ranks_count(r->ranks);
    bool *seen = pith_zalloc(count, sizeof *seen);
    if (!seen) return pith_fail_nomem(err, sign);
    seen[pith_ranks_own(r->ranks)] = sees(path, word);
    const enum pith_status s = pith_ranks_share_parts(r->ranks, seen, count, sizeof *seen, err);
    for (unsigned k = 0; k < count; k++) *all &= seen[k];
    pith_free(seen);
    return s == PITH_OK && first ? pith_unlink(path, err) : s;
}

static enum pith_status take_part(struct pith_run *r, struct pith_error *err)
{
    const struct pith_layout *l = &r->job->layout;
    struct pith_writers *w = &r->writers;
    w->given = pith_zalloc(pith_ranks_count(r->ranks), sizeof *w->given);
    w->wrote = pith_zalloc(pith_ranks_count(r->ranks), sizeof *w->wrote);
    w->unit = pith_zalloc(l->count + 1, sizeof *w->unit);
    w->hash = pith_zalloc(l->count + 1, sizeof *w->hash);
    if (!w->given || !w->wrote || !w->unit || !w->hash)
        return pith_fail_nomem(err, "what ranks write");
    for (size_t i = 0; i < l->count; i++)
        w->unit[i] = (uint32_t)pith_unit_of(&r->job->model->plans, l->tensors[i].name);
    return pith_run_writes(r) ? PITH_OK : pith_output_follow(r->job, &r->out, err);
}

enum pith_status pith_writers_join(struct pith_run *r, struct pith_error *err)
{
    bool all = false;
    PITH_TRY(pith_ranks_meet(r->ranks, err)); /* rank 0 has made the folder */
    if (!r->ranks || r->job->options->gather) return PITH_OK;
    char *path = pith_path_join(r->job->partial, sign);
    enum pith_status s = path ? all_see(r, path, &all, err) : pith_fail_nomem(err, sign);
    pith_free(path);
    return s == PITH_OK && all ? take_part(r, err) : s;
}

enum pith_status pith_writers_leave(const struct pith_run *r, struct pith_error *err)
{
    PITH_TRY(pith_ranks_meet(r->ranks, err));
    if (pith_run_writes(r) || !pith_path_is_dir(r->job->partial)) return PITH_OK;
    PITH_TRY(pith_place_sweep(r->job, r->job->partial, false, err));
    pith_dir_drop(r->job->partial);
    return PITH_OK;
}

void pith_writers_close(struct pith_writers *w)
{
    pith_free(w->hash);
    pith_free(w->unit);
    pith_free(w->given);
    pith_free(w->wrote);
    *w = (struct pith_writers){0};
}

/* --- the order -------------------------------------------------------------------------------- */

void pith_writers_begin(struct pith_run *r)
{
    for (unsigned k = 0; pith_writers_share(r) && k < pith_ranks_count(r->ranks); k++)
        r->writers.given[k] = 0;
}

bool pith_writers_take(struct pith_run *r, uint64_t bytes)
{
    if (!pith_writers_share(r)) return pith_run_writes(r);
    const unsigned least = pith_spread_least(r->writers.given, pith_ranks_count(r->ranks));
    r->writers.given[least] += bytes;
    return least == pith_ranks_own(r->ranks);
}

/* --- what was stored -------------------------------------------------------------------------- */

void pith_writers_note(const struct pith_run *r, const struct pith_tensor_plan *p,
                       const char hex[PITH_SHA256_HEX])
{
    if (pith_writers_share(r))
        memcpy(r->writers.hash[p - r->job->layout.tensors], hex, PITH_SHA256_HEX);
}

/* How many tensors of the layout are a unit's. */
static size_t count_tensors(const struct pith_job *job, size_t unit)
{
    const struct pith_layout *l = &job->layout;
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        n += pith_unit_of(&job->model->plans, l->tensors[i].name) == unit;
    return n;
}

/* A unit's hashes of what is stored here, as a list. */
static void list_hashes(const struct pith_run *r, pith_hash_text *list)
{
    for (size_t i = 0, n = 0; i < r->job->layout.count; i++)
        if (r->writers.unit[i] == r->unit_now) memcpy(list[n++], r->writers.hash[i], sizeof *list);
}

/* What a rank has stored of the unit takes its place. */
static void take_hashes(const struct pith_run *r, unsigned rank, pith_hash_text *list)
{
    for (size_t i = 0, n = 0; i < r->job->layout.count; i++) {
        if (r->writers.unit[i] != r->unit_now) continue;
        list[n][PITH_SHA256_HEX - 1] = '\0';
        if (list[n][0]) {
            memcpy(r->writers.hash[i], list[n], sizeof *list);
            r->writers.wrote[rank] += r->job->layout.tensors[i].bytes;
        }
        n++;
    }
}

static enum pith_status gather(struct pith_run *r, struct pith_error *err)
{
    const size_t count = count_tensors(r->job, r->unit_now), bytes = count * sizeof(pith_hash_text);
    pith_hash_text *list = pith_zalloc(count + 1, sizeof *list);
    enum pith_status s = list ? PITH_OK : pith_fail_nomem(err, "hashes of a unit");
    if (s == PITH_OK) list_hashes(r, list);
    if (s == PITH_OK && !pith_run_writes(r)) s = pith_ranks_send(r->ranks, 0, list, bytes, err);
    for (unsigned k = 0; pith_run_writes(r) && k < pith_ranks_count(r->ranks); k++) {
        if (s == PITH_OK && k > 0) s = pith_ranks_receive(r->ranks, k, list, bytes, err);
        if (s == PITH_OK) take_hashes(r, k, list);
    }
    pith_free(list);
    return s;
}

/* Entries of the account whose tensors another rank has stored. */
static enum pith_status fill_in(const struct pith_run *r, const json_t *entries,
                                struct pith_error *err)
{
    const struct pith_layout *l = &r->job->layout;
    json_t *entry, *item;
    size_t i, k;
    json_array_foreach (entries, i, entry) {
        json_array_foreach (json_object_get(entry, "stored"), k, item) {
            const char *name = json_string_value(json_object_get(item, "name"));
            if (json_string_length(json_object_get(item, "sha256")) > 0) continue;
            const struct pith_tensor_plan *p = name ? pith_layout_find(l, name) : NULL;
            const char *hash = p ? r->writers.hash[p - l->tensors] : "";
            if (!hash[0]) return pith_fail(err, PITH_MISMATCH, "%s: no rank has stored it", name);
            if (json_object_set_new(item, "sha256", json_string(hash)) != 0)
                return pith_fail_nomem(err, name);
        }
    }
    return PITH_OK;
}

enum pith_status pith_writers_end(struct pith_run *r, json_t *unit, struct pith_error *err)
{
    if (!pith_writers_share(r)) return PITH_OK;
    if (!pith_run_writes(r)) PITH_TRY(pith_output_sync(r->job, &r->out, err));
    PITH_TRY(gather(r, err));
    if (!pith_run_writes(r)) return PITH_OK;
    PITH_TRY(fill_in(r, json_object_get(unit, "linears"), err));
    return fill_in(r, json_object_get(unit, "tensors"), err);
}

bool pith_writers_report(const struct pith_run *r, json_t *j)
{
    if (!pith_writers_share(r)) return true;
    json_t *list = json_array();
    for (unsigned k = 0; k < pith_ranks_count(r->ranks); k++)
        pith_json_add(&list, json_integer((json_int_t)r->writers.wrote[k]));
    return json_object_set_new(j, "rank_bytes_written", list) == 0;
}

enum pith_status pith_writers_want(const struct pith_run *r, pith_hash_text *want,
                                   struct pith_error *err)
{
    const size_t count = r->job->layout.count;
    PITH_TRY(pith_ranks_share(r->ranks, 0, want, count * sizeof *want, err));
    for (size_t i = 0; i < count; i++) want[i][PITH_SHA256_HEX - 1] = '\0';
    return PITH_OK;
}

enum pith_status pith_writers_meet(const struct pith_run *r, struct pith_error *err)
{
    return pith_ranks_meet(r->ranks, err);
}

enum pith_status pith_writers_share_matrix(const struct pith_run *r, struct pith_qmat *q,
                                           struct pith_error *err)
{
    return pith_route_qmat(&(struct pith_route){r->ranks, 0, PITH_TO_ALL}, q, err);
}
