/* Any bytes as the journal that --resume trusts: it is refused, or gives the units of its first
 * lines in their order; written again from them, it gives the same.
 *
 *     u8: even, the bytes are the file; odd, they are its lines without their hashes, which are put
 *     in front here as the journal's writer does, so that what is behind the hashes is reached;
 *     with 2 added, the journal is another job's */
#include "folder.h"

#include "base/hash.h"
#include "base/str.h"
#include "quantize/output/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char whose[PITH_SHA256_HEX] =
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
    memcpy(chain, whose, sizeof chain);
    while (size) {
        const char *end = memchr(text, '\n', size);
        const size_t n = end ? (size_t)(end - text) : size;
        add_hashed(file, text, n, chain);
        text += end ? n + 1 : n;
        size -= end ? n + 1 : n;
    }
}

static size_t read_units(const struct pith_job *job, struct pith_journal *j, bool *good)
{
    struct pith_error err = {0};
    const enum pith_status s = pith_journal_open(job, j, &err);
    if (s != PITH_OK && !err.text[0]) abort();
    *good = s == PITH_OK;
    return json_array_size(j->units);
}

static void read_twice(const struct pith_job *job)
{
    struct pith_journal journal = {0}, *j = &journal;
    bool good;
    const size_t units = read_units(job, j, &good);
    if (units > job->model->shape.layers + 1) abort();
    if (good) {
        json_t *first = j->units;
        if (pith_journal_cut(job, j, units, NULL) != PITH_OK) abort();
        if (read_units(job, j, &good) != units || !good || !json_equal(first, j->units)) abort();
        json_decref(first);
    }
    json_decref(j->units);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[128], partial[] = "out.partial";
    const struct pith_quantize_options options = {0};
    struct pith_model model = {.shape.layers = 3};
    (void)snprintf(path, sizeof path, "%s/pith.journal", folder());
    struct pith_job job = {
        .options = &options, .model = &model, .journal_path = path, .partial = partial};
    memcpy(job.fingerprint, whose, sizeof whose);
    if (size && data[0] & 2) job.fingerprint[0] = 'f';
    struct pith_str file = {0};
    if (size && data[0] & 1) add_lines(&file, (const char *)data + 1, size - 1);
    else if (size) pith_str_append(&file, (const char *)data + 1, size - 1);
    folder_put("pith.journal", pith_str_text(&file), file.len);
    pith_str_free(&file);
    read_twice(&job);
    return 0;
}
