/* Any bytes as the journal of sensitivities that --resume trusts: it is refused, or gives the lines
 * that follow from each other; a layer taken from one and written again is the same.
 *
 *     u8: even, the bytes are the file; odd, they are lines without their hashes, behind the first
 *     line as the writer makes it, each with its hash put in front here */
#include "folder.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "choose/sense_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LAYERS = 3, LINEARS = 2, GRIDS = 2, SITES = 2, ACTS = 1, CACHES = 1 };

/* What the journal is of. */
struct subject {
    struct pith_model model;
    struct pith_calib_set calib;
    struct pith_job job;
    struct pith_reads reads;
    struct pith_sense sense;
    struct pith_grid grid[GRIDS];
    size_t first[LAYERS + 1];
    struct pith_sense_cell cell[LAYERS * LINEARS * GRIDS];
    double site[LAYERS * SITES * ACTS], cache[LAYERS * 2 * CACHES];
};

static void make(struct subject *s)
{
    struct pith_error err = {0};
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i <= LAYERS; i++) s->first[i] = i * LINEARS;
    s->model.plans.layers = LAYERS;
    s->model.plans.first = s->first;
    s->model.plans.most_sites = SITES;
    s->job.model = &s->model;
    if (pith_grid_parse("int4:g128", &s->grid[0], &err) != PITH_OK ||
        pith_grid_parse("int8:channel", &s->grid[1], &err) != PITH_OK)
        abort();
    s->reads.acts[0] = s->grid[1];
    s->reads.acts_count = ACTS;
    s->reads.kv_count = CACHES;
    s->reads.site = s->site;
    s->reads.cache = s->cache;
    s->sense =
        (struct pith_sense){.grid = s->grid, .grids = GRIDS, .cell = s->cell, .reads = &s->reads};
}

static void add_hashed(struct pith_str *file, const char *line, size_t size, char chain[])
{
    struct pith_sha256 *h = pith_sha256_new();
    pith_sha256_update(h, chain, PITH_SHA256_HEX - 1);
    pith_sha256_update(h, line, size);
    pith_sha256_finish(h, chain);
    pith_str_puts(file, chain);
    pith_str_putc(file, ' ');
    pith_str_append(file, line, size);
    pith_str_putc(file, '\n');
}

/* The first line as it is written, and those behind it. */
static void add_lines(struct pith_str *file, struct subject *s, const char *text, size_t size)
{
    struct pith_error err = {0};
    struct pith_sense_state state;
    char *head;
    size_t n;
    folder_put("pith.journal", NULL, 0);
    if (pith_sense_state_open(&state, folder(), &s->job, &s->sense, &err) != PITH_OK ||
        pith_file_read(state.path, 1 << 20, &head, &n, &err) != PITH_OK)
        abort();
    pith_str_append(file, head, n);
    pith_free(head);
    while (size) {
        const char *end = memchr(text, '\n', size);
        const size_t length = end ? (size_t)(end - text) : size;
        add_hashed(file, text, length, state.chain);
        text += end ? length + 1 : length;
        size -= end ? length + 1 : length;
    }
    pith_sense_state_close(&state);
}

/* A layer that was taken, written and taken again. */
static void take_twice(struct subject *s, const json_t *line)
{
    static struct subject other;
    if (!pith_sense_state_take(&s->job, &s->sense, line)) return;
    const uint32_t layer = (uint32_t)json_integer_value(json_object_get(line, "back"));
    json_t *again = pith_sense_state_layer(&s->job, &s->sense, layer, "");
    make(&other);
    if (!again || !pith_sense_state_take(&other.job, &other.sense, again)) abort();
    json_t *third = pith_sense_state_layer(&other.job, &other.sense, layer, "");
    if (!json_equal(again, third)) abort();
    json_decref(again);
    json_decref(third);
}

static size_t read_lines(struct subject *s)
{
    struct pith_error err = {0};
    struct pith_sense_state state;
    const enum pith_status r = pith_sense_state_open(&state, folder(), &s->job, &s->sense, &err);
    const json_t *line;
    size_t i, count = json_array_size(state.lines);
    if (r != PITH_OK && !err.text[0]) abort();
    json_array_foreach (state.lines, i, line) take_twice(s, line);
    pith_sense_state_close(&state);
    return r == PITH_OK ? count : SIZE_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct subject s;
    struct pith_str file = {0};
    make(&s);
    if (size && data[0] & 1) add_lines(&file, &s, (const char *)data + 1, size - 1);
    else if (size) pith_str_append(&file, (const char *)data + 1, size - 1);
    folder_put("pith.journal", pith_str_text(&file), file.len);
    pith_str_free(&file);
    const size_t lines = read_lines(&s);
    if (lines != SIZE_MAX && read_lines(&s) != lines) abort();
    return 0;
}
