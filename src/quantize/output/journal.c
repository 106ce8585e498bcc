/* pith.journal: lines in the partial folder, each a SHA-256 and a JSON object. The first names the
 * job; each further line is a finished unit, written after all that it names is on disk. The hash
 * is that of the line before it (the job's, for the first) and of the object: a line that was
 * changed, moved, doubled or omitted breaks the chain, and counts for nothing, as do those behind
 * it. A torn last line is a unit that did not finish. */
#include "quantize/output/journal.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Keys keep their order: what a resumed run reads here must give the same pith.json. */
static void add_json(struct pith_str *text, const json_t *j)
{
    pith_json_dump(j, JSON_COMPACT | JSON_REAL_PRECISION(17), text);
}

enum pith_status pith_journal_fingerprint(struct pith_job *job, struct pith_error *err)
{
    const struct pith_quantize_options *o = job->options;
    struct pith_str text = {0};
    char input[PITH_SHA256_HEX];
    if (!pith_checkpoint_identity(job->model->checkpoint, input))
        return pith_fail_nomem(err, "the job's fingerprint");
    pith_str_printf(&text, "pith %s\n", pith_version());
    add_json(&text, job->model->checkpoint->config);
    json_t *recipe = pith_job_recipe_json(job);
    pith_str_printf(&text, "\n%s\n", input);
    add_json(&text, recipe);
    pith_str_putc(&text, '\n');
    json_decref(recipe);
    if (job->fast && pith_job_calibrates(job)) pith_str_puts(&text, "fast\n");
    if (job->convert) pith_str_puts(&text, "convert\n");
    if (job->dense)
        pith_str_printf(&text, "dense %s\n", pith_dtype_name(job->container_opts.model_dtype));
    if (job->model->shape.moe.experts && pith_job_calibrates(job))
        pith_str_printf(&text, "experts %s\n", pith_experts_rule_name(job->experts));
    pith_str_printf(&text, "%s shard %" PRIu64 " seed %" PRIu64 " calib %s\n", job->container->name,
                    o->max_shard, o->seed, job->calib.sha256);
    for (size_t i = 0; i < job->choice_count + PITH_END_COUNT; i++) {
        char grid[PITH_GRID_TEXT];
        pith_grid_format(&job->choices[i].grid, grid);
        pith_str_printf(&text, "%s\n", grid);
    }
    enum pith_status s = PITH_OK;
    if (text.failed || !pith_sha256_hex(text.data, text.len, job->fingerprint))
        s = pith_fail_nomem(err, "the job's fingerprint");
    pith_str_free(&text);
    return s;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* The hash of a line: of the one before, and of its text. */
static bool link_line(const char before[PITH_SHA256_HEX], const char *text, size_t size,
                      char hex[PITH_SHA256_HEX])
{
    struct pith_sha256 *h = pith_sha256_new();
    pith_sha256_update(h, before, PITH_SHA256_HEX - 1);
    pith_sha256_update(h, text, size);
    pith_sha256_finish(h, hex);
    return hex[0] != '\0';
}

/* Adds a line to a text; journal->chain becomes its hash. */
static enum pith_status add_line(const struct pith_job *job, struct pith_journal *journal,
                                 const json_t *j, struct pith_str *out, struct pith_error *err)
{
    struct pith_str json = {0};
    char hex[PITH_SHA256_HEX] = "";
    add_json(&json, j);
    const bool good = !json.failed && link_line(journal->chain, json.data, json.len, hex);
    if (good) pith_str_printf(out, "%s %s\n", hex, json.data);
    pith_str_free(&json);
    if (!good || out->failed) return pith_fail_nomem(err, job->journal_path);
    memcpy(journal->chain, hex, sizeof hex);
    return PITH_OK;
}

enum pith_status pith_journal_write(const struct pith_job *job, struct pith_journal *journal,
                                    const json_t *unit, struct pith_error *err)
{
    struct pith_str line = {0};
    enum pith_status s = add_line(job, journal, unit, &line, err);
    if (s == PITH_OK) s = pith_file_append(job->journal_path, line.data, line.len, err);
    pith_str_free(&line);
    return s;
}

static enum pith_status add_head(const struct pith_job *job, struct pith_journal *journal,
                                 struct pith_str *out, struct pith_error *err)
{
    json_t *head = json_pack("{s:s, s:s}", "pith", pith_version(), "job", job->fingerprint);
    if (!head) return pith_fail_nomem(err, "the journal");
    memcpy(journal->chain, job->fingerprint, sizeof journal->chain);
    const enum pith_status s = add_line(job, journal, head, out, err);
    json_decref(head);
    return s;
}

enum pith_status pith_journal_cut(const struct pith_job *job, struct pith_journal *journal,
                                  size_t keep, struct pith_error *err)
{
    struct pith_str text = {0};
    while (json_array_size(journal->units) > keep)
        (void)json_array_remove(journal->units, json_array_size(journal->units) - 1);
    enum pith_status s = add_head(job, journal, &text, err);
    for (size_t i = 0; i < json_array_size(journal->units) && s == PITH_OK; i++)
        s = add_line(job, journal, json_array_get(journal->units, i), &text, err);
    if (s == PITH_OK) s = pith_file_write(job->journal_path, text.data, text.len, err);
    pith_str_free(&text);
    return s;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A line is the unit that comes next, with all that pith.json will take from it. */
static bool is_next_unit(const struct pith_job *job, const struct pith_journal *journal,
                         const json_t *j)
{
    const size_t index = json_array_size(journal->units);
    const char *name = json_string_value(json_object_get(j, "unit"));
    char want[PITH_UNIT_NAME];
    pith_unit_name(index, want);
    return index <= job->model->shape.layers && name && strcmp(name, want) == 0 &&
           json_is_array(json_object_get(j, "tensors")) &&
           json_is_array(json_object_get(j, "linears")) &&
           (index == 0 || json_is_array(json_object_get(j, "transforms")));
}

static enum pith_status fail_foreign(const struct pith_job *job, struct pith_error *err)
{
    return pith_fail(err, PITH_IO,
                     "%s: belongs to another run (other input, options or version):"
                     " remove that folder, or repeat the command it was started with",
                     job->partial);
}

/* The object of a line of `size` bytes, when its hash follows from `before`; *hex receives it. NULL
 * when it does not, or is no object. The first line is checked against the job that it names. */
static json_t *read_line(const char *line, size_t size, const char *before,
                         char hex[PITH_SHA256_HEX])
{
    enum { HASH = PITH_SHA256_HEX - 1 };
    json_t *j = NULL;
    if (size < HASH + 1 || line[HASH] != ' ' ||
        pith_json_parse(line + HASH + 1, size - HASH - 1, "", &j, NULL) != PITH_OK)
        return NULL;
    if (!before) before = json_string_value(json_object_get(j, "job"));
    if (before && strlen(before) == HASH &&
        link_line(before, line + HASH + 1, size - HASH - 1, hex) && memcmp(hex, line, HASH) == 0)
        return j;
    json_decref(j);
    return NULL;
}

/* Takes one line; *good is false when it is not as it was written, or not the next unit. */
static enum pith_status take_line(const struct pith_job *job, struct pith_journal *journal,
                                  const char *line, size_t size, bool *good, struct pith_error *err)
{
    const bool first = journal->chain[0] == '\0';
    char hex[PITH_SHA256_HEX];
    json_t *j = read_line(line, size, first ? NULL : journal->chain, hex);
    enum pith_status s = PITH_OK;
    *good = false;
    if (!j) return PITH_OK;
    if (first) {
        if (strcmp(json_string_value(json_object_get(j, "job")), job->fingerprint) != 0)
            s = fail_foreign(job, err);
        *good = true;
    } else if (is_next_unit(job, journal, j)) {
        if (json_array_append(journal->units, j) != 0) s = pith_fail_nomem(err, "the journal");
        *good = true;
    }
    if (*good) memcpy(journal->chain, hex, sizeof hex);
    json_decref(j);
    return s;
}

/* Takes the units of a journal's text; what follows the last good line is cut off the file, so
 * that new lines do not join a torn one. A folder whose first line says nothing begins anew. */
static enum pith_status take_units(const struct pith_job *job, struct pith_journal *journal,
                                   const char *text, size_t size, struct pith_error *err)
{
    size_t whole = 0, number = 0;
    const char *end;
    while (whole < size && (end = memchr(text + whole, '\n', size - whole)) != NULL) {
        const size_t length = (size_t)(end - (text + whole));
        bool good;
        PITH_TRY(take_line(job, journal, text + whole, length, &good, err));
        if (!good) {
            char note[96];
            snprintf(note, sizeof note, "journal changed at line %zu: done again from there",
                     number + 1);
            PITH_TRY(pith_progress_step(&job->options->progress, note, 0, 1, err));
            break;
        }
        whole += length + 1;
        number++;
    }
    if (whole == 0) return pith_journal_cut(job, journal, 0, err);
    return whole < size ? pith_file_write(job->journal_path, text, whole, err) : PITH_OK;
}

enum pith_status pith_journal_open(const struct pith_job *job, struct pith_journal *journal,
                                   struct pith_error *err)
{
    enum { LIMIT = 1 << 30 };
    journal->chain[0] = '\0';
    journal->units = json_array();
    if (!journal->units) return pith_fail_nomem(err, "the journal");
    if (!pith_path_exists(job->journal_path)) return pith_journal_cut(job, journal, 0, err);
    char *text;
    size_t size;
    PITH_TRY(pith_file_read_own(job->journal_path, LIMIT, &text, &size, err));
    const enum pith_status s = take_units(job, journal, text, size, err);
    pith_free(text);
    return s;
}
