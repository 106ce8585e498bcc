/* Any bytes as the journal that --resume trusts: it is refused, or gives the units of its first
 * lines in their order; written again from them, it gives the same.
 *
 *     u8: even, the bytes are the file; odd, they are its lines without their hashes, which are put
 *     in front here as the journal's writer does, so that what is behind the hashes is reached;
 *     with 2 added, the journal is another job's */
#include "folder.h"

#include "base/hash.h"
#include "base/str.h"
#include "pipe/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char job[PITH_SHA256_HEX] =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

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

static void add_lines(struct pith_str *file, const char *text, size_t size)
{
    char chain[PITH_SHA256_HEX];
    memcpy(chain, job, sizeof chain);
    while (size) {
        const char *end = memchr(text, '\n', size);
        const size_t n = end ? (size_t)(end - text) : size;
        add_hashed(file, text, n, chain);
        text += end ? n + 1 : n;
        size -= end ? n + 1 : n;
    }
}

static size_t read_units(struct pith_run *r, bool *good)
{
    struct pith_error err = {0};
    const enum pith_status s = pith_journal_open(r, &err);
    if (s != PITH_OK && !err.text[0]) abort();
    *good = s == PITH_OK;
    return json_array_size(r->units);
}

static void read_twice(struct pith_run *r)
{
    bool good;
    const size_t units = read_units(r, &good);
    if (units > r->model->shape.layers + 1) abort();
    if (good) {
        json_t *first = r->units;
        if (pith_journal_cut(r, units, NULL) != PITH_OK) abort();
        if (read_units(r, &good) != units || !good || !json_equal(first, r->units)) abort();
        json_decref(first);
    }
    json_decref(r->units);
    r->units = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[128], partial[] = "out.partial";
    const struct pith_quantize_options options = {0};
    struct pith_model model = {.shape.layers = 3};
    struct pith_run *r = calloc(1, sizeof *r);
    if (!r) abort();
    (void)snprintf(path, sizeof path, "%s/pith.journal", folder());
    r->options = &options;
    r->model = &model;
    r->journal_path = path;
    r->partial = partial;
    memcpy(r->fingerprint, job, sizeof job);
    if (size && data[0] & 2) r->fingerprint[0] = 'f';
    struct pith_str file = {0};
    if (size && data[0] & 1) add_lines(&file, (const char *)data + 1, size - 1);
    else if (size) pith_str_append(&file, (const char *)data + 1, size - 1);
    folder_put("pith.journal", pith_str_text(&file), file.len);
    pith_str_free(&file);
    read_twice(r);
    free(r);
    return 0;
}
