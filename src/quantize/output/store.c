/* Writing tensors at their place and reading them back. */
#include "quantize/output/store.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/digest.h"
#include "kern/ops.h"
#include "quantize/memory_estimate.h"
#include "quantize/output/layout.h"
#include "quantize/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes that go through hashing, writing and comparing at a time: they stay in the cache. */
enum { CHUNK = 1 << 18 };

/* Writes n bytes at `at` of a tensor and looks at what the file then holds. */
static enum pith_status write_bytes(const struct pith_run *r, const struct pith_tensor_plan *p,
                                    const uint8_t *data, uint64_t at, size_t n,
                                    struct pith_error *err)
{
    PITH_TRY(pith_out_write(&r->out.shards[p->shard], p->offset + at, data, n, err));
    const struct pith_tensor *back = pith_checkpoint_find(r->out.written, p->name);
    if (back && back->bytes == p->bytes && memcmp(back->data + at, data, n) == 0) return PITH_OK;
    return pith_fail(err, PITH_MISMATCH, "%s: what was read back is not what was written", p->name);
}

/* Where the bytes of a tensor come from, part by part, as they will lie in the file. */
struct part {
    const uint8_t *data;    /* rows in their order, or all as in the file */
    struct pith_stow order; /* of the rows, one by one */
    size_t row, most;       /* bytes of a row, of a part */
    uint8_t *moved;         /* [most] or the whole, or NULL */
};

/* All of it as the file will have it. */
static void move_all(const struct pith_tensor_plan *p, const void *data, struct part *out)
{
    const size_t element = pith_dtype_bits(p->dtype) / 8;
    const struct pith_stow_shape s = {p->shape[0], p->bytes / p->shape[0] / element, element};
    pith_stow_apply(&p->order, &s, data, out->moved);
    out->data = out->moved;
    out->order = (struct pith_stow){0};
}

/* Of a tensor whose rows are moved one by one: as many as fit into a chunk. */
static size_t part_rows_bytes(const struct pith_tensor_plan *p)
{
    const size_t row = (size_t)(p->bytes / p->shape[0]);
    return row < CHUNK ? CHUNK / row * row : row;
}

static enum pith_status begin_parts(const struct pith_tensor_plan *p, const void *data,
                                    struct part *out, struct pith_error *err)
{
    const bool by_rows = pith_stow_by_rows(&p->order);
    *out = (struct part){.data = data, .most = CHUNK, .order = p->order};
    if (p->order.kind == PITH_STOW_STRAIGHT) return PITH_OK;
    out->row = (size_t)(p->bytes / p->shape[0]);
    if (by_rows) out->most = part_rows_bytes(p);
    out->moved = pith_alloc(by_rows ? out->most : (size_t)p->bytes, 1);
    if (!out->moved) return pith_fail_nomem(err, p->name);
    if (!by_rows) move_all(p, data, out);
    return PITH_OK;
}

/* n bytes from `at` on: whole rows when they are moved. */
static const uint8_t *take_part(const struct part *p, uint64_t at, size_t n)
{
    if (p->order.kind == PITH_STOW_STRAIGHT) return p->data + at;
    for (size_t i = 0; i < n; i += p->row) {
        const uint64_t row = pith_stow_row(&p->order, (at + i) / p->row);
        memcpy(p->moved + i, p->data + row * p->row, p->row);
    }
    return p->moved;
}

static enum pith_status store_chunks(const struct pith_run *r, const struct pith_tensor_plan *p,
                                     const struct part *part, const struct pith_tensor *checked,
                                     struct pith_sha256 *hash, struct pith_error *err)
{
    const size_t size = checked ? pith_dtype_bits(checked->dtype) / 8 : 1;
    for (uint64_t at = 0; at < p->bytes; at += part->most) {
        const size_t n = p->bytes - at < part->most ? (size_t)(p->bytes - at) : part->most;
        const uint8_t *data = take_part(part, at, n);
        if (checked && size) PITH_TRY(pith_tensor_check_part(checked, at / size, n / size, err));
        pith_sha256_update(hash, data, n);
        PITH_TRY(write_bytes(r, p, data, at, n, err));
    }
    pith_out_begin_sync(&r->out.shards[p->shard], p->offset, p->bytes);
    return PITH_OK;
}

/* A tensor that is to be stored here or elsewhere. */
static enum pith_status plan_one(struct pith_run *r, const char *name, bool *own,
                                 struct pith_stored *out, struct pith_error *err)
{
    const struct pith_tensor_plan *p = pith_layout_find(&r->job->layout, name);
    if (!p) return pith_fail(err, PITH_MISMATCH, "%s: was not planned", name);
    *out = (struct pith_stored){.name = p->name, .bytes = p->bytes};
    *own = pith_writers_take(r, p->bytes);
    return PITH_OK;
}

enum pith_status pith_store_bytes(const struct pith_run *r, const char *name, const void *data,
                                  size_t bytes, const struct pith_tensor *checked,
                                  struct pith_stored *out, struct pith_error *err)
{
    const struct pith_tensor_plan *p = pith_layout_find(&r->job->layout, name);
    if (!p || p->bytes != bytes)
        return pith_fail(err, PITH_MISMATCH, "%s: %zu bytes were made where %llu were planned",
                         name, bytes, p ? (unsigned long long)p->bytes : 0ull);
    *out = (struct pith_stored){.name = p->name, .bytes = bytes};
    struct pith_sha256 *hash = pith_tensor_digest_begin(p->dtype, p->dims, p->shape);
    if (!hash) return pith_fail_nomem(err, name);
    struct part part;
    enum pith_status s = begin_parts(p, data, &part, err);
    if (s == PITH_OK) s = store_chunks(r, p, &part, checked, hash, err);
    pith_free(part.moved);
    pith_sha256_finish(hash, out->sha256);
    if (s == PITH_OK && out->sha256[0] == '\0') return pith_fail_nomem(err, name);
    if (s == PITH_OK) pith_writers_note(r, p, out->sha256);
    return s;
}

static json_t *stored_json(const struct pith_stored *list, unsigned count)
{
    json_t *j = json_array();
    for (unsigned i = 0; j && i < count; i++) {
        json_t *item = json_pack("{s:s, s:s, s:I}", "name", list[i].name, "sha256", list[i].sha256,
                                 "bytes", (json_int_t)list[i].bytes);
        if (json_array_append_new(j, item) == 0) continue;
        json_decref(j);
        j = NULL;
    }
    return j;
}

enum pith_status pith_weights_digest(const struct pith_backend *be, const struct pith_weight *w,
                                     char hex[PITH_SHA256_HEX], struct pith_error *err)
{
    enum { ROWS = 4 };
    const struct pith_kern *k = pith_backend_kern(be);
    float *rows = pith_alloc((size_t)ROWS * w->cols, sizeof *rows);
    struct pith_sha256 *h = pith_sha256_new();
    enum pith_status s = rows && h ? PITH_OK : pith_fail_nomem(err, "a digest");
    for (uint32_t at = 0; at < w->rows && s == PITH_OK; at += ROWS) {
        const uint32_t n = w->rows - at < ROWS ? w->rows - at : ROWS;
        const size_t count = (size_t)n * w->cols;
        float lo, hi;
        pith_decode_rows(be, w, at, n, rows);
        k->range(count, rows, &lo, &hi);
        if (isnan(lo))
            s = pith_fail(err, PITH_NUMERIC, "rows %u to %u hold a value that is not finite", at,
                          at + n - 1);
        pith_sha256_update(h, rows, count * sizeof *rows);
    }
    pith_sha256_finish(h, hex);
    pith_free(rows);
    return s;
}

/* True when none of n values is infinite or NaN: when none has all bits of the exponent set. The
 * inner loops have a constant length, for which compilers make vector code. */
static bool finite_16(const uint8_t *p, size_t n, uint16_t exponent)
{
    enum { STEP = 256 };
    uint16_t x[STEP], bad = 0;
    for (size_t at = 0; at < n; at += STEP) {
        const size_t count = n - at < STEP ? n - at : STEP;
        if (count < STEP) memset(x, 0, sizeof x);
        memcpy(x, p + at * sizeof *x, count * sizeof *x);
        for (size_t i = 0; i < STEP; i++) bad |= (uint16_t)((x[i] & exponent) == exponent);
    }
    return !bad;
}

static bool finite_32(const uint8_t *p, size_t n)
{
    enum { STEP = 128, EXPONENT = 0x7f800000 };
    uint32_t x[STEP], bad = 0;
    for (size_t at = 0; at < n; at += STEP) {
        const size_t count = n - at < STEP ? n - at : STEP;
        if (count < STEP) memset(x, 0, sizeof x);
        memcpy(x, p + at * sizeof *x, count * sizeof *x);
        for (size_t i = 0; i < STEP; i++) bad |= (uint32_t)((x[i] & EXPONENT) == EXPONENT);
    }
    return !bad;
}

static bool looks_finite(enum pith_dtype t, const uint8_t *p, size_t n)
{
    if (t == PITH_BF16) return finite_16(p, n, 0x7f80);
    if (t == PITH_F16) return finite_16(p, n, 0x7c00);
    return t == PITH_F32 && finite_32(p, n);
}

enum pith_status pith_tensor_check_part(const struct pith_tensor *t, uint64_t first, uint64_t count,
                                        struct pith_error *err)
{
    enum { PART = 1024 };
    float x[PART];
    uint8_t slice[PART * sizeof(double)];
    const size_t bytes = pith_dtype_bits(t->dtype) / 8;
    for (uint64_t at = first; at < first + count; at += PART) {
        const uint64_t left = first + count - at;
        const size_t n = left < PART ? (size_t)left : PART;
        if (t->row_step) pith_tensor_copy(t, at, n, slice);
        const uint8_t *data = t->row_step ? slice : t->data + at * bytes;
        if (looks_finite(t->dtype, data, n)) continue;
        if (!pith_dtype_decode(t->dtype, data, n, x)) return PITH_OK;
        for (size_t i = 0; i < n; i++)
            if (!isfinite(x[i]))
                return pith_fail(err, PITH_NUMERIC,
                                 "%s: value %llu is not finite: the model is damaged", t->name,
                                 (unsigned long long)(at + i));
    }
    return PITH_OK;
}

enum pith_status pith_tensor_check_finite(const struct pith_tensor *t, struct pith_error *err)
{
    PITH_TRY(pith_tensor_need(t, err));
    return pith_tensor_check_part(t, 0, pith_tensor_elements(t), err);
}

static enum pith_status store_packed(const struct pith_run *r, const char *module,
                                     const struct pith_packed_set *set,
                                     struct pith_linear_result *out, struct pith_error *err)
{
    struct pith_str name = {0};
    enum pith_status s = PITH_OK;
    for (unsigned i = 0; i < set->count && s == PITH_OK; i++) {
        pith_str_clear(&name);
        pith_str_printf(&name, "%s%s", module, set->item[i].suffix);
        s = name.failed ? pith_fail_nomem(err, module)
                        : pith_store_bytes(r, name.data, set->item[i].data, set->item[i].bytes,
                                           NULL, &out->stored[out->stored_count++], err);
    }
    pith_str_free(&name);
    return s;
}

static enum pith_status read_back(const struct pith_run *r, const char *module,
                                  const struct pith_qmat *q, struct pith_error *err)
{
    struct pith_qmat again;
    bool found = false;
    PITH_TRY(r->job->container->load(r->out.written_state, r->out.written, module, q->rows, q->cols,
                                     &again, &found, err));
    if (!found) return pith_fail(err, PITH_MISMATCH, "%s: not found when read back", module);
    const bool same = pith_qmat_equal(q, &again);
    pith_qmat_free(&again);
    return same ? PITH_OK
                : pith_fail(err, PITH_MISMATCH,
                            "%s: read back, its weights differ from what was meant", module);
}

enum pith_status pith_store_linear(const struct pith_run *r, const char *module,
                                   const struct pith_qmat *q, struct pith_linear_result *out,
                                   struct pith_phases *time, struct pith_error *err)
{
    struct pith_packed_set set = {0};
    out->stored_count = 0;
    out->bits_per_weight = pith_qmat_bits_per_weight(q);
    enum pith_status s =
        pith_container_pack(r->job->container, q, &r->job->container_opts, &set, err);
    pith_phases_mark(time, PITH_PHASE_PACK);
    if (s == PITH_OK) s = store_packed(r, module, &set, out, err);
    pith_memory_now(&out->memory, &out->mapped);
    pith_packed_free(&set);
    pith_phases_mark(time, PITH_PHASE_WRITE);
    if (s == PITH_OK) s = read_back(r, module, q, err);
    pith_phases_mark(time, PITH_PHASE_VERIFY);
    return s == PITH_OK ? s : pith_fail_in(err, s, module);
}

/* NULL where the input is quantized, or a model in another basis gets a separate head. */
static const struct pith_tensor *tensor_of(const struct pith_job *job, const struct pith_choice *c)
{
    char name[320];
    (void)snprintf(name, sizeof name, "%s.weight", c->module);
    return pith_checkpoint_find(job->model->checkpoint, name);
}

uint64_t pith_job_tensor_bytes(const struct pith_job *job, const struct pith_choice *c)
{
    const struct pith_tensor *t = tensor_of(job, c);
    return t ? t->bytes : 0;
}

uint64_t pith_job_straight_bytes(const struct pith_job *job, const struct pith_choice *c)
{
    const struct pith_tensor *t = tensor_of(job, c);
    return t && !pith_tensor_plain(t) ? t->bytes : 0;
}

/* What a linear is stored as; to be freed, also after a failure. */
static enum pith_status plan_packed(const struct pith_job *job, const struct pith_choice *c,
                                    struct pith_packed_set *set)
{
    struct pith_container_opts opts = job->container_opts;
    opts.hadamard = c->hadamard;
    return job->container->plan(&c->grid, c->rows, c->cols, &opts, set, NULL);
}

/* Where a tensor's rows lie in another order than they are packed in: what is moved on the way to
 * the file, and the copy in order that is made of it when it is read back. */
static void moved_bytes(const struct pith_job *job, const char *module, const char *suffix,
                        uint64_t *out, uint64_t *back)
{
    char name[320];
    snprintf(name, sizeof name, "%s%s", module, suffix);
    const struct pith_tensor_plan *p = pith_layout_find(&job->layout, name);
    if (!p || p->order.kind == PITH_STOW_STRAIGHT) return;
    const uint64_t part = pith_stow_by_rows(&p->order) ? part_rows_bytes(p) : p->bytes;
    *out = part > *out ? part : *out;
    *back += p->bytes;
}

enum pith_status pith_store_elsewhere(const struct pith_run *r, const struct pith_choice *c,
                                      struct pith_linear_result *out, struct pith_error *err)
{
    struct pith_packed_set set = {0};
    struct pith_str name = {0};
    enum pith_status s = plan_packed(r->job, c, &set);
    if (s != PITH_OK) s = pith_fail(err, s, "%s: the container does not hold it", c->module);
    out->stored_count = 0;
    for (unsigned i = 0; i < set.count && s == PITH_OK; i++) {
        pith_str_clear(&name);
        pith_str_printf(&name, "%s%s", c->module, set.item[i].suffix);
        const struct pith_tensor_plan *p = pith_layout_find(&r->job->layout, pith_str_text(&name));
        if (!p) s = pith_fail(err, PITH_MISMATCH, "%s: was not planned", pith_str_text(&name));
        if (!p) break;
        out->stored[out->stored_count++] = (struct pith_stored){.name = p->name, .bytes = p->bytes};
    }
    pith_str_free(&name);
    pith_packed_free(&set);
    return s;
}

enum pith_status pith_store_shared(struct pith_run *r, const struct pith_choice *c,
                                   const struct pith_qmat *q, struct pith_linear_result *out,
                                   struct pith_error *err)
{
    uint64_t bytes = 0;
    if (pith_writers_share(r)) PITH_TRY(pith_store_elsewhere(r, c, out, err));
    for (unsigned i = 0; i < out->stored_count; i++) bytes += out->stored[i].bytes;
    if (pith_writers_take(r, bytes))
        return pith_store_linear(r, c->module, q, out, &r->phases, err);
    out->bits_per_weight = pith_qmat_bits_per_weight(q);
    return PITH_OK;
}

uint64_t pith_store_linear_bytes(const struct pith_job *job, const struct pith_choice *c)
{
    struct pith_packed_set set = {0};
    uint64_t packed = 0, moved = 0, again = pith_job_made_bytes(job, c);
    if (plan_packed(job, c, &set) == PITH_OK)
        for (unsigned i = 0; i < set.count; i++) {
            uint64_t bytes = 0;
            (void)pith_tensor_size(set.item[i].dtype, set.item[i].dims, set.item[i].shape, &bytes);
            packed += bytes;
            moved_bytes(job, c->module, set.item[i].suffix, &moved, &again);
        }
    pith_packed_free(&set);
    packed += moved;
    return packed > again ? packed : again; /* one after the other */
}

json_t *pith_linear_json(const struct pith_choice *c, const struct pith_linear_result *l,
                         bool transformed)
{
    char grid[PITH_GRID_TEXT];
    pith_grid_format(&c->grid, grid);
    const struct pith_round_report *rep = &l->report;
    json_t *j = json_pack(
        "{s:s, s:s, s:[i,i], s:f, s:f, s:f, s:f, s:i, s:i, s:b, s:o, s:s, s:f}", "name", c->module,
        "grid", grid, "shape", (int)c->rows, (int)c->cols, "relative_error", l->relative_error,
        "loss_nearest", rep->nearest_loss, "loss", rep->loss, "damp", rep->damp, "damp_retries",
        (int)rep->damp_retries, "dead_columns", (int)rep->dead_columns, "transformed", transformed,
        "stored", stored_json(l->stored, l->stored_count), "sha256", l->sha256, "bits_per_weight",
        l->bits_per_weight);
    if (j && c->wanted) json_object_set_new(j, "wanted", json_string(c->wanted->name));
    if (j && c->wanted_group) {
        struct pith_grid wanted = c->grid;
        wanted.group = c->wanted_group;
        pith_grid_format(&wanted, grid);
        json_object_set_new(j, "wanted", json_string(grid));
    }
    if (!j || !c->from.format) return j;
    pith_grid_format(&c->from, grid);
    json_object_set_new(j, "from", json_string(grid));
    if (c->keeps) json_object_set_new(j, "kept", json_true());
    return j;
}

uint64_t pith_linear_json_bytes(const struct pith_job *job, const struct pith_choice *c,
                                uint64_t *text)
{
    struct pith_linear_result l = {.relative_error = 1.0 / 3, .bits_per_weight = 1.0 / 3};
    struct pith_packed_set set = {0};
    struct pith_str out = {0};
    memset(l.sha256, '0', sizeof l.sha256 - 1);
    l.report = (struct pith_round_report){.loss = 1.0 / 3, .nearest_loss = 1.0 / 3};
    *text = 0;
    if (!c->grid.format) return 0;
    if (plan_packed(job, c, &set) == PITH_OK)
        for (unsigned i = 0; i < set.count; i++) {
            struct pith_stored *s = &l.stored[l.stored_count++];
            *s = (struct pith_stored){.name = c->module, .bytes = UINT32_MAX};
            memset(s->sha256, '0', sizeof s->sha256 - 1);
        }
    json_t *j = pith_linear_json(c, &l, false);
    if (j) pith_json_dump(j, JSON_COMPACT, &out);
    *text = out.len;
    const uint64_t bytes = pith_json_tree_bytes(out.data ? out.data : "", out.len);
    json_decref(j);
    pith_str_free(&out);
    pith_packed_free(&set);
    return bytes;
}

static enum pith_status add_account(const struct pith_stored *stored, const char *const words[2],
                                    json_t *tensors, struct pith_error *err)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:o}", "name", stored->name, "action", words[0],
                          "reason", words[1], "stored", stored_json(stored, 1));
    return json_array_append_new(tensors, j) == 0 ? PITH_OK : pith_fail_nomem(err, stored->name);
}

enum pith_status pith_store_recode(const struct pith_tensor *t, enum pith_dtype dtype,
                                   enum pith_stored_as as, uint8_t **made, struct pith_error *err)
{
    const size_t n = (size_t)pith_tensor_elements(t), size = pith_dtype_bits(dtype) / 8;
    float *values = pith_alloc(n, sizeof *values);
    *made = pith_alloc(n, size);
    enum pith_status s = values && *made ? PITH_OK : pith_fail_nomem(err, t->name);
    if (s == PITH_OK) {
        (void)pith_tensor_decode(t, values);
        pith_stored_apply(as, values, n);
        s = pith_store_encode(t->name, dtype, values, n, *made, err);
    }
    pith_free(values);
    return s;
}

struct copies {
    const struct pith_run *r;
    struct pith_copy *list;
};

/* What is to be written of a tensor of the input: rows in their order, in the layout's dtype. *made
 * is what is to be freed, or NULL when the tensor's own bytes serve. */
static enum pith_status prepare_copy(const struct copies *c, const struct pith_tensor *t,
                                     uint8_t **made, size_t *bytes, struct pith_error *err)
{
    const struct pith_tensor_plan *p = pith_layout_find(&c->r->job->layout, t->name);
    const bool other = p && (p->dtype != t->dtype || p->as != t->as);
    *made = NULL;
    *bytes = (size_t)t->bytes;
    if (!other) return pith_tensor_straight(t, made) ? PITH_OK : pith_fail_nomem(err, t->name);
    *bytes = (size_t)p->bytes;
    return pith_store_recode(t, p->dtype, p->as, made, err);
}

static enum pith_status copy_one(const struct copies *c, struct pith_copy *copy)
{
    const bool file = c->r->job->container->file != NULL;
    const struct pith_tensor stored = pith_tensor_stored_in(copy->tensor, file);
    const struct pith_tensor *t = &stored;
    uint8_t *made;
    size_t bytes;
    enum pith_status s = prepare_copy(c, t, &made, &bytes, &copy->err);
    if (s == PITH_OK && made) s = pith_tensor_check_finite(t, &copy->err);
    if (s == PITH_OK)
        s = pith_store_bytes(c->r, t->name, made ? made : t->data, bytes, made ? NULL : t,
                             &copy->stored, &copy->err);
    pith_free(made);
    return s;
}

static void copy_task(void *ctx, size_t task, unsigned thread)
{
    const struct copies *c = ctx;
    struct pith_copy *copy = &c->list[task];
    const struct pith_tensor *t = copy->tensor;
    (void)thread;
    if (!copy->elsewhere) copy->status = copy_one(c, copy);
    pith_checkpoint_release(c->r->job->model->checkpoint, t);
}

uint32_t pith_made_rows(uint32_t cols)
{
    enum { FLOATS = 1 << 18 };
    return cols < FLOATS ? FLOATS / cols : 1;
}

uint64_t pith_made_bytes(uint32_t cols)
{
    return (uint64_t)pith_made_rows(cols) * cols * (2 * sizeof(float));
}

enum pith_status pith_store_encode(const char *name, enum pith_dtype dtype, const float *values,
                                   size_t n, void *data, struct pith_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(pith_round_to(dtype, values[i])))
            return pith_fail(err, PITH_NUMERIC, "%s: value %zu does not fit into %s", name, i,
                             pith_dtype_name(dtype));
    return pith_dtype_encode(dtype, values, n, data)
               ? PITH_OK
               : pith_fail(err, PITH_UNSUPPORTED, "%s: cannot write %s", name,
                           pith_dtype_name(dtype));
}

/* A tensor that was made and written piece by piece, which came to s. */
static enum pith_status end_made(struct pith_run *r, const struct pith_tensor_plan *p,
                                 struct pith_sha256 *hash, enum pith_status s,
                                 struct pith_stored *out, struct pith_error *err)
{
    pith_phases_mark(&r->phases, PITH_PHASE_WRITE);
    pith_out_begin_sync(&r->out.shards[p->shard], p->offset, p->bytes);
    pith_sha256_finish(hash, out->sha256);
    if (s != PITH_OK) return s;
    if (out->sha256[0] == '\0') return pith_fail_nomem(err, p->name);
    pith_writers_note(r, p, out->sha256);
    return PITH_OK;
}

/* A panel of rows: made, rounded, hashed, written. */
static enum pith_status store_panel(struct pith_run *r, const struct pith_made *m, uint32_t first,
                                    uint32_t n, float *values, struct pith_sha256 *hash,
                                    struct pith_error *err)
{
    const struct pith_tensor_plan *p = pith_layout_find(&r->job->layout, m->name);
    const size_t cols = m->like->shape[1], size = pith_dtype_bits(p->dtype) / 8;
    uint8_t *data = (uint8_t *)(values + pith_made_rows((uint32_t)cols) * cols);
    PITH_TRY(m->rows(m->ctx, first, n, values, err));
    PITH_TRY(pith_store_encode(m->name, p->dtype, values, n * cols, data, err));
    pith_sha256_update(hash, data, n * cols * size);
    return write_bytes(r, p, data, first * cols * size, n * cols * size, err);
}

enum pith_status pith_store_made(struct pith_run *r, const struct pith_made *m, json_t *tensors,
                                 struct pith_error *err)
{
    const struct pith_tensor_plan *p = pith_layout_find(&r->job->layout, m->name);
    if (!p || p->dims != 2 || m->like->dims != 2 ||
        memcmp(p->shape, m->like->shape, 2 * sizeof *p->shape) != 0)
        return pith_fail(err, PITH_MISMATCH, "%s: was planned otherwise", m->name);
    const uint32_t rows = (uint32_t)m->like->shape[0], cols = (uint32_t)m->like->shape[1];
    const char *const words[2] = {m->action, m->reason};
    const uint32_t panel = pith_made_rows(cols);
    struct pith_stored stored;
    bool own;
    PITH_TRY(plan_one(r, m->name, &own, &stored, err));
    if (!own) return add_account(&stored, words, tensors, err);
    struct pith_sha256 *hash = pith_tensor_digest_begin(p->dtype, p->dims, p->shape);
    float *values = pith_alloc_aligned(pith_made_bytes(cols), 1);
    enum pith_status s = hash && values ? PITH_OK : pith_fail_nomem(err, m->name);
    pith_phases_begin(&r->phases);
    for (uint32_t at = 0; at < rows && s == PITH_OK; at += panel)
        s = store_panel(r, m, at, rows - at < panel ? rows - at : panel, values, hash, err);
    pith_free(values);
    s = end_made(r, p, hash, s, &stored, err);
    return s == PITH_OK ? add_account(&stored, words, tensors, err) : s;
}

/* A matrix and where its rows go. */
struct decoded {
    const struct pith_tensor *tensor;
    const struct pith_tensor_plan *plan;
};

static enum pith_status decoded_rows(void *ctx, uint32_t first, uint32_t n, float *out,
                                     struct pith_error *err)
{
    const struct decoded *d = ctx;
    const struct pith_tensor *t = d->tensor;
    const size_t cols = (size_t)t->shape[1], size = pith_dtype_bits(t->dtype) / 8;
    (void)err;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t row = pith_stow_row(&d->plan->order, first + i);
        (void)pith_dtype_decode(t->dtype, t->data + row * cols * size, cols, out + i * cols);
    }
    return PITH_OK;
}

/* Whether values are stored that the input has in codes, or in another precision. */
static bool is_decoded(const struct pith_job *job, const struct pith_tensor *t)
{
    return t->lazy || (job->recast && pith_job_copy_dtype(job, t) != t->dtype);
}

/* ... some rows at a time: a matrix whose rows go as they are. */
static bool goes_by_rows(const struct pith_job *job, const struct pith_tensor *t)
{
    const struct pith_tensor_plan *p = pith_layout_find(&job->layout, t->name);
    return is_decoded(job, t) && t->dims == 2 && pith_tensor_plain(t) && p &&
           pith_stow_by_rows(&p->order) && p->as == PITH_AS_SHOWN && !t->exchanged;
}

uint64_t pith_store_outer_bytes(const struct pith_job *job)
{
    const struct pith_checkpoint *in = job->model->checkpoint;
    uint64_t most = 0;
    for (size_t i = 0; i < in->count; i++) {
        const struct pith_tensor *t = &in->tensors[i];
        if (!goes_by_rows(job, t) || pith_unit_of(&job->model->plans, t->name) != 0) continue;
        /* Codes are there as bytes, with their scales, whose place the heap may keep; then rows of
         * the values that they became. */
        const uint64_t n = pith_tensor_elements(t), codes = t->lazy ? n + n / 2 : 0;
        const uint64_t bytes = codes + pith_made_bytes((uint32_t)t->shape[1]);
        if (bytes > most) most = bytes;
    }
    return most;
}

static const char *decoded_reason(const struct pith_tensor *t)
{
    return t->lazy ? "what the input's codes stand for" : "in the precision that is wanted";
}

static enum pith_status store_by_rows(struct pith_run *r, const struct pith_tensor *t,
                                      json_t *tensors, struct pith_error *err)
{
    struct decoded d = {t, pith_layout_find(&r->job->layout, t->name)};
    const struct pith_made m = {.name = t->name,
                                .like = t,
                                .rows = decoded_rows,
                                .ctx = &d,
                                .action = "decoded",
                                .reason = decoded_reason(t)};
    PITH_TRY(pith_tensor_need(t, err));
    return pith_store_made(r, &m, tensors, err);
}

/* All others; the threads read and write them side by side. */
static enum pith_status store_plain(struct pith_run *r, struct pith_copy *list, size_t count,
                                    json_t *tensors, struct pith_error *err)
{
    struct copies c = {r, list};
    for (size_t i = 0; i < count; i++) {
        bool own = false;
        if (!goes_by_rows(r->job, list[i].tensor)) {
            PITH_TRY(plan_one(r, list[i].tensor->name, &own, &list[i].stored, err));
            if (own) PITH_TRY(pith_tensor_need(list[i].tensor, err));
        }
        list[i].elsewhere = !own;
    }
    pith_phases_begin(&r->phases);
    pith_pool_run(pith_backend_pool(r->job->backend), count, copy_task, &c);
    pith_phases_mark(&r->phases, PITH_PHASE_WRITE);
    for (size_t i = 0; i < count; i++) {
        const struct pith_tensor *t = list[i].tensor;
        const bool decoded = is_decoded(r->job, t);
        const char *const words[2] = {decoded ? "decoded" : "copied",
                                      decoded ? decoded_reason(t) : list[i].reason};
        if (list[i].status != PITH_OK) {
            if (err) *err = list[i].err;
            return list[i].status;
        }
        if (!goes_by_rows(r->job, t)) PITH_TRY(add_account(&list[i].stored, words, tensors, err));
    }
    return PITH_OK;
}

enum pith_status pith_store_copies(struct pith_run *r, struct pith_copy *list, size_t count,
                                   json_t *tensors, struct pith_error *err)
{
    PITH_TRY(store_plain(r, list, count, tensors, err));
    for (size_t i = 0; i < count; i++)
        if (goes_by_rows(r->job, list[i].tensor))
            PITH_TRY(store_by_rows(r, list[i].tensor, tensors, err));
    return PITH_OK;
}

enum pith_status pith_store_copy(struct pith_run *r, const char *name, const char *reason,
                                 json_t *tensors, struct pith_error *err)
{
    const struct pith_tensor *t = pith_checkpoint_find(r->job->model->checkpoint, name);
    if (!t) return pith_fail(err, PITH_FORMAT, "%s: missing in the input", name);
    struct pith_copy copy = {.tensor = t, .reason = reason};
    return pith_store_copies(r, &copy, 1, tensors, err);
}

static enum pith_status store_all(struct pith_run *r, const struct pith_tensor_plan *p,
                                  const struct pith_parts *m, struct pith_sha256 *hash,
                                  struct pith_error *err)
{
    const size_t n = (size_t)(p->bytes / m->count);
    uint8_t *data = pith_alloc(n, 1);
    enum pith_status s = data ? PITH_OK : pith_fail_nomem(err, m->name);
    for (uint32_t i = 0; i < m->count && s == PITH_OK; i++) {
        s = m->make(m->ctx, i, data, err);
        if (s != PITH_OK) break;
        pith_sha256_update(hash, data, n);
        s = write_bytes(r, p, data, i * (uint64_t)n, n, err);
    }
    pith_free(data);
    return s;
}

enum pith_status pith_store_parts(struct pith_run *r, const struct pith_parts *m, json_t *tensors,
                                  struct pith_error *err)
{
    const struct pith_tensor_plan *p = pith_layout_find(&r->job->layout, m->name);
    if (!p || p->bytes % m->count != 0)
        return pith_fail(err, PITH_MISMATCH, "%s: was planned otherwise", m->name);
    const char *const words[2] = {m->action, m->reason};
    struct pith_stored stored;
    bool own;
    PITH_TRY(plan_one(r, m->name, &own, &stored, err));
    if (!own) return add_account(&stored, words, tensors, err);
    struct pith_sha256 *hash = pith_tensor_digest_begin(p->dtype, p->dims, p->shape);
    pith_phases_begin(&r->phases);
    enum pith_status s = hash ? store_all(r, p, m, hash, err) : pith_fail_nomem(err, m->name);
    s = end_made(r, p, hash, s, &stored, err);
    return s == PITH_OK ? add_account(&stored, words, tensors, err) : s;
}

/* Values of t's dtype in the layout's, which holds them all. */
static enum pith_status store_encoded(const struct pith_run *r, const struct pith_tensor *t,
                                      const void *data, struct pith_stored *out,
                                      struct pith_error *err)
{
    const struct pith_tensor_plan *p = pith_layout_find(&r->job->layout, t->name);
    if (!p || (p->dtype == t->dtype && p->as == PITH_AS_SHOWN))
        return pith_store_bytes(r, t->name, data, t->bytes, NULL, out, err);
    const size_t n = (size_t)pith_tensor_elements(t);
    float *values = pith_alloc(n, sizeof *values);
    if (!values) return pith_fail_nomem(err, t->name);
    (void)pith_dtype_decode(t->dtype, data, n, values);
    pith_stored_apply(p->as, values, n);
    const enum pith_status s =
        pith_store_bytes(r, t->name, values, n * sizeof *values, NULL, out, err);
    pith_free(values);
    return s;
}

/* values[rows][cols] as [cols][rows]. */
static float *exchange(const float *values, size_t rows, size_t cols)
{
    float *out = pith_alloc(rows * cols, sizeof *out);
    for (size_t r = 0; out && r < rows; r++)
        for (size_t c = 0; c < cols; c++) out[c * rows + r] = values[r * cols + c];
    return out;
}

enum pith_status pith_store_values(struct pith_run *r, const char *name, const float *values,
                                   const char *action, const char *reason, json_t *tensors,
                                   struct pith_error *err)
{
    const struct pith_tensor *t = pith_checkpoint_find(r->job->model->checkpoint, name);
    if (!t) return pith_fail(err, PITH_FORMAT, "%s: missing in the input", name);
    const char *const words[2] = {action, reason};
    const size_t n = (size_t)pith_tensor_elements(t);
    struct pith_tensor as = *t; /* as it is stored */
    struct pith_stored stored;
    bool own;
    PITH_TRY(plan_one(r, name, &own, &stored, err));
    if (!own) return add_account(&stored, words, tensors, err);
    as.dtype = pith_job_weight_dtype(r->job, t);
    as.bytes = n * (pith_dtype_bits(as.dtype) / 8);
    void *data = pith_alloc(as.bytes, 1);
    const bool exchanged = t->exchanged && !r->job->container->file;
    float *exchanged_values = exchanged ? exchange(values, t->shape[0], t->shape[1]) : NULL;
    enum pith_status s = data && (exchanged_values || !exchanged)
                             ? pith_store_encode(name, as.dtype,
                                                 exchanged_values ? exchanged_values : values, n,
                                                 data, err)
                             : pith_fail_nomem(err, name);
    pith_free(exchanged_values);
    if (s == PITH_OK) s = store_encoded(r, &as, data, &stored, err);
    if (s == PITH_OK) s = add_account(&stored, words, tensors, err);
    pith_free(data);
    return s;
}

enum pith_status pith_store_scales(struct pith_run *r, const char *name, const float *scale,
                                   size_t count, json_t *tensors, struct pith_error *err)
{
    static const char *const words[2] = {"added", "a scale of the KV cache"};
    struct pith_stored stored;
    bool own;
    PITH_TRY(plan_one(r, name, &own, &stored, err));
    if (own) PITH_TRY(pith_store_bytes(r, name, scale, count * sizeof *scale, NULL, &stored, err));
    return add_account(&stored, words, tensors, err);
}
