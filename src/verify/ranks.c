/* A verification that ranks share: each makes its part of the checks, in runs, so that what they
 * found, put one behind the other, is what one rank would have reported. */
#include "verify/verify.h"

#include "base/hash.h"
#include "base/mem.h"

#include <stdio.h>

static struct pith_ranks *ranks_of(const struct pith_verification *v)
{
    return pith_backend_ranks(v->backend);
}

bool pith_verify_own(struct pith_verification *v, size_t i, size_t count)
{
    struct pith_ranks *r = ranks_of(v);
    const unsigned own = pith_ranks_own(r);
    v->elsewhere = i < pith_ranks_from(r, own, count) || i >= pith_ranks_from(r, own + 1, count);
    return !v->elsewhere;
}

enum pith_status pith_verify_agree(struct pith_verification *v, struct pith_error *err)
{
    struct pith_str text = {0};
    char hex[PITH_SHA256_HEX];
    if (pith_ranks_alone(ranks_of(v))) return PITH_OK;
    pith_json_dump(v->problems, JSON_COMPACT, &text);
    pith_str_printf(&text, " %d %zu %zu", v->model != NULL, v->file.linears.count,
                    v->file.tensors.count);
    const bool good = !text.failed && !v->failed && pith_sha256_hex(text.data, text.len, hex);
    pith_str_free(&text);
    if (!good) return pith_fail_nomem(err, "the report");
    return pith_ranks_agree(ranks_of(v), hex, "a checkpoint or an original", err);
}

/* --- what was found --------------------------------------------------------------------------- */

/* The lines from `before` on, as text. */
static bool dump_from(const json_t *lines, size_t before, struct pith_str *out)
{
    json_t *new = json_array();
    bool good = new;
    for (size_t i = before; good && i < json_array_size(lines); i++)
        good = json_array_append(new, json_array_get(lines, i)) == 0;
    if (good) pith_json_dump(new, JSON_COMPACT, out);
    json_decref(new);
    return good && !out->failed;
}

/* Lines of one rank, behind those that are in `all`. */
static enum pith_status share_lines(struct pith_verification *v, unsigned rank, size_t before,
                                    json_t *all, struct pith_error *err)
{
    struct pith_ranks *r = ranks_of(v);
    struct pith_str own = {0};
    const bool mine = pith_ranks_own(r) == rank;
    const bool good = !mine || dump_from(v->problems, before, &own);
    size_t size = own.len;
    char *text = mine ? pith_str_take(&own) : NULL;
    json_t *lines = NULL;
    enum pith_status s = good && (text || !mine) ? pith_ranks_share_text(r, rank, &text, &size, err)
                                                 : pith_fail_nomem(err, "the report");
    if (s == PITH_OK) s = pith_json_parse(text, size, "another rank", &lines, err);
    if (s == PITH_OK && json_array_extend(all, lines) != 0) s = pith_fail_nomem(err, "the report");
    json_decref(lines);
    pith_free(text);
    return s;
}

enum pith_status pith_verify_share(struct pith_verification *v, size_t before,
                                   struct pith_error *err)
{
    v->elsewhere = false;
    if (pith_ranks_alone(ranks_of(v))) return PITH_OK;
    if (v->failed) return pith_fail_nomem(err, "the report");
    json_t *all = json_array();
    enum pith_status s = all ? PITH_OK : pith_fail_nomem(err, "the report");
    for (unsigned i = 0; s == PITH_OK && i < pith_ranks_count(ranks_of(v)); i++)
        s = share_lines(v, i, before, all, err);
    while (s == PITH_OK && json_array_size(v->problems) > before)
        if (json_array_remove(v->problems, json_array_size(v->problems) - 1) != 0)
            s = pith_fail_nomem(err, "the report");
    if (s == PITH_OK && json_array_extend(v->problems, all) != 0)
        s = pith_fail_nomem(err, "the report");
    json_decref(all);
    return s;
}

enum pith_status pith_verify_share_met(struct pith_verification *v, struct pith_entries *list,
                                       struct pith_error *err)
{
    struct pith_ranks *r = ranks_of(v);
    if (pith_ranks_alone(r)) return PITH_OK;
    const size_t each = list->count, ranks = pith_ranks_count(r), all = ranks * each;
    bool *met = pith_zalloc(all, sizeof *met);
    if (!met) return pith_fail_nomem(err, "the report");
    for (size_t i = 0; i < each; i++) met[pith_ranks_own(r) * each + i] = list->rows[i].met;
    const enum pith_status s = pith_ranks_share_parts(r, met, ranks, each * sizeof *met, err);
    for (size_t i = 0; s == PITH_OK && i < all; i++) list->rows[i % each].met |= met[i];
    pith_free(met);
    return s;
}

enum pith_status pith_verify_share_sums(struct pith_verification *v, struct pith_error *err)
{
    struct pith_ranks *r = ranks_of(v);
    const size_t ranks = pith_ranks_count(r);
    struct pith_verify_sums *of = pith_zalloc(ranks, sizeof *of), all = {0};
    if (!of) return pith_fail_nomem(err, "the report");
    of[pith_ranks_own(r)] = v->sums;
    const enum pith_status s = pith_ranks_share_parts(r, of, ranks, sizeof *of, err);
    for (size_t i = 0; i < ranks; i++) {
        all.weights += of[i].weights;
        all.pruned += of[i].pruned;
        all.bits += of[i].bits;
    }
    if (s == PITH_OK) v->sums = all;
    pith_free(of);
    return s;
}

enum pith_status pith_verify_end(struct pith_verification *v, enum pith_status s,
                                 struct pith_error *err)
{
    s = pith_ranks_fail(ranks_of(v), s, err);
    return s == PITH_OK ? pith_ranks_meet(ranks_of(v), err) : s;
}
