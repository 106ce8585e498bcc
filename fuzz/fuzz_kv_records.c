/* Any text as what lies beside the weights for caches: the levels of kvquant (pith.kvquant.json)
 * and the assignments of --kv auto:BITS (pith.kv.json). A record is refused with one line, or of
 * other weights, or rows of keys and values can be kept by what it says.
 *
 *     u8: 'k' the levels; else the assignments
 *     the rest: the file; "CHECKPOINT" in it, once, is replaced by what the weights are known by */
#include "folder.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "base/str.h"
#include "choose/kv_auto.h"
#include "choose/kv_levels.h"
#include "num/kvquant.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,"
    "\"intermediate_size\":32,\"num_hidden_layers\":1,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":8,\"vocab_size\":4096,\"max_position_embeddings\":512,"
    "\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0,\"tie_word_embeddings\":true,"
    "\"bos_token_id\":1,\"eos_token_id\":2,\"torch_dtype\":\"bfloat16\"}";

static void must(bool truth)
{
    if (!truth) abort();
}

/* A model of which nothing but the plans and the identity is asked, made once. */
static struct pith_model model;
static struct pith_backend *backend;
static char identity[PITH_SHA256_HEX];

static void make(void)
{
    static const char file[] = "\x36\0\0\0\0\0\0\0"
                               "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"
                               "\0\0\0"; /* and the NUL */
    struct pith_checkpoint *c;
    json_t *json;
    folder_put("config.json", config, sizeof config - 1);
    folder_put("model.safetensors", file, sizeof file);
    must(pith_checkpoint_open(folder(), &c, NULL) == PITH_OK);
    must(pith_json_parse(config, sizeof config - 1, "config", &json, NULL) == PITH_OK);
    must(pith_shape_read(json, "config", &model.arch, &model.shape, NULL) == PITH_OK);
    must(pith_plans_make(model.arch, &model.shape, &model.plans, NULL) == PITH_OK);
    must(pith_backend_new(NULL, PITH_CPU_SCALAR, &backend, NULL) == PITH_OK);
    must(pith_checkpoint_identity(c, identity));
    model.checkpoint = c;
    json_decref(json);
}

static void put(const char *name, const char *text, size_t size)
{
    static const char word[] = "CHECKPOINT";
    struct pith_str given = {0}, file = {0};
    pith_str_append(&given, text, size);
    const char *at = strstr(pith_str_text(&given), word);
    const size_t before = at ? (size_t)(at - given.data) : size;
    if (at) {
        const size_t behind = before + sizeof word - 1;
        pith_str_append(&file, text, before);
        pith_str_puts(&file, identity);
        pith_str_append(&file, text + behind, size - behind);
    }
    folder_put(name, at ? file.data : pith_str_text(&given), at ? file.len : given.len);
    pith_str_free(&given);
    pith_str_free(&file);
}

/* Rows of all sizes by a head's levels. */
enum { KEYS = 8, ROOM = 4 };
static void keep_row(const struct pith_kv_layer_levels *l, unsigned bits, float scale)
{
    const float x[KEYS] = {0, scale, -scale, 0.5f * scale, 1e-3f * scale, 2, -1, -0.0f};
    uint8_t code[KEYS];
    uint16_t column[ROOM];
    float outlier[ROOM];
    struct pith_kvquant_row row = {
        .code = code, .column = column, .outlier = outlier, .room = ROOM};
    for (unsigned side = 0; side < 2; side++) {
        const struct pith_kvquant q = {.bits = bits,
                                       .cols = KEYS,
                                       .level = l->level[side][bits - 2],
                                       .middle = l->middle,
                                       .range = l->range,
                                       .beyond = l->beyond};
        (side ? pith_kvquant_value : pith_kvquant_key)(&q, x, &row);
        must(row.outliers <= ROOM);
        for (uint32_t i = 0; i < row.outliers; i++) must(column[i] < KEYS && isfinite(outlier[i]));
        for (int i = 0; i < KEYS; i++) must(code[i] < 1u << bits);
    }
}

static void read_levels(void)
{
    const struct pith_kv_levels_job job = {.backend = backend, .model = &model};
    struct pith_error err = {0};
    if (pith_kv_levels_need(&job, &err) != PITH_OK) {
        must(err.text[0] != '\0' && !model.kv_levels);
        return;
    }
    for (unsigned bits = PITH_KVQUANT_LEAST; bits <= PITH_KVQUANT_MOST; bits++)
        for (float scale = 1e-30f; scale < 1e30f; scale *= 1e6f)
            keep_row(&model.kv_levels->layer[0], bits, scale);
    pith_kv_levels_free(model.kv_levels);
    model.kv_levels = NULL;
}

static void read_assignments(void)
{
    for (double bits = 3; bits <= 9; bits += 2) {
        const struct pith_kv_auto_job job = {.backend = backend, .model = &model, .bits = bits};
        struct pith_kv_format f;
        struct pith_error err = {0};
        if (pith_kv_auto(&job, &f, &err) != PITH_OK) {
            must(err.text[0] != '\0');
            continue;
        }
        must(pith_kv_bits(&model.plans, &f, model.shape.max_position) <= bits);
        pith_kv_format_free(&f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bool levels = size && data[0] == 'k';
    if (!model.checkpoint) make();
    if (size) data++, size--;
    put(levels ? "pith.kvquant.json" : "pith.kv.json", (const char *)data, size);
    if (levels) read_levels();
    else read_assignments();
    return 0;
}
