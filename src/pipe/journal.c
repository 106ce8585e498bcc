/* pith.journal: lines in the partial folder, each a SHA-256 and a JSON object. The first names the
 * job; each further line is a finished unit, written after all that it names is on disk. The hash
 * is that of the line before it (the job's, for the first) and of the object: a line that was
 * changed, moved, doubled or left out breaks the chain, and counts for nothing, as do those behind
 * it. A torn last line is a unit that did not finish. */
#include "pipe/run.h"

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

enum pith_status pith_journal_fingerprint(struct pith_run *r, struct pith_error *err)
{
    const struct pith_quantize_options *o = r->options;
    struct pith_str text = {0};
    char input[PITH_SHA256_HEX];
    if (!pith_checkpoint_identity(r->model->checkpoint, input))
        return pith_fail_nomem(err, "the job's fingerprint");
    pith_str_printf(&text, "pith %s\n", pith_version());
    add_json(&text, r->model->checkpoint->config);
    json_t *recipe = pith_recipe_json(&r->recipe);
    pith_str_printf(&text, "\n%s\n", input);
    add_json(&text, recipe);
    pith_str_putc(&text, '\n');
    json_decref(recipe);
    if (r->fast && pith_run_calibrates(r)) pith_str_puts(&text, "fast\n");
    if (r->convert) pith_str_puts(&text, "convert\n");
    if (r->model->shape.moe.experts && pith_run_calibrates(r))
        pith_str_printf(&text, "experts %s\n", pith_experts_rule_name(r->experts));
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

/* Adds a line to a text; r->chain becomes its hash. */
static enum pith_status add_line(struct pith_run *r, const json_t *j, struct pith_str *out,
                                 struct pith_error *err)
{
    struct pith_str json = {0};
    char hex[PITH_SHA256_HEX] = "";
    add_json(&json, j);
    const bool good = !json.failed && link_line(r->chain, json.data, json.len, hex);
    if (good) pith_str_printf(out, "%s %s\n", hex, json.data);
    pith_str_free(&json);
    if (!good || out->failed) return pith_fail_nomem(err, r->journal_path);
    memcpy(r->chain, hex, sizeof hex);
    return PITH_OK;
}

enum pith_status pith_journal_write(struct pith_run *r, const json_t *unit, struct pith_error *err)
{
    struct pith_str line = {0};
    enum pith_status s = add_line(r, unit, &line, err);
    if (s == PITH_OK) s = pith_file_append(r->journal_path, line.data, line.len, err);
    pith_str_free(&line);
    return s;
}

static enum pith_status add_head(struct pith_run *r, struct pith_str *out, struct pith_error *err)
{
    json_t *head = json_pack("{s:s, s:s}", "pith", pith_version(), "job", r->fingerprint);
    if (!head) return pith_fail_nomem(err, "the journal");
    memcpy(r->chain, r->fingerprint, sizeof r->chain);
    const enum pith_status s = add_line(r, head, out, err);
    json_decref(head);
    return s;
}

enum pith_status pith_journal_cut(struct pith_run *r, size_t keep, struct pith_error *err)
{
    struct pith_str text = {0};
    while (json_array_size(r->units) > keep)
        (void)json_array_remove(r->units, json_array_size(r->units) - 1);
    enum pith_status s = add_head(r, &text, err);
    for (size_t i = 0; i < json_array_size(r->units) && s == PITH_OK; i++)
        s = add_line(r, json_array_get(r->units, i), &text, err);
    if (s == PITH_OK) s = pith_file_write(r->journal_path, text.data, text.len, err);
    pith_str_free(&text);
    return s;
}

enum { PITH_UNIT_PREFIX = 128 };

size_t pith_unit_of(const struct pith_plans *plans, const char *tensor)
{
    uint32_t layer;
    return pith_plan_layer_of(plans, tensor, &layer) ? (size_t)layer + 1 : 0;
}

size_t pith_unit_tensors(const struct pith_model *m, size_t unit, size_t *count)
{
    char prefix[PITH_UNIT_PREFIX];
    *count = m->checkpoint->count;
    if (unit == 0) return 0;
    pith_plan_name(&m->plans, (uint32_t)(unit - 1), "", prefix, sizeof prefix);
    return pith_checkpoint_range(m->checkpoint, prefix, count);
}

void pith_unit_name(size_t index, char name[PITH_UNIT_NAME])
{
    if (index == 0) snprintf(name, PITH_UNIT_NAME, "outer");
    else snprintf(name, PITH_UNIT_NAME, "block %zu", index - 1);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A line is the unit that comes next, with all that pith.json will take from it. */
static bool is_next_unit(const struct pith_run *r, const json_t *j)
{
    const size_t index = json_array_size(r->units);
    const char *name = json_string_value(json_object_get(j, "unit"));
    char want[PITH_UNIT_NAME];
    pith_unit_name(index, want);
    return index <= r->model->shape.layers && name && strcmp(name, want) == 0 &&
           json_is_array(json_object_get(j, "tensors")) &&
           json_is_array(json_object_get(j, "linears")) &&
           (index == 0 || json_is_array(json_object_get(j, "transforms")));
}

static enum pith_status fail_foreign(const struct pith_run *r, struct pith_error *err)
{
    return pith_fail(err, PITH_ARG,
                     "%s: belongs to another run (other input, options or version):"
                     " remove that folder, or repeat the command it was started with",
                     r->partial);
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
static enum pith_status take_line(struct pith_run *r, const char *line, size_t size, size_t number,
                                  bool *good, struct pith_error *err)
{
    char hex[PITH_SHA256_HEX];
    json_t *j = read_line(line, size, number ? r->chain : NULL, hex);
    enum pith_status s = PITH_OK;
    *good = false;
    if (!j) return PITH_OK;
    if (number == 0) {
        if (strcmp(json_string_value(json_object_get(j, "job")), r->fingerprint) != 0)
            s = fail_foreign(r, err);
        *good = true;
    } else if (is_next_unit(r, j)) {
        if (json_array_append(r->units, j) != 0) s = pith_fail_nomem(err, "the journal");
        *good = true;
    }
    if (*good) memcpy(r->chain, hex, sizeof hex);
    json_decref(j);
    return s;
}

/* Takes the units of a journal's text; what follows the last good line is cut off the file, so
 * that new lines do not join a torn one. A folder whose first line says nothing begins anew. */
static enum pith_status take_units(struct pith_run *r, const char *text, size_t size,
                                   struct pith_error *err)
{
    size_t whole = 0, number = 0;
    const char *end;
    while (whole < size && (end = memchr(text + whole, '\n', size - whole)) != NULL) {
        const size_t length = (size_t)(end - (text + whole));
        bool good;
        PITH_TRY(take_line(r, text + whole, length, number, &good, err));
        if (!good) {
            char note[96];
            snprintf(note, sizeof note, "journal changed at line %zu: done again from there",
                     number + 1);
            PITH_TRY(pith_progress_step(&r->options->progress, note, 0, 1, err));
            break;
        }
        whole += length + 1;
        number++;
    }
    if (whole == 0) return pith_journal_cut(r, 0, err);
    return whole < size ? pith_file_write(r->journal_path, text, whole, err) : PITH_OK;
}

enum pith_status pith_journal_open(struct pith_run *r, struct pith_error *err)
{
    enum { LIMIT = 1 << 30 };
    r->units = json_array();
    if (!r->units) return pith_fail_nomem(err, "the journal");
    if (!pith_path_exists(r->journal_path)) return pith_journal_cut(r, 0, err);
    char *text;
    size_t size;
    PITH_TRY(pith_file_read_own(r->journal_path, LIMIT, &text, &size, err));
    const enum pith_status s = take_units(r, text, size, err);
    pith_free(text);
    return s;
}
