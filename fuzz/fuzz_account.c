/* Any bytes as pith.json of a finished checkpoint, and as its config: verify says what is wrong, or
 * that nothing is, and comes to an end. The checkpoints are made once, by pith itself, from a model
 * of one small layer: a folder, a GGUF file, a rotated and a pruned folder, a rotated file.
 *
 *     u8 choice ('0' to 'o'): bit 0 whether the original is looked at too, bits 1 to 3 which of
 *         the five, bit 4 a config.json in place of the checkpoint's, bit 5 no pith.json
 *     with a config: u16 its length, the config
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
    "\"bos_token_id\":1,\"eos_token_id\":[2,3],\"torch_dtype\":\"bfloat16\"}";

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

enum { CONFIG_MOST = 4096 };
enum { FOLDER, FILE_GGUF, ROTATED, PRUNED, ROTATED_GGUF, KINDS };
static const struct {
    const char *end, *account, *weights, *transform, *split;
} kinds[KINDS] = {{".out", ".out/pith.json", "int8:channel", NULL, NULL},
                  {".gguf", ".gguf.pith.json", "q8_0", NULL, NULL},
                  {".rot", ".rot/pith.json", "int8:channel", "rotate:folded", NULL},
                  {".two", ".two/pith.json", "none", NULL, "2:4:magnitude"},
                  {".rot.gguf", ".rot.gguf.pith.json", "q8_0", "rotate:folded", NULL}};

/* The config.json of each folder, as it was made. */
static struct {
    char text[CONFIG_MOST];
    size_t size;
} configs[KINDS];

static struct pith_context *context;

static char *path_of(const char *end, char path[128])
{
    (void)snprintf(path, 128, "%s%s", folder(), end);
    return path;
}

static bool is_file(int kind)
{
    return kind == FILE_GGUF || kind == ROTATED_GGUF;
}

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size) abort();
    (void)fclose(f);
}

static char *config_of(int kind, char path[128])
{
    (void)snprintf(path, 128, "%s%s/config.json", folder(), kinds[kind].end);
    return path;
}

static void remove_all(void)
{
    char path[128];
    for (int k = 0; k < KINDS; k++) {
        (void)pith_unlink(path_of(kinds[k].account, path), NULL);
        path_of(kinds[k].end, path);
        (void)(is_file(k) ? pith_unlink(path, NULL) : pith_dir_remove(path, NULL));
    }
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
    o.transform = kinds[kind].transform;
    o.split = kinds[kind].split;
    enum pith_status s = pith_quantize(context, &o, NULL, err);
    if (s == PITH_OK) s = verify(kind, true, NULL, err);
    if (s != PITH_OK || is_file(kind)) return s;
    FILE *f = fopen(config_of(kind, path), "rb");
    configs[kind].size = f ? fread(configs[kind].text, 1, CONFIG_MOST, f) : 0;
    if (!configs[kind].size || configs[kind].size == CONFIG_MOST) abort();
    (void)fclose(f);
    return s;
}

static void prepare(void)
{
    struct pith_error err = {0};
    put_model();
    put_tokenizer();
    atexit(remove_all);
    enum pith_status s = pith_context_new(1, "scalar", &context, &err);
    for (int k = 0; k < KINDS && s == PITH_OK; k++) s = make(k, &err);
    if (s != PITH_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

/* The config in front of the input; its size in bytes there. */
static size_t put_config(int kind, const uint8_t *data, size_t size)
{
    char path[128];
    size_t n = size >= 2 ? (size_t)data[0] | (size_t)data[1] << 8 : 0;
    if (size < 2) return 0;
    if (n > size - 2) n = size - 2;
    if (!is_file(kind)) write_file(config_of(kind, path), data + 2, n);
    return 2 + n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { AGAINST = 1, CONFIG = 16, NONE = 32 };
    if (!context) prepare();
    if (!size--) return 0;
    const unsigned choice = *data++ - (unsigned)'0';
    const int kind = (int)(choice / 2 % 8 % KINDS);
    char path[128];
    const size_t n = choice & CONFIG ? put_config(kind, data, size) : 0;
    path_of(kinds[kind].account, path);
    if (choice & NONE) (void)pith_unlink(path, NULL);
    else write_file(path, data + n, size - n);
    struct pith_error err = {0};
    char *report = NULL;
    const enum pith_status s = verify(kind, choice & AGAINST, &report, &err);
    if (s != PITH_OK && !err.text[0]) abort();
    if (s == PITH_OK && !report) abort();
    pith_text_free(report);
    if (choice & CONFIG && !is_file(kind))
        write_file(config_of(kind, path), configs[kind].text, configs[kind].size);
    return 0;
}
