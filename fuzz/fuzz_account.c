/* Any bytes as pith.json of a finished checkpoint: verify says what is wrong with it, or that
 * nothing is, and comes to an end. The checkpoints, a folder and a GGUF file, are made once, by
 * pith itself, from a model of one small layer.
 *
 *     u8 choice ('0' to '3'): bit 0 whether the original is looked at too, bit 1 which of the two
 *     the rest: pith.json */
#include "folder.h"

#include "base/mem.h"
#include "base/str.h"

#include <pith/quantize.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WIDTH = 64 };

static const char config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":64,"
    "\"intermediate_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":2,\"vocab_size\":64,\"max_position_embeddings\":64,"
    "\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"tie_word_embeddings\":false,"
    "\"torch_dtype\":\"bfloat16\"}";

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
        const size_t bytes = 2 * WIDTH * (tensors[i].matrix ? WIDTH : 1);
        pith_str_printf(&header,
                        "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s64],\"data_offsets\":"
                        "[%zu,%zu]}",
                        i ? "," : "{", tensors[i].name, tensors[i].matrix ? "64," : "", at,
                        at + bytes);
        at += bytes;
    }
    pith_str_putc(&header, '}');
    while (header.len % 8) pith_str_putc(&header, ' ');
    for (int i = 0; i < 8; i++) pith_str_putc(&file, (char)(header.len >> 8 * i & 255));
    pith_str_append(&file, header.data, header.len);
    for (size_t i = 0; i < at / 2; i++) {
        const float x = (float)(i * 2654435761u % 1000) / 1000.0f - 0.4995f;
        pith_str_append(&file, (const char *)&x + 2, 2); /* bfloat16 */
    }
    folder_put("config.json", config, sizeof config - 1);
    folder_put("model.safetensors", file.data, file.len);
    pith_str_free(&header);
    pith_str_free(&file);
}

/* A token for each of these characters. */
static void put_tokenizer(void)
{
    static const char tokens[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char bytes[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                                "\"trim_offsets\":true,\"use_regex\":true}";
    struct pith_str s = {0};
    pith_str_printf(&s,
                    "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,"
                    "\"pre_tokenizer\":%s,\"post_processor\":null,\"decoder\":%s,",
                    bytes, bytes);
    pith_str_puts(&s, "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":");
    for (int i = 0; i < WIDTH; i++) pith_str_printf(&s, "%c\"%c\":%d", i ? ',' : '{', tokens[i], i);
    pith_str_puts(&s, "}}}");
    folder_put("tokenizer.json", s.data, s.len);
    pith_str_free(&s);
}

enum { FOLDER, FILE_GGUF, KINDS };
static const struct {
    const char *end, *account, *weights;
} kinds[KINDS] = {{".out", ".out/pith.json", "int8:channel"}, {".gguf", ".gguf.pith.json", "q8_0"}};

static struct pith_context *context;

static char *path_of(const char *end, char path[128])
{
    (void)snprintf(path, 128, "%s%s", folder(), end);
    return path;
}

static void remove_all(void)
{
    char path[128];
    (void)pith_dir_remove(path_of(kinds[FOLDER].end, path), NULL);
    (void)pith_unlink(path_of(kinds[FILE_GGUF].end, path), NULL);
    (void)pith_unlink(path_of(kinds[FILE_GGUF].account, path), NULL);
    pith_context_free(&context);
}

static enum pith_status verify(int kind, bool against, char **report, struct pith_error *err)
{
    char path[128];
    struct pith_verify_options o;
    pith_verify_defaults(&o);
    o.model = path_of(kinds[kind].end, path);
    o.against = against ? folder() : NULL;
    return pith_verify(context, &o, report, err);
}

static enum pith_status make(int kind, struct pith_error *err)
{
    char path[128];
    struct pith_quantize_options o;
    pith_quantize_defaults(&o);
    o.model = folder();
    o.out = path_of(kinds[kind].end, path);
    o.recipe = "rtn";
    o.weights = kinds[kind].weights;
    const enum pith_status s = pith_quantize(context, &o, NULL, err);
    return s == PITH_OK ? verify(kind, true, NULL, err) : s;
}

static void prepare(void)
{
    struct pith_error err = {0};
    put_model();
    put_tokenizer();
    atexit(remove_all);
    if (pith_context_new(1, "scalar", &context, &err) != PITH_OK || make(FOLDER, &err) != PITH_OK ||
        make(FILE_GGUF, &err) != PITH_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!context) prepare();
    const unsigned choice = size ? *data++ : 0;
    const int kind = choice / 2 % KINDS;
    char path[128];
    FILE *f = fopen(path_of(kinds[kind].account, path), "wb");
    if (size) size--;
    if (!f || fwrite(data, 1, size, f) != size) abort();
    (void)fclose(f);
    struct pith_error err = {0};
    char *report = NULL;
    const enum pith_status s = verify(kind, choice % 2, &report, &err);
    if (s != PITH_OK && !err.text[0]) abort();
    if (s == PITH_OK && !report) abort();
    pith_text_free(report);
    return 0;
}
