/* The result: the files of the quantized model, with other numbers in the tensors that were
 * trained. Names, shapes, places and configs stay, so that engines that load the one load the
 * other; before the work begins, checks that the container packs a matrix as it lies there. */
#include "recover/recover.h"

#include "base/mem.h"
#include "base/names.h"
#include "io/digest.h"
#include "io/hf_files.h"
#include "quantize/job.h"
#include "quantize/output/output.h"
#include "quantize/output/seal.h"
#include "quantize/site/closeness.h"
#include "quantize/site/error_limits.h"

#include <stdio.h>
#include <string.h>

enum { ACCOUNT_LIMIT = 1 << 30 };

/* --- packing ---------------------------------------------------------------------------------- */

/* The tensor that holds a packed part of a module. */
static const struct pith_tensor *part_of(const struct pith_checkpoint *c, const char *module,
                                         const struct pith_packed *item)
{
    char name[PITH_MAX_NAME + 64];
    (void)snprintf(name, sizeof name, "%s%s", module, item->suffix);
    const struct pith_tensor *t = pith_checkpoint_find(c, name);
    return t && !t->slice && pith_tensor_plain(t) && t->bytes == item->bytes ? t : NULL;
}

static enum pith_status check_linear(struct pith_recover *r, const char *module,
                                     const struct pith_qmat *q, struct pith_error *err)
{
    const struct pith_model *m = r->model;
    struct pith_packed_set set;
    struct pith_grid grid = {0};
    struct pith_container_opts *opts = &r->container_opts;
    PITH_TRY(m->container->describe(m->container_state, m->checkpoint, module, &grid, opts, err));
    if (m->container->settle) m->container->settle(&grid, opts);
    PITH_TRY(pith_container_pack(m->container, q, opts, &set, err));
    bool same = true;
    for (unsigned i = 0; i < set.count && same; i++) {
        const struct pith_tensor *t = part_of(m->checkpoint, module, &set.item[i]);
        same = t && memcmp(t->data, set.item[i].data, t->bytes) == 0;
    }
    pith_packed_free(&set);
    return same ? PITH_OK
                : pith_fail(err, PITH_UNSUPPORTED,
                            "it is stored otherwise than pith writes it: quantize the original by "
                            "pith, or convert");
}

static enum pith_status check_layer(struct pith_recover *r, uint32_t layer, struct pith_error *err)
{
    struct pith_block b;
    enum pith_status s = PITH_OK;
    PITH_TRY(pith_block_load(r->model, layer, PITH_LOAD_MAPPED, &b, err));
    for (uint32_t i = 0; i < b.plan->linears && s == PITH_OK; i++) {
        char name[PITH_MAX_NAME];
        if (!b.linear[i].w.quant) continue;
        pith_plan_linear_name(&r->model->plans, layer, i, name, sizeof name);
        s = check_linear(r, name, b.linear[i].w.quant, err);
        if (s != PITH_OK) s = pith_fail_in(err, s, name);
    }
    pith_block_free(&b);
    return s;
}

static enum pith_status load_account(const struct pith_recover *r, json_t **out,
                                     struct pith_error *err)
{
    char *path = pith_path_join(r->options->model, "pith.json");
    enum pith_status s = path ? pith_json_load(path, ACCOUNT_LIMIT, out, err)
                              : pith_fail_nomem(err, "pith.json");
    pith_free(path);
    return s;
}

static bool add_entries(json_t *to, const json_t *list)
{
    const json_t *entry;
    size_t i;
    json_array_foreach (list, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (!name || json_object_set(to, name, (json_t *)(uintptr_t)entry) != 0) return false;
    }
    return true;
}

/* Whose matrices a transform has rescaled, by the account. */
static enum pith_status find_moved(struct pith_recover *r, const json_t *account,
                                   struct pith_error *err)
{
    const struct pith_plans *p = &r->model->plans;
    json_t *by_name = json_object();
    r->moved = pith_zalloc((size_t)p->layers * p->most_linears, sizeof *r->moved);
    const bool room = r->moved && by_name &&
                      add_entries(by_name, json_object_get(account, "linears"));
    for (uint32_t l = 0; room && l < p->layers; l++)
        for (uint32_t i = 0; i < pith_plan(p, l)->linears; i++) {
            char name[PITH_MAX_NAME];
            pith_plan_linear_name(p, l, i, name, sizeof name);
            const json_t *entry = json_object_get(by_name, name);
            r->moved[(size_t)l * p->most_linears + i] =
                json_is_true(json_object_get(entry, "transformed"));
        }
    json_decref(by_name);
    return room ? PITH_OK : pith_fail_nomem(err, "pith.json");
}

enum pith_status pith_recover_check(struct pith_recover *r, struct pith_error *err)
{
    const char *dir = r->options->model;
    json_t *account = NULL;
    if (!r->model->container)
        return pith_fail(err, PITH_ARG, "%s: is not quantized: there is nothing to recover", dir);
    if (r->model->checkpoint->file_form)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: a GGUF file is not trained; recover a folder and convert it", dir);
    PITH_TRY(load_account(r, &account, err));
    const bool rotated = json_is_object(json_object_get(account, "basis"));
    const enum pith_status s = find_moved(r, account, err);
    json_decref(account);
    PITH_TRY(s);
    if (rotated)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: a model in a rotated basis is not trained",
                         dir);
    r->container_opts = (struct pith_container_opts){.model_dtype = r->model->shape.dtype};
    for (uint32_t l = 0; l < r->model->shape.layers; l++) PITH_TRY(check_layer(r, l, err));
    return PITH_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

struct writing {
    struct pith_recover *r;
    struct pith_out *files; /* [checkpoint->file_count], those of the result */
    json_t *account;
    json_t *entries; /* by name, of its linears and tensors */
    size_t changed;  /* codes */
    float *values;
};

static enum pith_status copy_files(const struct pith_recover *r, struct pith_error *err)
{
    char **names;
    size_t count;
    PITH_TRY(pith_checkpoint_names(r->options->model, &names, &count, err));
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        char *from = pith_path_join(r->options->model, names[i]);
        const bool own = strncmp(names[i], "pith.", 5) == 0;
        if (!from) s = pith_fail_nomem(err, "names");
        else if (!own && !pith_path_is_dir(from))
            s = pith_checkpoint_copy(r->options->model, r->partial, names[i], err);
        pith_free(from);
    }
    pith_names_free(names, count);
    return s;
}

static enum pith_status open_files(struct writing *w, struct pith_error *err)
{
    const struct pith_checkpoint *c = w->r->model->checkpoint;
    w->files = pith_zalloc(c->file_count, sizeof *w->files);
    if (!w->files) return pith_fail_nomem(err, "files");
    for (size_t i = 0; i < c->file_count; i++) w->files[i].fd = -1;
    for (size_t i = 0; i < c->file_count; i++) {
        char *path = pith_path_join(w->r->partial, pith_name_of_path(c->files[i].path));
        const enum pith_status s = path ? pith_out_open(path, 0, &w->files[i], err)
                                        : pith_fail_nomem(err, "files");
        pith_free(path);
        PITH_TRY(s);
    }
    return PITH_OK;
}

static enum pith_status close_files(struct writing *w, bool sync, struct pith_error *err)
{
    enum pith_status s = PITH_OK;
    for (size_t i = 0; w->files && i < w->r->model->checkpoint->file_count; i++) {
        if (sync && s == PITH_OK) s = pith_out_sync(&w->files[i], err);
        pith_out_close(&w->files[i]);
    }
    pith_free(w->files);
    w->files = NULL;
    return s;
}

/* New bytes of a tensor of the model. */
static enum pith_status put(const struct writing *w, const struct pith_tensor *t, const void *data,
                            struct pith_error *err)
{
    const uint8_t *begin = w->r->model->checkpoint->files[t->file].map.data;
    return pith_out_write(&w->files[t->file], (uint64_t)(t->data - begin), data, (size_t)t->bytes,
                          err);
}

static json_t *entry_of(const struct writing *w, const char *name)
{
    return json_object_get(w->entries, name);
}

/* --- linears ---------------------------------------------------------------------------------- */

static size_t codes_changed(const struct pith_qmat *a, const struct pith_qmat *b, uint8_t *room)
{
    size_t n = 0;
    for (uint32_t r = 0; r < a->rows; r++) {
        pith_qmat_get_codes(a, r, room);
        pith_qmat_get_codes(b, r, room + a->cols);
        for (uint32_t c = 0; c < a->cols; c++) n += room[c] != room[a->cols + c];
    }
    return n;
}

static enum pith_status pack(const struct writing *w, const char *module, const struct pith_qmat *q,
                             struct pith_error *err)
{
    const struct pith_model *m = w->r->model;
    struct pith_packed_set set;
    PITH_TRY(pith_container_pack(m->container, q, &w->r->container_opts, &set, err));
    enum pith_status s = PITH_OK;
    for (unsigned i = 0; i < set.count && s == PITH_OK; i++) {
        const struct pith_tensor *t = part_of(m->checkpoint, module, &set.item[i]);
        s = t ? put(w, t, set.item[i].data, err)
              : pith_fail(err, PITH_MISMATCH, "%s%s has another size", module, set.item[i].suffix);
    }
    pith_packed_free(&set);
    return s;
}

/* What the account says of a linear: values, and how far these are from the original's. */
static enum pith_status account_linear(const struct writing *w, json_t *entry,
                                       const struct pith_qmat *q, const struct pith_weight *was,
                                       struct pith_error *err)
{
    const struct pith_weight is = {.rows = q->rows, .cols = q->cols, .quant = q};
    const bool transformed = json_is_true(json_object_get(entry, "transformed"));
    char hex[PITH_SHA256_HEX];
    double error;
    PITH_TRY(pith_weights_digest(w->r->backend, &is, hex, err));
    if (!pith_relative_error(w->r->backend, &is, was, transformed, &error))
        return pith_fail_nomem(err, "a comparison");
    (void)json_object_del(entry, "loss");
    (void)json_object_del(entry, "loss_nearest");
    const bool good = json_object_set_new(entry, "sha256", json_string(hex)) == 0 &&
                      json_object_set_new(entry, "relative_error", json_real(error)) == 0;
    return good ? PITH_OK : pith_fail_nomem(err, "pith.json");
}

static enum pith_status write_linear(struct writing *w, uint32_t layer, uint32_t i,
                                     struct pith_recover_block *b, const struct pith_block *was,
                                     struct pith_error *err)
{
    struct pith_recover *r = w->r;
    struct pith_recover_linear *l = &b->linear[i];
    float *p = pith_recover_state(r, 3) + pith_recover_linear_at(r, layer, i)->at;
    char name[PITH_MAX_NAME];
    struct pith_qmat q;
    pith_plan_linear_name(&r->model->plans, layer, i, name, sizeof name);
    json_t *entry = entry_of(w, name);
    if (!entry) return pith_fail(err, PITH_FORMAT, "pith.json: has no entry of %s", name);
    PITH_TRY(pith_trained_matrix(&l->matrix, r->backend, p, l->values, &q, err));
    uint8_t *room = pith_alloc(2, q.cols);
    enum pith_status s = room ? PITH_OK : pith_fail_nomem(err, "codes");
    if (s == PITH_OK) w->changed += codes_changed(l->matrix.from, &q, room);
    if (s == PITH_OK) s = pack(w, name, &q, err);
    if (s == PITH_OK) s = account_linear(w, entry, &q, &was->linear[i].w, err);
    pith_free(room);
    pith_qmat_free(&q);
    return s == PITH_OK ? s : pith_fail_in(err, s, name);
}

/* --- vectors ---------------------------------------------------------------------------------- */

static enum pith_status write_vector(const struct writing *w, const struct pith_recover_vector *v,
                                     const float *values, struct pith_error *err)
{
    const size_t n = (size_t)pith_tensor_elements(v->tensor);
    float *less = pith_alloc(n, sizeof *less);
    void *data = pith_alloc((size_t)v->tensor->bytes, 1);
    enum pith_status s = less && data ? PITH_OK : pith_fail_nomem(err, v->tensor->name);
    for (size_t i = 0; i < n && s == PITH_OK; i++) less[i] = values[i] - v->plus;
    if (s == PITH_OK) s = pith_store_encode(v->tensor->name, v->tensor->dtype, less, n, data, err);
    if (s == PITH_OK) s = put(w, v->tensor, data, err);
    pith_free(less);
    pith_free(data);
    json_t *entry = entry_of(w, v->tensor->name);
    if (s != PITH_OK || !entry) return s;
    const bool good =
        json_object_set_new(entry, "action", json_string("trained")) == 0 &&
        json_object_set_new(entry, "reason", json_string("trained by pith recover")) == 0;
    return good ? PITH_OK : pith_fail_nomem(err, "pith.json");
}

static enum pith_status write_vectors(const struct writing *w, const struct pith_recover_block *b,
                                      struct pith_error *err)
{
    const struct pith_recover *r = w->r;
    const struct pith_layer_plan *plan = b->block.plan;
    const uint32_t layer = b->block.layer;
    for (uint32_t i = 0; i < plan->vectors; i++) {
        const struct pith_recover_vector v = pith_recover_vector_of(r, layer, i);
        if (v.tensor) PITH_TRY(write_vector(w, &v, b->block.vector[i], err));
    }
    for (uint32_t i = 0; i < plan->linears; i++) {
        const struct pith_recover_vector v = pith_recover_bias_of(r, layer, i);
        if (v.tensor) PITH_TRY(write_vector(w, &v, b->block.linear[i].bias, err));
    }
    return PITH_OK;
}

static enum pith_status write_last(const struct writing *w, struct pith_error *err)
{
    struct pith_recover *r = w->r;
    pith_recover_last_norm(r, pith_recover_state(r, 3));
    for (int bias = 0; bias < 2; bias++) {
        const struct pith_recover_vector v = pith_recover_last_of(r, bias);
        if (v.tensor)
            PITH_TRY(write_vector(w, &v, bias ? r->model->final_bias : r->model->final_norm, err));
    }
    return PITH_OK;
}

static enum pith_status write_layer(struct writing *w, uint32_t layer, struct pith_error *err)
{
    struct pith_recover *r = w->r;
    struct pith_recover_block b;
    struct pith_block was;
    PITH_TRY(pith_recover_open(r, layer, pith_recover_state(r, 3), false, &b, err));
    enum pith_status s = pith_block_load(r->original, layer, PITH_LOAD_MAPPED, &was, err);
    if (s == PITH_OK) {
        for (uint32_t i = 0; i < b.block.plan->linears && s == PITH_OK; i++)
            if (b.linear[i].on) s = write_linear(w, layer, i, &b, &was, err);
        pith_block_free(&was);
        pith_model_shed(r->original, layer);
    }
    if (s == PITH_OK) s = write_vectors(w, &b, err);
    pith_recover_close(&b);
    return s;
}

/* --- what lies on the disk then --------------------------------------------------------------- */

static enum pith_status check_written(const struct writing *w, const struct pith_model *m,
                                      uint32_t layer, struct pith_error *err)
{
    struct pith_block b;
    enum pith_status s = PITH_OK;
    PITH_TRY(pith_block_load(m, layer, PITH_LOAD_MAPPED, &b, err));
    for (uint32_t i = 0; i < b.plan->linears && s == PITH_OK; i++) {
        char name[PITH_MAX_NAME], hex[PITH_SHA256_HEX];
        if (!b.linear[i].w.quant) continue;
        pith_plan_linear_name(&m->plans, layer, i, name, sizeof name);
        const char *want = json_string_value(json_object_get(entry_of(w, name), "sha256"));
        s = pith_weights_digest(w->r->backend, &b.linear[i].w, hex, err);
        if (s == PITH_OK && (!want || strcmp(want, hex) != 0))
            s = pith_fail(err, PITH_MISMATCH, "%s: read back, it is not what was written", name);
    }
    pith_block_free(&b);
    return s;
}

/* The hashes of an entry's tensors, as they lie there now. */
static enum pith_status hash_entry(const struct pith_model *m, json_t *entry,
                                   struct pith_error *err)
{
    json_t *item;
    size_t i;
    json_array_foreach (json_object_get(entry, "stored"), i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        const struct pith_tensor *t = name ? pith_checkpoint_find_stored(m->checkpoint, name)
                                           : NULL;
        char hex[PITH_SHA256_HEX];
        if (!t) return pith_fail(err, PITH_FORMAT, "pith.json: names a tensor that is not there");
        if (!pith_tensor_digest(t, hex) ||
            json_object_set_new(item, "sha256", json_string(hex)) != 0)
            return pith_fail_nomem(err, "pith.json");
    }
    return PITH_OK;
}

static enum pith_status read_back(struct writing *w, struct pith_error *err)
{
    struct pith_model *m;
    const char *key;
    json_t *entry;
    PITH_TRY(pith_model_open(w->r->partial, &m, err));
    enum pith_status s = PITH_OK;
    for (uint32_t l = 0; l < m->shape.layers && s == PITH_OK; l++) s = check_written(w, m, l, err);
    json_object_foreach (w->entries, key, entry)
        if (s == PITH_OK) s = hash_entry(m, entry, err);
    pith_model_close(m);
    return s;
}

/* --- the account ------------------------------------------------------------------------------ */

static json_t *sources(const struct pith_recover *r)
{
    json_t *list = json_array();
    const struct pith_list *text = &r->options->text;
    for (size_t i = 0; i < text->count && !r->self; i++) {
        pith_json_add(&list, pith_json_name(pith_name_of_path(text->item[i])));
    }
    if (r->self || text->count == 0)
        pith_json_add(&list, json_string(r->self ? "self" : "builtin"));
    return list;
}

static void say_result(struct pith_report *to, const struct pith_recover *r, size_t unseen)
{
    const struct pith_recover_options *o = r->options;
    pith_report_line(to, &(struct pith_line){0}, "%s: trained, written, read back and compared",
                     o->out ? o->out : o->model);
    pith_report_label(
        to, "trained", PITH_WRAP_NONE, "%s: %zu parameters, %zu steps, best after %zu",
        r->weights ? "all" : "scales", (size_t)r->count, (size_t)r->step, (size_t)r->best_step);
    pith_report_label(to, "text", PITH_WRAP_NONE, "%zu tokens in windows of %zu, %zu held out",
                      r->text.windows * r->text.length, r->text.length, unseen);
    pith_report_label(to, "held-out KL", PITH_WRAP_NONE, "%.6f -> %.6f (%.0f%%)", r->before,
                      r->best, r->before > 0 ? 100 * r->best / r->before : 100);
}

/* NULL when memory is out. */
static struct pith_report *describe(const struct writing *w)
{
    const struct pith_recover *r = w->r;
    char identity[PITH_SHA256_HEX] = "";
    const size_t unseen = r->text.windows / pith_recover_validation(r) * r->text.length;
    const double codes = r->codes ? (double)w->changed / (double)r->codes : 0;
    const char *label = r->weights ? "codes changed" : NULL;
    struct pith_report *to = pith_report_new();
    if (!to || !pith_checkpoint_identity(r->original->checkpoint, identity)) {
        pith_report_free(&to);
        return NULL;
    }
    say_result(to, r, unseen);
    pith_report_set(to, "train", pith_words(r->weights ? "all" : "scales"));
    pith_report_set(to, "parameters", pith_count(r->count));
    pith_report_set(to, "text", pith_tree(sources(r)));
    pith_report_set(to, "text_sha256", pith_words(r->text.sha256));
    pith_report_set(to, "tokens", pith_count(r->text.windows * r->text.length));
    pith_report_set(to, "seq_len", pith_count(r->text.length));
    pith_report_set(to, "batch", pith_count(r->batch));
    pith_report_set(to, "seed", pith_count(r->options->seed));
    pith_report_set(to, "steps", pith_count(r->step));
    pith_report_set(to, "best_step", pith_count(r->best_step));
    pith_report_set(to, "rate", pith_real(r->options->rate, 2));
    pith_report_set(to, "kl_before", pith_real(r->before, 6));
    pith_report_set(to, "kl_after", pith_real(r->best, 6));
    pith_report_set(to, "held_out_tokens", pith_count(unseen));
    pith_report_row(
        to, &(struct pith_row){.key = "changed", .label = label, .value = pith_share(codes, 2)});
    pith_report_set(to, "curve", pith_tree(json_incref(r->curve)));
    pith_report_set(to, "original", pith_words(identity));
    return to;
}

static json_t *timing(const struct pith_recover *r)
{
    return json_pack("{s:f, s:I, s:I, s:I, s:i, s:s}", "seconds", pith_clock() - r->started,
                     "memory_expected_bytes", (json_int_t)r->expected, "peak_memory_bytes",
                     (json_int_t)r->peak, "peak_resident_bytes", (json_int_t)pith_memory_peak(),
                     "threads", (int)pith_pool_threads(pith_backend_pool(r->backend)), "cpu",
                     pith_backend_cpu(r->backend));
}

static enum pith_status finish_account(struct writing *w, struct pith_report **report,
                                       struct pith_error *err)
{
    *report = describe(w);
    json_t *a = w->account, *recovered = pith_report_tree(*report), *times = timing(w->r);
    (void)json_object_del(a, "losses");
    const bool good =
        recovered && times && pith_paces_report(&w->r->paces, w->r->ranks, times) &&
        json_object_set(a, "timing", times) == 0 &&
        json_object_set_new(a, "job", json_string(w->r->fingerprint)) == 0 &&
        json_object_set_new(a, "warnings",
                            pith_judge_warnings(json_object_get(a, "linears"), false)) == 0 &&
        json_object_set_new(a, "recovered", recovered) == 0;
    json_decref(times);
    if (!good) return pith_fail_nomem(err, "pith.json");
    char *path = pith_path_join(w->r->partial, "pith.json");
    const enum pith_status s = path ? pith_account_save(path, a, err)
                                    : pith_fail_nomem(err, "pith.json");
    pith_free(path);
    return s;
}

/* --- the whole -------------------------------------------------------------------------------- */

static enum pith_status write_all(struct writing *w, struct pith_error *err)
{
    const struct pith_progress *progress = &w->r->options->progress;
    const uint32_t layers = w->r->model->shape.layers;
    PITH_TRY(load_account(w->r, &w->account, err));
    w->entries = json_object();
    if (!w->entries || !add_entries(w->entries, json_object_get(w->account, "linears")) ||
        !add_entries(w->entries, json_object_get(w->account, "tensors")))
        return pith_fail_nomem(err, "pith.json");
    PITH_TRY(copy_files(w->r, err));
    PITH_TRY(open_files(w, err));
    for (uint32_t l = 0; l < layers; l++) {
        PITH_TRY(pith_progress_step(progress, "writing", l, layers, err));
        PITH_TRY(write_layer(w, l, err));
    }
    return write_last(w, err);
}

/* The result gets its name; what it replaces goes. */
static enum pith_status rename_result(struct pith_recover *r, struct pith_error *err)
{
    PITH_TRY(pith_recover_sweep(r, err));
    PITH_TRY(pith_dir_sync(r->partial, err));
    if (r->options->out) return pith_rename(r->partial, r->out, err);
    PITH_TRY(pith_rename_exchange(r->partial, r->out, err));
    return pith_dir_remove(r->partial, err);
}

enum pith_status pith_recover_publish(struct pith_recover *r, struct pith_report **report,
                                      struct pith_error *err)
{
    struct writing w = {.r = r};
    *report = NULL;
    enum pith_status s = write_all(&w, err);
    const enum pith_status closed = close_files(&w, s == PITH_OK, err);
    if (s == PITH_OK) s = closed;
    if (s == PITH_OK) s = read_back(&w, err);
    if (s == PITH_OK) s = finish_account(&w, report, err);
    if (s == PITH_OK) s = rename_result(r, err);
    json_decref(w.entries);
    json_decref(w.account);
    if (s == PITH_OK) return s;
    pith_report_free(report);
    return s;
}
