#include "quantize/ranks/route.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/ranks/ranks.h"
#include "base/str.h"
#include "num/codebook.h"

#include <stdio.h>
#include <string.h>

enum pith_status pith_route_bytes(const struct pith_route *route, void *data, size_t bytes,
                                  struct pith_error *err)
{
    struct pith_ranks *r = route->ranks;
    const unsigned own = pith_ranks_own(r);
    if (!r || route->from == route->to) return PITH_OK;
    if (route->to == PITH_TO_ALL) return pith_ranks_share(r, route->from, data, bytes, err);
    if (own == route->from) return pith_ranks_send(r, route->to, data, bytes, err);
    return own == route->to ? pith_ranks_receive(r, route->from, data, bytes, err) : PITH_OK;
}

/* All of a matrix but its numbers. */
struct header {
    char format[32], gguf[32];
    uint32_t rows, cols, row_group, group, groups, sparse_count;
    enum pith_dtype scale_dtype;
    float global, nested_offset;
    uint64_t stride;
    bool zeros, offsets, outer, levels, ordered, nested, sparse;
};

static struct header header_of(const struct pith_qmat *q)
{
    struct header h = {.rows = q->rows,
                       .cols = q->cols,
                       .row_group = q->row_group,
                       .group = q->group,
                       .groups = q->groups,
                       .sparse_count = q->sparse ? q->sparse->start[q->rows] : 0,
                       .scale_dtype = q->scale_dtype,
                       .global = q->global,
                       .nested_offset = q->nested ? q->nested->offset : 0,
                       .stride = q->stride,
                       .zeros = q->zeros,
                       .offsets = q->offsets,
                       .outer = q->outer,
                       .levels = q->levels,
                       .ordered = q->g_idx,
                       .nested = q->nested,
                       .sparse = q->sparse};
    (void)snprintf(h.format, sizeof h.format, "%s", q->format->name);
    (void)snprintf(h.gguf, sizeof h.gguf, "%s", q->gguf ? q->gguf->name : "");
    return h;
}

static size_t outer_count(const struct pith_qmat *q)
{
    return (size_t)q->rows * (q->cols / PITH_KBLOCK);
}

static size_t nested_runs(const struct pith_qmat *q)
{
    return (pith_qmat_scale_count(q) - 1) / PITH_DOUBLE_QUANT_BLOCK + 1;
}

/* A matrix without numbers that has the parts of the header. */
static enum pith_status make_room(const struct header *h, struct pith_qmat *q,
                                  struct pith_error *err)
{
    *q = (struct pith_qmat){.rows = h->rows,
                            .cols = h->cols,
                            .format = pith_format_find(h->format),
                            .stride = (size_t)h->stride,
                            .row_group = h->row_group,
                            .group = h->group,
                            .groups = h->groups,
                            .scale_dtype = h->scale_dtype,
                            .global = h->global,
                            .gguf = h->gguf[0] ? pith_kquant_find(h->gguf) : NULL};
    if (!q->format) return pith_fail(err, PITH_MISMATCH, "%s: no such format here", h->format);
    const size_t scales = pith_qmat_scale_count(q);
    bool good = (q->codes = pith_alloc(q->rows, q->stride)) &&
                (q->scales = pith_alloc(scales, sizeof *q->scales));
    if (h->zeros) good = good && (q->zeros = pith_alloc(scales, 1));
    if (h->offsets) good = good && (q->offsets = pith_alloc(scales, sizeof *q->offsets));
    if (h->outer) good = good && (q->outer = pith_alloc(outer_count(q), sizeof *q->outer));
    if (h->levels)
        good = good && (q->levels = pith_alloc(pith_qmat_level_count(q), sizeof *q->levels));
    if (h->ordered) good = good && (q->g_idx = pith_alloc(q->cols, sizeof *q->g_idx));
    if (h->nested) good = good && (q->nested = pith_nested_new(q));
    if (h->sparse) good = good && (q->sparse = pith_sparse_new(q->rows, h->sparse_count));
    if (q->nested) q->nested->offset = h->nested_offset;
    if (good) return PITH_OK;
    pith_qmat_free(q);
    return pith_fail_nomem(err, "a matrix of another rank");
}

struct part {
    void *data; /* NULL: the matrix has none of it */
    size_t bytes;
};
enum { PARTS = 12 };

static void parts_of(const struct header *h, const struct pith_qmat *q, struct part out[PARTS])
{
    const size_t scales = pith_qmat_scale_count(q);
    const struct pith_sparse *sparse = q->sparse;
    const struct part part[PARTS] = {
        {q->codes, q->rows * q->stride},
        {q->scales, scales * sizeof *q->scales},
        {q->zeros, scales},
        {q->offsets, scales * sizeof *q->offsets},
        {q->outer, outer_count(q) * sizeof *q->outer},
        {q->levels, q->levels ? pith_qmat_level_count(q) * sizeof *q->levels : 0},
        {q->g_idx, q->cols * sizeof *q->g_idx},
        {q->nested ? q->nested->code : NULL, scales},
        {q->nested ? q->nested->absmax : NULL, nested_runs(q) * sizeof(float)},
        {sparse ? sparse->start : NULL, (q->rows + (size_t)1) * sizeof(uint32_t)},
        {sparse ? sparse->col : NULL, h->sparse_count * sizeof(uint32_t)},
        {sparse ? sparse->value : NULL, h->sparse_count * sizeof(float)}};
    memcpy(out, part, sizeof part);
}

static enum pith_status route_parts(const struct pith_route *route, const struct header *h,
                                    const struct pith_qmat *q, struct pith_error *err)
{
    struct part part[PARTS];
    parts_of(h, q, part);
    for (size_t i = 0; i < PARTS; i++)
        if (part[i].data) PITH_TRY(pith_route_bytes(route, part[i].data, part[i].bytes, err));
    return PITH_OK;
}

enum pith_status pith_route_qmat(const struct pith_route *route, struct pith_qmat *q,
                                 struct pith_error *err)
{
    const unsigned own = pith_ranks_own(route->ranks);
    const bool goes = route->ranks && route->from != route->to;
    const bool gets = goes && own != route->from && (route->to == PITH_TO_ALL || own == route->to);
    struct header h = {.rows = 0};
    if (!goes || (own != route->from && !gets)) return PITH_OK;
    if (!gets) h = header_of(q);
    PITH_TRY(pith_route_bytes(route, &h, sizeof h, err));
    if (gets) PITH_TRY(make_room(&h, q, err));
    const enum pith_status s = route_parts(route, &h, q, err);
    if (s != PITH_OK && gets) pith_qmat_free(q);
    return s;
}

enum pith_status pith_route_input(const struct pith_route *route, struct pith_input *in,
                                  struct pith_error *err)
{
    struct {
        struct pith_input in;
        char format[32];
    } sent = {.in = *in};
    const struct pith_format *f = in->grid.format;
    (void)snprintf(sent.format, sizeof sent.format, "%s", f ? f->name : "");
    PITH_TRY(pith_route_bytes(route, &sent, sizeof sent, err));
    *in = sent.in;
    in->grid.format = sent.format[0] ? pith_format_find(sent.format) : NULL;
    return PITH_OK;
}

/* --- what rank 0 has -------------------------------------------------------------------------- */

enum pith_status pith_ranks_share_file(struct pith_ranks *ranks, const char *path,
                                       struct pith_error *err)
{
    enum { MOST = 1 << 30 };
    char *text = NULL;
    size_t size = 0;
    if (pith_ranks_alone(ranks)) return PITH_OK;
    if (pith_ranks_first(ranks)) PITH_TRY(pith_file_read_own(path, MOST, &text, &size, err));
    enum pith_status s = pith_ranks_share_text(ranks, 0, &text, &size, err);
    if (s == PITH_OK && !pith_ranks_first(ranks)) s = pith_file_write(path, text, size, err);
    pith_free(text);
    return s;
}

enum pith_status pith_ranks_share_json(struct pith_ranks *ranks, json_t **j, struct pith_error *err)
{
    const bool first = pith_ranks_first(ranks);
    struct pith_str json = {0};
    if (pith_ranks_alone(ranks)) return PITH_OK;
    if (first && *j) pith_json_dump(*j, JSON_COMPACT | JSON_REAL_PRECISION(17), &json);
    size_t size = json.len;
    char *text = first ? pith_str_take(&json) : NULL; /* elsewhere allocated for what arrives */
    enum pith_status s = first && !text ? pith_fail_nomem(err, "what ranks share")
                                        : pith_ranks_share_text(ranks, 0, &text, &size, err);
    if (s == PITH_OK && !first) {
        json_decref(*j);
        *j = NULL;
        if (size) s = pith_json_parse(text, size, "what rank 0 sends", j, err);
    }
    pith_free(text);
    return s;
}
