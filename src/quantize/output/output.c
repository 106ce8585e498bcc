/* The output folder: which tensors it will hold, its config, the files that go along. */
#include "quantize/output/output.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "export/file.h"
#include "io/hf_files.h"
#include "io/quant_names.h"
#include "tok/files/gguf_folder.h"
#include "tok/tokenizer.h"

#include <stdio.h>
#include <string.h>

/* What the weights are now stored as, under the key that the config has for it. */
static bool set_dtype(json_t *config, enum pith_dtype dtype)
{
    const char *name = dtype == PITH_BF16 ? "bfloat16" : dtype == PITH_F16 ? "float16" : "float32";
    const char *key = json_object_get(config, "dtype") ? "dtype" : "torch_dtype";
    json_t *text = json_object_get(config, "text_config");
    if (json_is_object(text))
        for (int i = 0; i < 2; i++) {
            const char *inner = i ? "dtype" : "torch_dtype";
            if (json_object_get(text, inner) &&
                json_object_set_new(text, inner, json_string(name)) != 0)
                return false;
        }
    return json_object_set_new(config, key, json_string(name)) == 0;
}

/* States that the head is a separate matrix, by each name that a config has for it. */
static bool set_untied(json_t *config)
{
    static const char *const keys[] = {"tie_word_embeddings", "tie_embedding"};
    for (size_t i = 0; i < PITH_COUNT(keys); i++) {
        if (i > 0 && !json_object_get(config, keys[i])) continue;
        if (json_object_set_new(config, keys[i], json_false()) != 0) return false;
    }
    return true;
}

static enum pith_status make_config(const struct pith_job *job, json_t **out,
                                    struct pith_error *err)
{
    json_t *quantization = NULL;
    enum pith_status s = PITH_OK;
    if (job->quantizes)
        s = job->container->config(job->linears, job->linear_count, &job->container_opts,
                                   &quantization, err);
    if (s != PITH_OK) return s;
    json_t *config = json_deep_copy(job->model->checkpoint->config);
    bool bad = !config;
    if (!bad && quantization) bad = !pith_quantization_set(config, quantization);
    if (!bad && job->recast) bad = !set_dtype(config, job->container_opts.model_dtype);
    if (!bad && pith_job_unties(job)) bad = !set_untied(config);
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

static enum pith_status save_json(const struct pith_job *job, const char *name, const json_t *json,
                                  struct pith_error *err)
{
    char *path = pith_path_join(job->partial, name);
    const enum pith_status s = path ? pith_json_save(path, json, err) : pith_fail_nomem(err, name);
    pith_free(path);
    return s;
}

/* Of an input that is one file, which has them inside. */
static enum pith_status save_tokenizer(const struct pith_job *job, struct pith_error *err)
{
    const struct pith_checkpoint *in = job->model->checkpoint;
    struct pith_gguf_folder folder;
    json_t *json;
    PITH_TRY(pith_tokenizer_json(in, &json, err));
    enum pith_status s = save_json(job, "tokenizer.json", json, err);
    json_decref(json);
    PITH_TRY(s);
    PITH_TRY(pith_gguf_folder(in->gguf, &folder, err));
    s = save_json(job, "tokenizer_config.json", folder.tokenizer_config, err);
    if (s == PITH_OK) s = save_json(job, "generation_config.json", folder.generation_config, err);
    pith_gguf_folder_free(&folder);
    return s;
}

/* An extra file is some megabytes at most. One that claims more (it may be a hole of any length) is
 * neither copied blindly nor omitted without a word. */
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

static enum pith_status copy_side_files(const struct pith_job *job, struct pith_error *err)
{
    char **names;
    size_t count;
    if (job->model->checkpoint->file_form) return save_tokenizer(job, err);
    PITH_TRY(pith_checkpoint_side_files(job->options->model, &names, &count, err));
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        char *from = pith_path_join(job->options->model, names[i]);
        s = from ? check_size(from, err) : pith_fail_nomem(err, names[i]);
        if (s == PITH_OK)
            s = pith_checkpoint_copy(job->options->model, job->partial, names[i], err);
        pith_free(from);
    }
    pith_names_free(names, count);
    return s;
}

static enum pith_status write_texts(const struct pith_job *job, struct pith_error *err)
{
    json_t *config = NULL;
    enum pith_status s = make_config(job, &config, err);
    if (s != PITH_OK) return s;
    char *path = pith_path_join(job->partial, "config.json");
    s = path ? pith_config_save(path, config, err) : pith_fail_nomem(err, "config.json");
    pith_free(path);
    if (s == PITH_OK && job->quantizes && job->container->extra_file) {
        json_t *extra = NULL;
        const char *name = NULL;
        s = job->container->extra_file(json_object_get(config, "quantization_config"), &name,
                                       &extra, err);
        path = s == PITH_OK ? pith_path_join(job->partial, name) : NULL;
        if (s == PITH_OK)
            s = path ? pith_config_save(path, extra, err) : pith_fail_nomem(err, name);
        pith_free(path);
        json_decref(extra);
    }
    json_decref(config);
    if (s == PITH_OK && job->layout.shards > 1) {
        char *index = pith_layout_index(&job->layout);
        s = index ? save_in(job->partial, "model.safetensors.index.json", index, strlen(index), err)
                  : pith_fail_nomem(err, "the index");
        pith_free(index);
    }
    return s == PITH_OK ? copy_side_files(job, err) : s;
}

static enum pith_status make_header(const struct pith_job *job, const struct pith_out *file,
                                    size_t i, struct pith_error *err)
{
    PITH_TRY(pith_out_write(file, 0, job->layout.headers[i], job->layout.header_bytes[i], err));
    return pith_out_sync(file, err);
}

/* `made`: they have their headers. */
static enum pith_status open_shards(const struct pith_job *job, struct pith_output *out, bool made,
                                    struct pith_error *err)
{
    out->shards = pith_zalloc(job->layout.shards, sizeof *out->shards);
    if (!out->shards) return pith_fail_nomem(err, "shards");
    for (size_t i = 0; i < job->layout.shards; i++) out->shards[i].fd = -1;
    for (size_t i = 0; i < job->layout.shards; i++) {
        char *path = pith_path_join(job->partial, job->layout.shard_names[i]);
        if (!path) return pith_fail_nomem(err, "shards");
        enum pith_status s = pith_out_open(path, job->layout.shard_bytes[i], &out->shards[i], err);
        pith_free(path);
        if (s == PITH_OK && !made) s = make_header(job, &out->shards[i], i, err);
        if (s != PITH_OK) return s;
    }
    return PITH_OK;
}

static enum pith_status open_back(const struct pith_job *job, struct pith_output *out,
                                  struct pith_error *err)
{
    PITH_TRY(pith_checkpoint_open(job->partial, &out->written, err));
    return job->quantizes ? job->container->open(out->written, &out->written_state, err) : PITH_OK;
}

enum pith_status pith_output_open(const struct pith_job *job, struct pith_output *out,
                                  struct pith_error *err)
{
    PITH_TRY(pith_dir_make(job->partial, err));
    PITH_TRY(open_shards(job, out, false, err));
    if (!job->container->file) PITH_TRY(write_texts(job, err));
    PITH_TRY(pith_dir_sync(job->partial, err));
    return open_back(job, out, err);
}

enum pith_status pith_output_follow(const struct pith_job *job, struct pith_output *out,
                                    struct pith_error *err)
{
    PITH_TRY(open_shards(job, out, true, err));
    return open_back(job, out, err);
}

enum pith_status pith_output_sync(const struct pith_job *job, const struct pith_output *out,
                                  struct pith_error *err)
{
    for (size_t i = 0; i < job->layout.shards; i++) PITH_TRY(pith_out_sync(&out->shards[i], err));
    return PITH_OK;
}

void pith_output_close(const struct pith_job *job, struct pith_output *out)
{
    if (out->written_state) job->container->close(out->written_state);
    pith_checkpoint_close(out->written);
    for (size_t i = 0; out->shards && i < job->layout.shards; i++) pith_out_close(&out->shards[i]);
    pith_free(out->shards);
    pith_free(out->reread);
    out->reread = NULL;
    out->shards = NULL;
    out->written = NULL;
    out->written_state = NULL;
}
