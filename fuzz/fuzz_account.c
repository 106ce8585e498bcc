/* Any bytes as pith.json of a finished checkpoint: verify says what is wrong with it, or that
 * nothing is, and comes to an end. The checkpoint is made once, by pith itself, from a model of one
 * small layer. */
#include "folder.h"

#include "base/mem.h"
#include "base/str.h"

#include <pith/quantize.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WIDTH = 32 };

static const char config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,"
    "\"intermediate_size\":32,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":2,\"vocab_size\":32,\"max_position_embeddings\":64,"
    "\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"tie_word_embeddings\":false,"
    "\"torch_dtype\":\"float32\"}";

#define LAYER "model.layers.0."
static const struct {
    const char *name;
    bool matrix;
} tensors[] = {{"lm_head.weight", true},
               {LAYER "input_layernorm.weight", false},
               {LAYER "mlp.down_proj.weight", true},
               {LAYER "mlp.gate_proj.weight", true},
               {LAYER "mlp.up_proj.weight", true},
               {LAYER "post_attention_layernorm.weight", false},
               {LAYER "self_attn.k_proj.weight", true},
               {LAYER "self_attn.o_proj.weight", true},
               {LAYER "self_attn.q_proj.weight", true},
               {LAYER "self_attn.v_proj.weight", true},
               {"model.embed_tokens.weight", true},
               {"model.norm.weight", false}};

/* The model's only file: a header, and values that differ. */
static void put_model(void)
{
    struct pith_str header = {0}, file = {0};
    size_t at = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        const size_t bytes = 4 * WIDTH * (tensors[i].matrix ? WIDTH : 1);
        pith_str_printf(&header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s32],\"data_offsets\":"
                                 "[%zu,%zu]}",
                        i ? "," : "{", tensors[i].name, tensors[i].matrix ? "32," : "", at,
                        at + bytes);
        at += bytes;
    }
    pith_str_putc(&header, '}');
    while (header.len % 8) pith_str_putc(&header, ' ');
    for (int i = 0; i < 8; i++) pith_str_putc(&file, (char)(header.len >> 8 * i & 255));
    pith_str_append(&file, header.data, header.len);
    for (size_t i = 0; i < at / 4; i++) {
        const float x = (float)(i * 2654435761u % 1000) / 1000.0f - 0.4995f;
        pith_str_append(&file, (const char *)&x, sizeof x);
    }
    folder_put("config.json", config, sizeof config - 1);
    folder_put("model.safetensors", file.data, file.len);
    pith_str_free(&header);
    pith_str_free(&file);
}

static char out[96];
static struct pith_context *context;

static void remove_all(void)
{
    (void)pith_dir_remove(out, NULL);
    pith_context_free(&context);
}

static enum pith_status verify(bool against, char **report, struct pith_error *err)
{
    struct pith_verify_options o;
    pith_verify_defaults(&o);
    o.model = out;
    o.against = against ? folder() : NULL;
    return pith_verify(context, &o, report, err);
}

static void prepare(void)
{
    struct pith_error err = {0};
    struct pith_quantize_options o;
    put_model();
    (void)snprintf(out, sizeof out, "%s.out", folder());
    atexit(remove_all);
    pith_quantize_defaults(&o);
    o.model = folder();
    o.out = out;
    o.recipe = "rtn";
    o.weights = "int8:channel";
    if (pith_context_new(1, "scalar", &context, &err) != PITH_OK ||
        pith_quantize(context, &o, NULL, &err) != PITH_OK ||
        verify(true, NULL, &err) != PITH_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!context) prepare();
    char path[128];
    (void)snprintf(path, sizeof path, "%s/pith.json", out);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size) abort();
    (void)fclose(f);
    struct pith_error err = {0};
    char *report = NULL;
    const enum pith_status s = verify(size % 2, &report, &err);
    if (s != PITH_OK && !err.text[0]) abort();
    if (s == PITH_OK && !report) abort();
    pith_text_free(report);
    return 0;
}
