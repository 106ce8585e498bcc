/* Writing tensors at their place and reading them back. */
#include "pipe/run.h"

#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <string.h>

enum pith_status pith_store_tensor(struct pith_run *r, const char *name, const void *data,
                                   size_t bytes, json_t *stored, struct pith_error *err)
{
    const struct pith_tensor_plan *p = pith_layout_find(&r->layout, name);
    char hex[PITH_SHA256_HEX];
    if (!p || p->bytes != bytes)
        return pith_fail(err, PITH_MISMATCH, "%s: %zu bytes were made where %llu were planned",
                         name, bytes, p ? (unsigned long long)p->bytes : 0ull);
    if (!pith_sha256_hex(data, bytes, hex)) return pith_fail_nomem(err, name);
    PITH_TRY(pith_out_write(&r->shards[p->shard], p->offset, data, bytes, err));
    const struct pith_tensor *back = pith_checkpoint_find(r->written, name);
    if (!back || back->bytes != bytes || memcmp(back->data, data, bytes) != 0)
        return pith_fail(err, PITH_MISMATCH, "%s: what was read back is not what was written",
                         name);
    if (json_array_append_new(stored, json_pack("{s:s, s:s, s:I}", "name", name, "sha256", hex,
                                                "bytes", (json_int_t)bytes)) != 0)
        return pith_fail_nomem(err, name);
    return PITH_OK;
}

static bool entry_intact(const struct pith_run *r, const json_t *stored)
{
    const char *name = json_string_value(json_object_get(stored, "name"));
    const char *want = json_string_value(json_object_get(stored, "sha256"));
    const struct pith_tensor *t = name ? pith_checkpoint_find(r->written, name) : NULL;
    char hex[PITH_SHA256_HEX];
    const bool same = t && want && pith_sha256_hex(t->data, t->bytes, hex) &&
                      strcmp(hex, want) == 0;
    if (t) pith_checkpoint_release(r->written, t);
    return same;
}

static bool list_intact(const struct pith_run *r, const json_t *list)
{
    const json_t *entry, *stored;
    size_t i, k;
    json_array_foreach (list, i, entry)
        json_array_foreach (json_object_get(entry, "stored"), k, stored)
            if (!entry_intact(r, stored)) return false;
    return true;
}

bool pith_store_intact(const struct pith_run *r)
{
    const json_t *unit;
    size_t i;
    json_array_foreach (r->units, i, unit)
        if (!list_intact(r, json_object_get(unit, "linears")) ||
            !list_intact(r, json_object_get(unit, "tensors")))
            return false;
    return true;
}

enum pith_status pith_weights_digest(const struct pith_weight *w, char hex[PITH_SHA256_HEX],
                                     struct pith_error *err)
{
    enum { ROWS = 16 };
    float *rows = pith_alloc((size_t)ROWS * w->cols, sizeof *rows);
    struct pith_sha256 *h = pith_sha256_new();
    enum pith_status s = rows && h ? PITH_OK : pith_fail_nomem(err, "a digest");
    for (uint32_t at = 0; at < w->rows && s == PITH_OK; at += ROWS) {
        const uint32_t n = w->rows - at < ROWS ? w->rows - at : ROWS;
        const size_t count = (size_t)n * w->cols;
        pith_weight_decode(w, at, n, rows);
        float sum = 0; /* stays 0 unless some value is infinite or NaN */
        for (size_t i = 0; i < count; i++) sum += rows[i] * 0.0f;
        if (!(sum == 0.0f))
            s = pith_fail(err, PITH_NUMERIC, "rows %u to %u hold a value that is not finite", at,
                          at + n - 1);
        pith_sha256_update(h, rows, count * sizeof *rows);
    }
    pith_sha256_finish(h, hex);
    pith_free(rows);
    return s;
}

enum pith_status pith_tensor_check_finite(const struct pith_tensor *t, struct pith_error *err)
{
    enum { CHUNK = 1024 };
    float x[CHUNK];
    const size_t bytes = pith_dtype_bits(t->dtype) / 8;
    const uint64_t n = pith_tensor_elements(t);
    for (uint64_t at = 0; at < n; at += CHUNK) {
        const size_t count = n - at < CHUNK ? (size_t)(n - at) : CHUNK;
        if (!pith_dtype_decode(t->dtype, t->data + at * bytes, count, x)) return PITH_OK;
        for (size_t i = 0; i < count; i++)
            if (!isfinite(x[i]))
                return pith_fail(err, PITH_NUMERIC,
                                 "%s: value %llu is not finite: the model is damaged", t->name,
                                 (unsigned long long)(at + i));
    }
    return PITH_OK;
}

static enum pith_status store_packed(struct pith_run *r, const char *module,
                                     const struct pith_packed_set *set, json_t *stored,
                                     struct pith_error *err)
{
    struct pith_str name = {0};
    enum pith_status s = PITH_OK;
    for (unsigned i = 0; i < set->count && s == PITH_OK; i++) {
        pith_str_clear(&name);
        pith_str_printf(&name, "%s%s", module, set->item[i].suffix);
        s = name.failed ? pith_fail_nomem(err, module)
                        : pith_store_tensor(r, name.data, set->item[i].data, set->item[i].bytes,
                                            stored, err);
    }
    pith_str_free(&name);
    return s;
}

static enum pith_status read_back(struct pith_run *r, const char *module, const struct pith_qmat *q,
                                  struct pith_error *err)
{
    struct pith_qmat again;
    bool found = false;
    PITH_TRY(r->container->load(r->written_state, r->written, module, q->rows, q->cols, &again,
                                &found, err));
    if (!found) return pith_fail(err, PITH_MISMATCH, "%s: not found when read back", module);
    const bool same = pith_qmat_equal(q, &again);
    pith_qmat_free(&again);
    return same ? PITH_OK
                : pith_fail(err, PITH_MISMATCH,
                            "%s: read back, its weights differ from what was meant", module);
}

enum pith_status pith_store_linear(struct pith_run *r, const char *module,
                                   const struct pith_qmat *q, json_t *entry, struct pith_error *err)
{
    struct pith_packed_set set = {0};
    char hex[PITH_SHA256_HEX];
    json_t *stored = json_array();
    enum pith_status s = stored ? PITH_OK : pith_fail_nomem(err, module);
    if (s == PITH_OK) s = r->container->pack(q, &r->container_opts, &set, err);
    if (s == PITH_OK) s = store_packed(r, module, &set, stored, err);
    pith_packed_free(&set);
    if (s == PITH_OK) s = read_back(r, module, q, err);
    const struct pith_weight w = {.rows = q->rows, .cols = q->cols, .quant = q};
    if (s == PITH_OK) s = pith_weights_digest(&w, hex, err);
    if (s == PITH_OK && (json_object_set(entry, "stored", stored) != 0 ||
                         json_object_set_new(entry, "sha256", json_string(hex)) != 0 ||
                         json_object_set_new(entry, "bits_per_weight",
                                             json_real(pith_qmat_bits_per_weight(q))) != 0))
        s = pith_fail_nomem(err, module);
    json_decref(stored);
    return s == PITH_OK ? s : pith_fail_in(err, s, module);
}

static enum pith_status store_account(struct pith_run *r, const char *name, const void *data,
                                      size_t bytes, const char *const words[2], json_t *tensors,
                                      struct pith_error *err)
{
    json_t *stored = json_array();
    enum pith_status s = stored ? pith_store_tensor(r, name, data, bytes, stored, err)
                                : pith_fail_nomem(err, name);
    if (s == PITH_OK && json_array_append_new(tensors, json_pack("{s:s, s:s, s:s, s:O}", "name",
                                                                 name, "action", words[0], "reason",
                                                                 words[1], "stored", stored)) != 0)
        s = pith_fail_nomem(err, name);
    json_decref(stored);
    return s;
}

enum pith_status pith_store_copy(struct pith_run *r, const char *name, const char *reason,
                                 json_t *tensors, struct pith_error *err)
{
    const struct pith_tensor *t = pith_checkpoint_find(r->model->checkpoint, name);
    if (!t) return pith_fail(err, PITH_FORMAT, "%s: missing in the input", name);
    PITH_TRY(pith_tensor_check_finite(t, err));
    const char *const words[2] = {"copied", reason};
    const enum pith_status s = store_account(r, name, t->data, t->bytes, words, tensors, err);
    pith_checkpoint_release(r->model->checkpoint, t);
    return s;
}

enum pith_status pith_store_values(struct pith_run *r, const char *name, const float *values,
                                   const char *action, const char *reason, json_t *tensors,
                                   struct pith_error *err)
{
    const struct pith_tensor *t = pith_checkpoint_find(r->model->checkpoint, name);
    if (!t) return pith_fail(err, PITH_FORMAT, "%s: missing in the input", name);
    const size_t n = (size_t)pith_tensor_elements(t);
    void *data = pith_alloc(t->bytes, 1);
    if (!data) return pith_fail_nomem(err, name);
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < n && s == PITH_OK; i++)
        if (!isfinite(pith_round_to(t->dtype, values[i])))
            s = pith_fail(err, PITH_NUMERIC, "%s: value %zu does not fit into %s", name, i,
                          pith_dtype_name(t->dtype));
    if (s == PITH_OK && !pith_dtype_encode(t->dtype, values, n, data))
        s = pith_fail(err, PITH_UNSUPPORTED, "%s: cannot write %s", name,
                      pith_dtype_name(t->dtype));
    const char *const words[2] = {action, reason};
    if (s == PITH_OK) s = store_account(r, name, data, t->bytes, words, tensors, err);
    pith_free(data);
    return s;
}
