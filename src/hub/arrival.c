#include "hub/arrival.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { PIECES_MOST = 64 };

static enum pith_status no_memory(struct pith_error *err)
{
    return pith_fail_nomem(err, "a file to be downloaded");
}

/* The pieces that a record lists; false when it is not whole, or of another file. */
static bool read_record(struct pith_arrival *p, const char *text)
{
    uint64_t size, at = 0;
    size_t count;
    int n = 0;
    if (sscanf(text, "pieces %zu of %" SCNu64 "\n%n", &count, &size, &n) != 2 || n == 0)
        return false;
    if (size != p->size || count == 0 || count > PIECES_MOST) return false;
    for (size_t i = 0; i < count; i++) {
        struct pith_hub_piece *x = &p->piece[i];
        text += n;
        n = 0;
        if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 "\n%n", &x->from, &x->to, &x->done,
                   &n) != 3 || n == 0)
            return false;
        if (x->from != at || x->to < x->from || x->to > size || x->done > x->to - x->from)
            return false;
        at = x->to;
    }
    p->count = count;
    return at == size;
}

static bool resume(struct pith_arrival *p)
{
    char *text = NULL;
    size_t length;
    uint64_t size;
    int64_t changed;
    if (pith_file_stat(p->path, &size, &changed, NULL) != PITH_OK || size != p->size) return false;
    if (pith_file_read_own(p->record, 1 << 16, &text, &length, NULL) != PITH_OK) return false;
    const bool good = read_record(p, text);
    pith_free(text);
    return good;
}

static void begin(struct pith_arrival *p, size_t most)
{
    uint64_t count = p->size / PITH_PIECE_LEAST;
    if (count > most) count = most;
    if (count > PIECES_MOST) count = PIECES_MOST;
    if (count == 0) count = 1;
    p->count = (size_t)count;
    for (uint64_t i = 0; i < count; i++)
        p->piece[i] = (struct pith_hub_piece){.from = p->size / count * i,
                                          .to = i + 1 < count ? p->size / count * (i + 1)
                                                              : p->size};
}

static void release(struct pith_arrival *p)
{
    pith_free(p->path);
    pith_free(p->record);
    pith_free(p->piece);
    *p = (struct pith_arrival){.out.fd = -1};
}

static char *with(const char *blob, const char *ending)
{
    struct pith_str s = {0};
    pith_str_printf(&s, "%s%s", blob, ending);
    return pith_str_take(&s);
}

enum pith_status pith_arrival_open(const char *blob, uint64_t size, size_t most,
                                struct pith_arrival *part, struct pith_error *err)
{
    struct pith_arrival p = {.out.fd = -1, .size = size};
    p.path = with(blob, ".pith.incomplete");
    p.record = with(blob, ".pith.pieces");
    p.piece = pith_zalloc(PIECES_MOST, sizeof *p.piece);
    enum pith_status s = p.path && p.record && p.piece ? PITH_OK : no_memory(err);
    const bool resumed = s == PITH_OK && resume(&p);
    if (s == PITH_OK && !resumed) {
        memset(p.piece, 0, PIECES_MOST * sizeof *p.piece);
        begin(&p, most);
        s = pith_unlink(p.path, err);
        if (s == PITH_OK) s = pith_unlink(p.record, err);
    }
    if (s == PITH_OK) {
        s = pith_out_open(p.path, size, &p.out, err);
        if (s != PITH_OK && !resumed) (void)pith_unlink(p.path, NULL);
    }
    if (s != PITH_OK) release(&p);
    *part = p;
    return s;
}

uint64_t pith_arrival_done(const struct pith_arrival *part)
{
    uint64_t done = 0;
    for (size_t i = 0; i < part->count; i++) done += part->piece[i].done;
    return done;
}

void pith_arrival_unite(struct pith_arrival *part)
{
    part->piece[0] = (struct pith_hub_piece){.to = part->size};
    part->count = 1;
    part->changed = true;
}

void pith_arrival_record(struct pith_arrival *part)
{
    struct pith_str s = {0};
    if (!part->changed) return;
    pith_str_printf(&s, "pieces %zu of %" PRIu64 "\n", part->count, part->size);
    for (size_t i = 0; i < part->count; i++)
        pith_str_printf(&s, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", part->piece[i].from,
                        part->piece[i].to, part->piece[i].done);
    if (!s.failed && pith_file_write(part->record, s.data, s.len, NULL) == PITH_OK)
        part->changed = false;
    pith_str_free(&s);
}

void pith_arrival_close(struct pith_arrival *part, bool drop)
{
    if (!part->path) return;
    if (!drop) pith_arrival_record(part);
    pith_out_close(&part->out);
    if (drop) {
        (void)pith_unlink(part->path, NULL);
        (void)pith_unlink(part->record, NULL);
    }
    release(part);
}

enum pith_status pith_arrival_check(const struct pith_arrival *part, const char *blob,
                                 const _Atomic(bool) *stop, struct pith_error *err)
{
    enum { STEP = 1 << 20 };
    const bool git = strlen(blob) == 40;
    char hex[PITH_SHA256_HEX], head[32];
    enum pith_status s = PITH_OK;
    char *data = pith_alloc(STEP, 1);
    struct pith_sha256 *h = git ? pith_sha1_new() : pith_sha256_new();
    if (!data || !h) s = no_memory(err);
    /* git names a file by the SHA-1 of "blob SIZE", a NUL, and its bytes. */
    const int n = snprintf(head, sizeof head, "blob %" PRIu64, part->size);
    if (git) pith_sha256_update(h, head, (size_t)n + 1);
    for (uint64_t at = 0; s == PITH_OK && at < part->size; at += STEP) {
        const size_t size = part->size - at < STEP ? (size_t)(part->size - at) : STEP;
        s = pith_out_read(&part->out, at, data, size, err);
        if (s == PITH_OK) pith_sha256_update(h, data, size);
        if (s == PITH_OK && atomic_load(stop)) s = pith_fail(err, PITH_INTERRUPTED, "interrupted");
    }
    pith_sha256_finish(h, hex);
    pith_free(data);
    if (s == PITH_OK && strcmp(hex, blob) != 0)
        s = pith_fail(err, PITH_MISMATCH, "what arrived has the hash %s, and the hub says %s; "
                      "it was deleted, pull again", hex, blob);
    return s == PITH_OK ? pith_out_sync(&part->out, err) : s;
}
