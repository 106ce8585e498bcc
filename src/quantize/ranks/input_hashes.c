#include "quantize/ranks/input_hashes.h"

#include "base/mem.h"
#include "base/str.h"
#include "quantize/run.h"

#include <string.h>

/* The largest that is nobody's yet. */
static struct pith_read *next_largest(struct pith_read *list, size_t count, unsigned nobody)
{
    struct pith_read *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (list[i].owner == nobody && (!best || list[i].tensor->bytes > best->tensor->bytes))
            best = &list[i];
    return best;
}

/* Each to who has the fewest bytes, the largest first. load[ranks] is all 0. */
static void share_out(struct pith_read *list, size_t count, uint64_t *load,
                      const struct pith_ranks *r)
{
    const unsigned ranks = pith_ranks_count(r);
    for (size_t i = 0; i < count; i++) list[i].owner = ranks;
    for (struct pith_read *t; (t = next_largest(list, count, ranks)) != NULL;) {
        t->owner = pith_spread_least(load, ranks);
        t->other = t->owner != pith_ranks_own(r);
        load[t->owner] += t->tensor->bytes;
    }
}

/* Every rank reads the same: its own copy of it, perhaps. */
static enum pith_status agree(const struct pith_run *r, const struct pith_read *list, size_t count,
                              struct pith_error *err)
{
    struct pith_str text = {0};
    char hex[PITH_SHA256_HEX];
    for (size_t i = 0; i < count; i++)
        pith_str_printf(&text, "%s %s\n", list[i].tensor->name, list[i].same);
    const bool good = !text.failed && pith_sha256_hex(text.data, text.len, hex);
    pith_str_free(&text);
    if (!good) return pith_fail_nomem(err, "a digest");
    return pith_ranks_agree(r->ranks, hex, "an input", err);
}

/* The journal is rank 0's: the others send it their hashes. received[count]: memory for that. */
static enum pith_status collect(const struct pith_run *r, struct pith_read *list, size_t count,
                                pith_hash_text *received, struct pith_error *err)
{
    const size_t bytes = count * sizeof *received;
    for (size_t i = 0; i < count; i++) memcpy(received[i], list[i].hex, sizeof *received);
    if (!pith_run_writes(r)) return pith_ranks_send(r->ranks, 0, received, bytes, err);
    for (unsigned k = 1; k < pith_ranks_count(r->ranks); k++) {
        PITH_TRY(pith_ranks_receive(r->ranks, k, received, bytes, err));
        for (size_t i = 0; i < count; i++) {
            if (list[i].owner != k) continue;
            memcpy(list[i].hex, received[i], sizeof *received);
            list[i].hex[PITH_SHA256_HEX - 1] = '\0';
        }
    }
    return PITH_OK;
}

enum pith_status pith_hashes_divide(const struct pith_run *r, struct pith_read *list, size_t count,
                                    struct pith_keyed_key *key, struct pith_error *err)
{
    if (!r->ranks) return PITH_OK;
    if (pith_run_writes(r) && !pith_keyed_draw(key))
        return pith_fail(err, PITH_IO, "the system gives no random numbers");
    PITH_TRY(pith_ranks_share(r->ranks, 0, key, sizeof *key, err));
    uint64_t *load = pith_zalloc(pith_ranks_count(r->ranks), sizeof *load);
    if (!load) return pith_fail_nomem(err, "the input's hashes");
    share_out(list, count, load, r->ranks);
    for (size_t i = 0; i < count; i++) list[i].key = key;
    pith_free(load);
    return PITH_OK;
}

enum pith_status pith_hashes_join(const struct pith_run *r, struct pith_read *list, size_t count,
                                  struct pith_error *err)
{
    if (!r->ranks) return PITH_OK;
    PITH_TRY(agree(r, list, count, err));
    pith_hash_text *received = pith_zalloc(count + 1, sizeof *received);
    const enum pith_status s = received ? collect(r, list, count, received, err)
                                        : pith_fail_nomem(err, "the input's hashes");
    pith_free(received);
    return s;
}
