/* pith.journal: JSON lines in the partial folder. The first names the job; each further line is a
 * finished unit, written after all that it names is on disk. A torn last line is a unit that did
 * not finish. */
#include "pipe/run.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_file_identity(struct pith_str *text, const struct pith_checkpoint *c)
{
    for (size_t i = 0; i < c->file_count; i++) {
        uint64_t size = 0;
        int64_t changed = 0;
        if (pith_file_stat(c->files[i].path, &size, &changed, NULL) != PITH_OK) size = 0;
        const char *base = strrchr(c->files[i].path, '/');
        pith_str_printf(text, "%s %" PRIu64 " %" PRId64 "\n", base ? base + 1 : c->files[i].path,
                        size, changed);
    }
}

/* Keys keep their order: what a resumed run reads here must give the same pith.json. */
static void add_json(struct pith_str *text, const json_t *j)
{
    char *dump = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_free_t release = NULL;
    json_get_alloc_funcs(NULL, &release);
    if (dump) pith_str_puts(text, dump);
    else text->failed = true;
    if (dump) release(dump);
    pith_str_putc(text, '\n');
}

enum pith_status pith_journal_fingerprint(struct pith_run *r, struct pith_error *err)
{
    const struct pith_quantize_options *o = r->options;
    struct pith_str text = {0};
    pith_str_printf(&text, "pith %s\n", pith_version());
    add_json(&text, r->model->checkpoint->config);
    add_file_identity(&text, r->model->checkpoint);
    json_t *recipe = pith_recipe_json(&r->recipe);
    add_json(&text, recipe);
    json_decref(recipe);
    if (r->fast && pith_run_calibrates(r)) pith_str_puts(&text, "fast\n");
    if (r->convert) pith_str_puts(&text, "convert\n");
    pith_str_printf(&text, "%s shard %" PRIu64 " seed %" PRIu64 " calib %s\n", r->container->name,
                    o->max_shard, o->seed, r->calib.sha256);
    for (size_t i = 0; i < r->choice_count + PITH_END_COUNT; i++) {
        char grid[PITH_GRID_TEXT];
        pith_grid_format(&r->choices[i].grid, grid);
        pith_str_printf(&text, "%s\n", grid);
    }
    enum pith_status s = PITH_OK;
    if (text.failed || !pith_sha256_hex(text.data, text.len, r->fingerprint))
        s = pith_fail_nomem(err, "the job's fingerprint");
    pith_str_free(&text);
    return s;
}

static enum pith_status append_line(const struct pith_run *r, const json_t *j,
                                    struct pith_error *err)
{
    struct pith_str line = {0};
    add_json(&line, j);
    const enum pith_status s = line.failed
                                   ? pith_fail_nomem(err, r->journal_path)
                                   : pith_file_append(r->journal_path, line.data, line.len, err);
    pith_str_free(&line);
    return s;
}

enum pith_status pith_journal_write(const struct pith_run *r, const json_t *unit,
                                    struct pith_error *err)
{
    return append_line(r, unit, err);
}

enum pith_status pith_journal_add(struct pith_run *r, json_t *unit, struct pith_error *err)
{
    if (json_array_append(r->units, unit) != 0) return pith_fail_nomem(err, "the journal");
    return pith_journal_write(r, unit, err);
}

static enum pith_status start(struct pith_run *r, struct pith_error *err)
{
    json_t *head = json_pack("{s:s, s:s}", "pith", pith_version(), "job", r->fingerprint);
    if (!head) return pith_fail_nomem(err, "the journal");
    PITH_TRY(pith_unlink(r->journal_path, err));
    const enum pith_status s = append_line(r, head, err);
    json_decref(head);
    return s;
}

enum pith_status pith_journal_restart(struct pith_run *r, struct pith_error *err)
{
    json_array_clear(r->units);
    return start(r, err);
}

void pith_unit_name(size_t index, char name[PITH_UNIT_NAME])
{
    if (index == 0) snprintf(name, PITH_UNIT_NAME, "outer");
    else snprintf(name, PITH_UNIT_NAME, "block %zu", index - 1);
}

/* A line is the unit that comes next, with all that pith.json will take from it. */
static bool is_next_unit(const struct pith_run *r, const json_t *j)
{
    const size_t index = json_array_size(r->units);
    const char *name = json_string_value(json_object_get(j, "unit"));
    char want[PITH_UNIT_NAME];
    pith_unit_name(index, want);
    return index <= r->model->shape.layers && name && strcmp(name, want) == 0 &&
           json_is_array(json_object_get(j, "tensors")) &&
           (index == 0 || (json_is_array(json_object_get(j, "linears")) &&
                           json_is_array(json_object_get(j, "transforms"))));
}

static enum pith_status fail_foreign(const struct pith_run *r, struct pith_error *err)
{
    return pith_fail(err, PITH_ARG,
                     "%s: belongs to another run (other input, options or version):"
                     " remove that folder, or repeat the command it was started with",
                     r->partial);
}

/* Takes the units of a journal's text; what follows the last good line is cut off the file, so
 * that new lines do not join a torn one. A folder whose first line says nothing begins anew. */
static enum pith_status take_units(struct pith_run *r, const char *text, size_t size,
                                   struct pith_error *err)
{
    size_t whole = 0;
    for (size_t at = 0, number = 0; at < size; number++) {
        const char *end = memchr(text + at, '\n', size - at);
        json_t *j = NULL;
        if (!end) break;
        const size_t length = (size_t)(end - (text + at));
        if (pith_json_parse(text + at, length, r->journal_path, &j, NULL) != PITH_OK) break;
        const char *job = json_string_value(json_object_get(j, "job"));
        const bool foreign = number == 0 && job && strcmp(job, r->fingerprint) != 0;
        const bool good = number == 0 ? job != NULL : is_next_unit(r, j);
        const int bad = number > 0 && good ? json_array_append(r->units, j) : 0;
        json_decref(j);
        if (foreign) return fail_foreign(r, err);
        if (bad) return pith_fail_nomem(err, "the journal");
        if (!good) break;
        at += length + 1;
        whole = at;
    }
    if (whole == 0) return start(r, err);
    return whole < size ? pith_file_write(r->journal_path, text, whole, err) : PITH_OK;
}

enum pith_status pith_journal_open(struct pith_run *r, struct pith_error *err)
{
    enum { LIMIT = 1 << 30 };
    r->units = json_array();
    if (!r->units) return pith_fail_nomem(err, "the journal");
    if (!pith_path_exists(r->journal_path)) return start(r, err);
    char *text;
    size_t size;
    PITH_TRY(pith_file_read(r->journal_path, LIMIT, &text, &size, err));
    const enum pith_status s = take_units(r, text, size, err);
    pith_free(text);
    return s;
}
