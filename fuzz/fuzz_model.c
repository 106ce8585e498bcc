/* Any text as a model: its config, and tensors of any names, dtypes and shapes. It is refused with
 * one line, or every part of it can be read: slices, latents, what its container holds; and it
 * computes a few tokens.
 *
 *     line 1: config.json
 *     a line for each tensor: "F32 80,32 model.embed_tokens.weight", and behind it " =0a1b" when
 *         its bytes matter, repeated; "a.{0,1}.b" is two tensors
 *     an empty line, and bytes of the others, repeated
 *
 * Without such a line the tensors are those that the config asks for, of whatever shape these are.
 *
 * Or a GGUF file, whose last four bytes are the size that it is to have: the 64 before them are
 * repeated up to there. */
#include "folder.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/session.h"
#include "tok/tokenizer.h"

#include <inttypes.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_TENSORS = 512, MAX_BYTES = 1 << 20, MAX_LAYERS = 16, NAME = 256, TOKENS = 5 };

static void must(bool truth)
{
    if (!truth) abort();
}

/* --- the file --------------------------------------------------------------------------------- */

struct file {
    struct pith_str header, body;
    size_t tensors, lines;     /* written; those that {...} gave */
    const uint8_t *fill, *end; /* bytes of tensors that say none */
};

struct line {
    char dtype[12], *shape, *hex; /* hex: NULL, or a tensor's bytes */
    size_t bytes;
};

static unsigned digit(char c)
{
    return c >= '0' && c <= '9' ? (unsigned)(c - '0') : (unsigned)(c + 9) & 15;
}

static void put_bytes(struct file *f, const struct line *l)
{
    const char *bytes = (const char *)f->fill;
    size_t n = (size_t)(f->end - f->fill);
    char said[4096];
    if (l->hex && l->hex[0] && l->hex[1]) {
        n = strlen(l->hex) / 2 < sizeof said ? strlen(l->hex) / 2 : sizeof said;
        for (size_t i = 0; i < n; i++)
            said[i] = (char)(digit(l->hex[2 * i]) << 4 | digit(l->hex[2 * i + 1]));
        bytes = said;
    } else if (n == 0) {
        bytes = "<";
        n = 1;
    }
    for (size_t at = 0; at < l->bytes; at += n)
        pith_str_append(&f->body, bytes, n < l->bytes - at ? n : l->bytes - at);
}

/* A tensor, or those that {...} in its name stand for. */
static void put_tensor(struct file *f, const struct line *l, const char *head, const char *tail)
{
    const char *open = strchr(tail, '{'), *close = open ? strchr(open, '}') : NULL;
    char name[NAME];
    if (!close) {
        if (f->lines++ >= MAX_TENSORS || f->body.len + l->bytes > MAX_BYTES) return;
        (void)snprintf(name, sizeof name, "%s%s", head, tail);
        pith_str_printf(&f->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":",
                        f->tensors++ ? "," : "{", name, l->dtype, l->shape);
        pith_str_printf(&f->header, "[%zu,%zu]}", f->body.len, f->body.len + l->bytes);
        put_bytes(f, l);
        return;
    }
    for (const char *at = open; at < close && f->lines < MAX_TENSORS;) {
        const char *part = at + 1;
        at = part + strcspn(part, ",}");
        (void)snprintf(name, sizeof name, "%s%.*s%.*s", head, (int)(open - tail), tail,
                       (int)(at - part), part);
        put_tensor(f, l, name, close + 1);
    }
}

/* What a tensor of that line takes; false for a line that is none. */
static bool size_of(struct line *l)
{
    uint64_t shape[PITH_MAX_DIMS], bytes;
    unsigned dims = 0;
    enum pith_dtype dtype;
    if (!pith_dtype_find(l->dtype, &dtype)) return false;
    for (char *at = l->shape; *at && dims < PITH_MAX_DIMS; at += *at == ',') {
        char *end;
        shape[dims++] = strtoull(at, &end, 10);
        if (end == at) return false;
        at = end;
    }
    if (!pith_tensor_size(dtype, dims, shape, &bytes) || bytes > MAX_BYTES) return false;
    l->bytes = (size_t)bytes;
    return true;
}

static void put_line(struct file *f, char *text)
{
    struct line l = {.dtype = ""};
    char *shape = strchr(text, ' '), *name = shape ? strchr(shape + 1, ' ') : NULL;
    if (!name) return;
    *shape = *name = '\0';
    (void)snprintf(l.dtype, sizeof l.dtype, "%s", text);
    l.shape = shape + 1;
    l.hex = strstr(name + 1, " =");
    if (l.hex) {
        *l.hex = '\0';
        l.hex += 2;
    }
    if (size_of(&l)) put_tensor(f, &l, "", name + 1);
}

/* --- tensors as a config wants them ----------------------------------------------------------- */

static void put_wanted(struct file *f, unsigned dims, const uint64_t *shape, const char *name)
{
    struct pith_str text = {0};
    for (unsigned i = 0; i < dims; i++)
        pith_str_printf(&text, "%s%" PRIu64, i ? "," : "BF16 ", shape[i]);
    pith_str_printf(&text, " %s", name);
    put_line(f, text.data);
    pith_str_free(&text);
}

static void put_matrix(struct file *f, const char *module, uint64_t rows, uint64_t cols, bool bias)
{
    char name[NAME];
    (void)snprintf(name, sizeof name, "%s.weight", module);
    put_wanted(f, 2, (const uint64_t[]){rows, cols}, name);
    (void)snprintf(name, sizeof name, "%s.bias", module);
    if (bias) put_wanted(f, 1, &rows, name);
}

static void put_vector(struct file *f, const char *module, const char *end, uint64_t length)
{
    char name[NAME];
    (void)snprintf(name, sizeof name, "%s%s", module, end);
    put_wanted(f, 1, &length, name);
}

static void put_ends(struct file *f, const struct pith_arch *arch, const struct pith_shape *s)
{
    const struct pith_arch_names *names = &arch->names;
    put_matrix(f, names->embed, s->vocab, pith_shape_embed(s), false);
    if (!s->ends.tied) put_matrix(f, names->head, s->vocab, pith_shape_embed(s), false);
    if (s->ends.head_bias) put_vector(f, names->head, ".bias", s->vocab);
    if (s->place.learned) put_matrix(f, names->positions, s->place.learned, s->hidden, false);
    if (s->tokens.width)
        put_matrix(f, names->per_layer_embed, s->tokens.vocab, s->layers * s->tokens.width, false);
    if (s->tokens.width)
        put_matrix(f, names->per_layer_project, s->layers * s->tokens.width, s->hidden, false);
    if (s->tokens.width) put_vector(f, names->per_layer_norm, ".weight", s->tokens.width);
    if (s->ends.width) put_matrix(f, names->project_in, s->hidden, s->ends.width, false);
    if (s->ends.width) put_matrix(f, names->project_out, s->ends.width, s->hidden, false);
    if (!pith_shape_has_last_gain(s)) return;
    put_vector(f, names->norm, ".weight", s->hidden);
    if (arch->norm.bias) put_vector(f, names->norm, ".bias", s->hidden);
}

static void put_layer(struct file *f, const struct pith_plans *plans, uint32_t layer)
{
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    char name[NAME];
    for (uint32_t i = 0; i < l->linears && f->lines < MAX_TENSORS; i++) {
        pith_plan_linear_name(plans, layer, i, name, sizeof name);
        put_matrix(f, name, l->linear[i].rows, l->linear[i].cols, l->linear[i].bias);
    }
    for (uint32_t i = 0; i < l->vectors && f->lines < MAX_TENSORS; i++) {
        uint64_t shape[3];
        const unsigned dims = pith_vector_stored(&l->vector[i], shape);
        pith_plan_name(plans, layer, l->vector[i].name, name, sizeof name);
        put_wanted(f, dims, shape, name);
    }
}

static void put_planned(struct file *f, const char *text)
{
    const struct pith_arch *arch;
    struct pith_shape shape;
    struct pith_plans plans;
    json_t *config = NULL;
    if (pith_json_parse(text, strlen(text), "config", &config, NULL) != PITH_OK) return;
    if (pith_shape_read(config, "config", &arch, &shape, NULL) == PITH_OK &&
        shape.layers <= MAX_LAYERS && pith_plans_make(arch, &shape, &plans, NULL) == PITH_OK) {
        put_ends(f, arch, &shape);
        for (uint32_t i = 0; i < plans.layers; i++) put_layer(f, &plans, i);
        pith_plans_free(&plans);
    }
    json_decref(config);
}

/* Up to the end of a line, with a NUL there; *data goes behind it. free() it. */
static char *take_line(const uint8_t **data, const uint8_t *end)
{
    const uint8_t *at = *data, *stop = at;
    while (stop < end && *stop != '\n') stop++;
    char *line = malloc((size_t)(stop - at) + 1);
    must(line != NULL);
    for (size_t i = 0; i < (size_t)(stop - at); i++) line[i] = at[i] ? (char)at[i] : ' ';
    line[stop - at] = '\0';
    *data = stop < end ? stop + 1 : end;
    return line;
}

static void put_folder(const uint8_t *data, size_t size)
{
    struct file f = {.fill = data, .end = data + size};
    char *config = take_line(&data, f.end);
    const uint8_t *blank = data > f.fill && data[-1] == '\n' ? data - 1 : data;
    while (blank + 1 < f.end && !(blank[0] == '\n' && blank[1] == '\n')) blank++;
    f.fill = blank + 1 < f.end ? blank + 2 : f.end;
    while (data <= blank && data < f.end) {
        char *line = take_line(&data, f.end);
        put_line(&f, line);
        free(line);
    }
    if (f.lines == 0) put_planned(&f, config);
    pith_str_puts(&f.header, f.tensors ? "}" : "{}");
    char length[8] = {0};
    for (int i = 0; i < 4; i++) length[i] = (char)(f.header.len >> 8 * i & 255);
    struct pith_str all = {0};
    pith_str_append(&all, length, sizeof length);
    pith_str_append(&all, f.header.data, f.header.len);
    if (f.body.len) pith_str_append(&all, f.body.data, f.body.len);
    folder_put("config.json", config, strlen(config));
    folder_put("model.safetensors", all.data, all.len);
    folder_put("model.gguf", NULL, 0);
    pith_str_free(&all);
    pith_str_free(&f.header);
    pith_str_free(&f.body);
    free(config);
}

static void put_gguf(const uint8_t *data, size_t size)
{
    enum { REPEATED = 64 };
    size_t whole = 0;
    for (int i = 0; i < 4; i++) whole |= (size_t)data[size - 4 + (size_t)i] << 8 * i;
    size -= 4;
    if (whole < size || whole > MAX_BYTES || size < REPEATED) whole = size;
    uint8_t *file = malloc(whole + 1);
    must(file != NULL);
    memcpy(file, data, size);
    for (size_t i = size; i < whole; i++) file[i] = file[i - REPEATED];
    folder_put("config.json", NULL, 0);
    folder_put("model.safetensors", NULL, 0);
    folder_put("model.gguf", file, whole);
    free(file);
}

/* --- what is read of it ----------------------------------------------------------------------- */

static void read_tensor(const struct pith_checkpoint *c, const struct pith_tensor *t)
{
    const uint64_t n = pith_tensor_elements(t);
    uint8_t *copy;
    must(pith_tensor_extent(t) <= MAX_BYTES);
    must(pith_tensor_straight(t, &copy));
    if (t->order.kind == PITH_STOW_STRAIGHT && n > 1 && pith_dtype_bits(t->dtype) >= 8) {
        uint8_t *again = malloc((size_t)t->bytes);
        must(again != NULL);
        pith_tensor_copy(t, 0, 1, again);
        pith_tensor_copy(t, 1, n - 1, again + t->bytes / n);
        must(memcmp(again, copy ? copy : t->data, (size_t)t->bytes) == 0);
        free(again);
    }
    float *x = malloc((size_t)n * sizeof *x + 1);
    must(x != NULL);
    (void)pith_tensor_decode(t, x);
    free(x);
    pith_free(copy);
    pith_checkpoint_prefetch(c, t);
    pith_checkpoint_release(c, t);
}

static void read_blocks(struct pith_model *m, bool *good)
{
    static const enum pith_load how[] = {PITH_LOAD_MAPPED, PITH_LOAD_FLOAT, PITH_LOAD_SHARED};
    for (uint32_t i = 0; i < m->shape.layers && *good; i++) {
        struct pith_block b;
        struct pith_error err = {0};
        *good = pith_block_load(m, i, how[i % PITH_COUNT(how)], &b, &err) == PITH_OK;
        if (*good) pith_block_free(&b);
        else must(err.text[0] != '\0');
    }
}

static void compute(struct pith_model *m)
{
    static struct pith_backend *be; /* kept */
    struct pith_error err = {0};
    struct pith_session s;
    const struct pith_session_options o = {
        .capacity = TOKENS, .chunk = 2, .kv = pith_kv_floats(PITH_F32)};
    if (!be) must(pith_backend_new(NULL, PITH_CPU_SCALAR, &be, &err) == PITH_OK);
    if (pith_model_load_blocks(m, NULL, &err) != PITH_OK ||
        pith_session_init(&s, m, be, &o, &err) != PITH_OK) {
        must(err.text[0] != '\0');
        return;
    }
    int32_t ids[TOKENS];
    for (int i = 0; i < TOKENS; i++) ids[i] = (int32_t)((uint32_t)(7 * i) % m->shape.vocab);
    float *x = malloc(TOKENS * (size_t)m->shape.hidden * sizeof *x);
    float *logits = malloc(TOKENS * (size_t)m->shape.vocab * sizeof *logits);
    must(x && logits);
    if (pith_session_append(&s, ids, TOKENS, x, &err) == PITH_OK)
        must(pith_model_logits(m, be, x, TOKENS, logits, &err) == PITH_OK);
    else must(err.text[0] != '\0');
    free(x);
    free(logits);
    pith_session_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_model *m = NULL;
    struct pith_error err = {0};
    if (size > 8 && memcmp(data, "GGUF", 4) == 0) put_gguf(data, size);
    else put_folder(data, size);
    if (pith_model_open(folder(), &m, &err) != PITH_OK) {
        must(err.text[0] != '\0');
        return 0;
    }
    const struct pith_checkpoint *c = m->checkpoint;
    char identity[PITH_SHA256_HEX];
    must(pith_checkpoint_identity(c, identity));
    json_t *json = NULL;
    must(!c->gguf || pith_tokenizer_json(c, &json, &err) == PITH_OK || err.text[0] != '\0');
    json_decref(json);
    for (size_t i = 0; i < c->count; i++) read_tensor(c, &c->tensors[i]);
    for (size_t i = 0; i < c->whole_count; i++) read_tensor(c, &c->wholes[i]);
    bool good = m->shape.layers <= MAX_LAYERS;
    read_blocks(m, &good);
    if (good) compute(m);
    pith_model_close(m);
    return 0;
}
