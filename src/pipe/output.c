/* The output folder: which tensors it will hold, its config, the files that go along. */
#include "pipe/run.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "export/file.h"
#include "io/hf_files.h"
#include "tok/tokenizer.h"

#include <stdio.h>
#include <string.h>

/* Linear search in the tensor's layer only. A quantized linear has tensors of any suffix. */
struct pith_choice *pith_output_choice(const struct pith_run *r, const char *tensor)
{
    uint32_t layer;
    if (!pith_plan_layer_of(&r->model->plans, tensor, &layer)) return pith_run_end(r, tensor);
    for (uint32_t i = 0; i < pith_run_plan(r, layer)->linears; i++) {
        struct pith_choice *c = pith_run_choice(r, layer, i);
        const size_t n = strlen(c->module);
        if (strncmp(tensor, c->module, n) != 0 || tensor[n] != '.') continue;
        const bool part = c->stored.format && strcmp(tensor + n, ".bias") != 0;
        if (part || strcmp(tensor + n, ".weight") == 0) return c;
    }
    return NULL;
}

static enum pith_status plan_linear(struct pith_run *r, const struct pith_choice *c,
                                    struct pith_error *err)
{
    struct pith_packed_set set = {0};
    struct pith_container_opts opts = r->container_opts;
    opts.hadamard = c->hadamard;
    enum pith_status s = r->container->plan(&c->grid, c->rows, c->cols, &opts, &set, err);
    for (unsigned i = 0; i < set.count && s == PITH_OK; i++) {
        const struct pith_packed *p = &set.item[i];
        struct pith_str name = {0};
        pith_str_printf(&name, "%s%s", c->module, p->suffix);
        s = name.failed ? pith_fail_nomem(err, c->module)
                        : pith_layout_add(&r->layout, name.data, p->dtype, p->dims, p->shape, err);
        pith_str_free(&name);
    }
    pith_packed_free(&set);
    return s;
}

/* A head like the embedding that it was, unless the input stores it twice. */
static enum pith_status plan_head(struct pith_run *r, struct pith_error *err)
{
    const struct pith_checkpoint *in = r->model->checkpoint;
    struct pith_choice *c = &r->ends[PITH_END_HEAD];
    if (c->planned) return PITH_OK;
    c->planned = c->grid.format != NULL;
    if (c->planned) return plan_linear(r, c, err);
    char embed[PITH_END_NAME], head[PITH_END_NAME];
    pith_end_tensor(r->model, PITH_END_EMBED, embed);
    pith_end_tensor(r->model, PITH_END_HEAD, head);
    const struct pith_tensor *t = pith_checkpoint_find(in, embed);
    if (!t || pith_checkpoint_find(in, head)) return PITH_OK;
    return pith_layout_add(&r->layout, head, t->dtype, t->dims, t->shape, err);
}

/* The embedding or the head of a quantized input, in the model's precision. */
static enum pith_status plan_plain(struct pith_run *r, struct pith_choice *c,
                                   struct pith_error *err)
{
    const uint64_t shape[] = {c->rows, c->cols};
    char name[64];
    (void)snprintf(name, sizeof name, "%s.weight", c->module);
    return pith_layout_add(&r->layout, name, r->container_opts.model_dtype, 2, shape, err);
}

static enum pith_status plan_kv(struct pith_run *r, uint32_t layer, struct pith_error *err)
{
    for (int i = 0; i < 2; i++) {
        char name[PITH_KV_NAME];
        pith_inputs_kv_name(r, layer, i, name);
        PITH_TRY(pith_layout_add(&r->layout, name, PITH_F32, 1, (uint64_t[]){1}, err));
    }
    return PITH_OK;
}

static enum pith_status plan_copy(struct pith_run *r, const struct pith_tensor *t,
                                  struct pith_error *err)
{
    const struct pith_file_export *file = pith_file_export_of(r->container);
    const enum pith_dtype dtype = file ? file->stored_dtype(r->model, t) : t->dtype;
    return pith_layout_add(&r->layout, t->name, dtype, t->dims, t->shape, err);
}

static enum pith_status plan_tensor(struct pith_run *r, const struct pith_tensor *t,
                                    struct pith_error *err)
{
    if (r->convert && pith_is_kv_scale(t->name)) return PITH_OK;
    struct pith_choice *c = pith_output_choice(r, t->name);
    if (c && c->planned) return PITH_OK;
    if (c) c->planned = c->grid.format != NULL;
    if (c && c->planned) return plan_linear(r, c, err);
    return c && c->stored.format ? plan_plain(r, c, err) : plan_copy(r, t, err);
}

/* In the order in which a reader needs them: outer ones first, then by layer. */
enum pith_status pith_output_layout(struct pith_run *r, struct pith_error *err)
{
    const struct pith_checkpoint *in = r->model->checkpoint;
    for (size_t unit = 0; unit <= r->model->shape.layers; unit++) {
        size_t count;
        const size_t first = pith_unit_tensors(r->model, unit, &count);
        if (unit == 1 && pith_run_unties(r)) PITH_TRY(plan_head(r, err));
        for (size_t i = first; i < first + count; i++)
            if (pith_unit_of(&r->model->plans, in->tensors[i].name) == unit)
                PITH_TRY(plan_tensor(r, &in->tensors[i], err));
        if (unit > 0 && pith_inputs_kv_of(r, (uint32_t)unit - 1))
            PITH_TRY(plan_kv(r, (uint32_t)unit - 1, err));
    }
    const struct pith_file_export *file = pith_file_export_of(r->container);
    if (!file) return pith_layout_finish(&r->layout, r->options->max_shard, err);
    return file->finish(r->model, r->options->model, r->container->file,
                        r->mixture ? r->mixture->file_type : 0, &r->layout, err);
}

static enum pith_status make_config(const struct pith_run *r, json_t **out, struct pith_error *err)
{
    json_t *quantization = NULL;
    enum pith_status s = PITH_OK;
    if (r->quantizes)
        s = r->container->config(r->linears, r->choice_count + 1, &r->container_opts, &quantization,
                                 err);
    if (s != PITH_OK) return s;
    json_t *config = json_deep_copy(r->model->checkpoint->config);
    bool bad = !config;
    if (!bad && quantization)
        bad = json_object_set(config, "quantization_config", quantization) != 0;
    if (!bad && pith_run_unties(r))
        bad = json_object_set_new(config, "tie_word_embeddings", json_false()) != 0;
    if (bad) {
        json_decref(config);
        s = pith_fail_nomem(err, "config.json");
    } else {
        *out = config;
    }
    json_decref(quantization);
    return s;
}

static enum pith_status save_in(const char *dir, const char *name, const void *data, size_t size,
                                struct pith_error *err)
{
    char *path = pith_path_join(dir, name);
    if (!path) return pith_fail_nomem(err, name);
    const enum pith_status s = pith_file_write(path, data, size, err);
    pith_free(path);
    return s;
}

/* Of an input that is one file, which has it inside. */
static enum pith_status save_tokenizer(const struct pith_run *r, struct pith_error *err)
{
    json_t *json;
    PITH_TRY(pith_tokenizer_json(r->model->checkpoint, &json, err));
    char *path = pith_path_join(r->partial, "tokenizer.json");
    const enum pith_status s = path ? pith_json_save(path, json, err)
                                    : pith_fail_nomem(err, "tokenizer.json");
    pith_free(path);
    json_decref(json);
    return s;
}

/* A file that goes along is some megabytes at most. One that claims more (it may be a hole of any
 * length) is not copied blindly, nor left out in silence. */
static enum pith_status check_size(const char *path, struct pith_error *err)
{
    enum { MOST = 256 << 20 };
    uint64_t size = 0;
    int64_t changed;
    PITH_TRY(pith_file_stat(path, &size, &changed, err));
    if (size <= MOST) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: has %llu MiB; a file that goes along with a model may have %d: move it"
                     " away",
                     path, (unsigned long long)(size >> 20), MOST >> 20);
}

static enum pith_status copy_side_files(const struct pith_run *r, struct pith_error *err)
{
    char **names;
    size_t count;
    if (r->model->checkpoint->file_form) return save_tokenizer(r, err);
    PITH_TRY(pith_checkpoint_side_files(r->options->model, &names, &count, err));
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        char *from = pith_path_join(r->options->model, names[i]);
        char *to = pith_path_join(r->partial, names[i]);
        s = from && to ? check_size(from, err) : pith_fail_nomem(err, names[i]);
        if (s == PITH_OK) s = pith_file_copy(from, to, err);
        pith_free(from);
        pith_free(to);
    }
    pith_names_free(names, count);
    return s;
}

static enum pith_status write_texts(const struct pith_run *r, struct pith_error *err)
{
    json_t *config = NULL;
    enum pith_status s = make_config(r, &config, err);
    if (s != PITH_OK) return s;
    char *path = pith_path_join(r->partial, "config.json");
    s = path ? pith_config_save(path, config, err) : pith_fail_nomem(err, "config.json");
    pith_free(path);
    if (s == PITH_OK && r->quantizes && r->container->extra_file) {
        json_t *extra = NULL;
        const char *name = NULL;
        s = r->container->extra_file(json_object_get(config, "quantization_config"), &name, &extra,
                                     err);
        path = s == PITH_OK ? pith_path_join(r->partial, name) : NULL;
        if (s == PITH_OK)
            s = path ? pith_config_save(path, extra, err) : pith_fail_nomem(err, name);
        pith_free(path);
        json_decref(extra);
    }
    json_decref(config);
    if (s == PITH_OK && r->layout.shards > 1) {
        char *index = pith_layout_index(&r->layout);
        s = index ? save_in(r->partial, "model.safetensors.index.json", index, strlen(index), err)
                  : pith_fail_nomem(err, "the index");
        pith_free(index);
    }
    return s == PITH_OK ? copy_side_files(r, err) : s;
}

static enum pith_status open_shards(struct pith_run *r, struct pith_error *err)
{
    r->shards = pith_zalloc(r->layout.shards, sizeof *r->shards);
    if (!r->shards) return pith_fail_nomem(err, "shards");
    for (size_t i = 0; i < r->layout.shards; i++) r->shards[i].fd = -1;
    for (size_t i = 0; i < r->layout.shards; i++) {
        char *path = pith_path_join(r->partial, r->layout.shard_names[i]);
        if (!path) return pith_fail_nomem(err, "shards");
        enum pith_status s = pith_out_open(path, r->layout.shard_bytes[i], &r->shards[i], err);
        pith_free(path);
        if (s == PITH_OK)
            s = pith_out_write(&r->shards[i], 0, r->layout.headers[i], r->layout.header_bytes[i],
                               err);
        if (s == PITH_OK) s = pith_out_sync(&r->shards[i], err);
        if (s != PITH_OK) return s;
    }
    return PITH_OK;
}

enum pith_status pith_output_open(struct pith_run *r, struct pith_error *err)
{
    PITH_TRY(pith_dir_make(r->partial, err));
    PITH_TRY(open_shards(r, err));
    if (!r->container->file) PITH_TRY(write_texts(r, err));
    PITH_TRY(pith_dir_sync(r->partial, err));
    PITH_TRY(pith_checkpoint_open(r->partial, &r->written, err));
    return r->quantizes ? r->container->open(r->written, &r->written_state, err) : PITH_OK;
}

void pith_output_close(struct pith_run *r)
{
    if (r->written_state) r->container->close(r->written_state);
    pith_checkpoint_close(r->written);
    for (size_t i = 0; r->shards && i < r->layout.shards; i++) pith_out_close(&r->shards[i]);
    pith_free(r->shards);
    pith_free(r->reread);
    r->reread = NULL;
    r->shards = NULL;
    r->written = NULL;
    r->written_state = NULL;
}
