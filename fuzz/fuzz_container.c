/* Any bytes as a quantized checkpoint: a config and tensors of a module, whatever their shapes. The
 * containers refuse it with one line, or give a matrix that keeps every promise of pith_qmat, that
 * packs again, and whose config they describe alike.
 *
 *     u8 rows / 8, u8 cols / 8, u16 length of the JSON, the quantization_config
 *     for each tensor: u8 suffix + 1, u8 dtype, u8 dims, u16 first, u16 second dimension, of a
 *     trellis and of tiles u16 third as well (others: 1); then u8 0
 *     the rest: the tensors' bytes, one after the other, from the start again when they run out */
#include "base/mem.h"
#include "io/container/container.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MODULE "model.layers.0.mlp.up_proj"
#define MAX_TENSORS 12
#define MAX_BYTES (1u << 18)

static const char *const suffixes[] = {".qweight",
                                       ".qzeros",
                                       ".scales",
                                       ".g_idx",
                                       ".weight",
                                       ".weight_packed",
                                       ".weight_scale",
                                       ".weight_shape",
                                       ".weight_zero_point",
                                       ".weight_g_idx",
                                       ".bias",
                                       ".other",
                                       ".lookup_table",
                                       ".rows",
                                       ".cols",
                                       ".vals",
                                       ".full_rows",
                                       ".weight_global_scale",
                                       ".input_global_scale",
                                       ".input_scale",
                                       ".input_zero_point",
                                       ".weight_scale_2",
                                       ".weight_scale_inv",
                                       ".pre_quant_scale",
                                       ".SCB",
                                       ".weight_format",
                                       ".weight.absmax",
                                       ".weight.quant_map",
                                       ".weight.nested_absmax",
                                       ".weight.nested_quant_map",
                                       ".weight.quant_state.bitsandbytes__nf4",
                                       ".weight.quant_state.bitsandbytes__fp4",
                                       ".W_q",
                                       ".scale",
                                       ".zero",
                                       ".shape",
                                       ".nbits",
                                       ".group_size",
                                       ".axis",
                                       ".channel_wise",
                                       ".view_as_float",
                                       ".quant_scale",
                                       ".quant_zero",
                                       ".u_input.weight",
                                       ".trellis",
                                       ".suh",
                                       ".svh",
                                       ".su",
                                       ".sv",
                                       ".mcg",
                                       ".mul1",
                                       ".tiles",
                                       ".columns",
                                       ".rows"};

struct input {
    const uint8_t *data;
    size_t size, at;
};

struct checkpoint {
    struct pith_checkpoint c;
    struct pith_tensor tensor[MAX_TENSORS];
    char name[MAX_TENSORS][80];
    uint8_t *bytes[MAX_TENSORS];
};

static void must(bool truth)
{
    if (!truth) abort();
}

static unsigned take(struct input *in, unsigned bytes)
{
    unsigned v = 0;
    for (unsigned i = 0; i < bytes && in->at < in->size; i++)
        v |= (unsigned)in->data[in->at++] << 8 * i;
    return v;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pith_tensor *)a)->name, ((const struct pith_tensor *)b)->name);
}

/* Reads the tensors' descriptions; their bytes come later. Names are distinct, as in a file. */
static void take_tensors(struct input *in, struct checkpoint *ck)
{
    bool used[PITH_COUNT(suffixes)] = {false};
    for (unsigned s; ck->c.count < MAX_TENSORS && (s = take(in, 1)) != 0;) {
        struct pith_tensor *t = &ck->tensor[ck->c.count];
        s = (s - 1) % (unsigned)PITH_COUNT(suffixes);
        t->dtype = (enum pith_dtype)(take(in, 1) % PITH_DTYPE_COUNT);
        t->dims = take(in, 1) % 4;
        t->shape[0] = take(in, 2);
        t->shape[1] = take(in, 2);
        const bool trellis = strcmp(suffixes[s], ".trellis") == 0;
        t->shape[2] = trellis || strcmp(suffixes[s], ".tiles") == 0 ? take(in, 2) : 1;
        if (used[s] || !pith_tensor_size(t->dtype, t->dims, t->shape, &t->bytes) ||
            t->bytes > MAX_BYTES)
            continue;
        used[s] = true;
        snprintf(ck->name[ck->c.count], sizeof ck->name[0], MODULE "%s", suffixes[s]);
        t->name = ck->name[ck->c.count++];
    }
}

static void fill_tensors(struct input *in, struct checkpoint *ck)
{
    const size_t first = in->at;
    for (size_t i = 0; i < ck->c.count; i++) {
        struct pith_tensor *t = &ck->tensor[i];
        /* Exactly as many bytes as the tensor has, so that a step too far is seen. */
        ck->bytes[i] = malloc(t->bytes ? (size_t)t->bytes : 1);
        must(ck->bytes[i] != NULL);
        for (uint64_t k = 0; k < t->bytes; k++) {
            if (in->at >= in->size) in->at = first;
            ck->bytes[i][k] = in->at < in->size ? in->data[in->at++] : 0x77;
        }
        t->data = ck->bytes[i];
    }
    qsort(ck->tensor, ck->c.count, sizeof *ck->tensor, by_name);
}

/* What was read is whole, and can be written again. */
static void check_matrix(const struct pith_container *c, struct pith_qmat *q,
                         const struct pith_container_opts *opts)
{
    struct pith_error err = {0};
    must(pith_qmat_check(q, &err) == PITH_OK);
    float *row = malloc(q->cols * sizeof *row);
    must(row != NULL);
    for (uint32_t r = 0; r < q->rows; r++) pith_qmat_decode(q, r, 1, row);
    free(row);
    struct pith_packed_set set = {0};
    const enum pith_status s = c->pack(q, opts, &set, &err);
    if (s == PITH_OK) must(set.count >= 2);
    else must(err.text[0] != '\0' && set.count == 0);
    pith_packed_free(&set);
}

static void run(struct checkpoint *ck, uint32_t rows, uint32_t cols)
{
    const struct pith_container *c = NULL;
    struct pith_error err = {0};
    void *state = NULL;
    if (pith_container_detect(&ck->c, &c, &err) != PITH_OK || !c) return;
    if (c->open(&ck->c, &state, &err) != PITH_OK) {
        must(err.text[0] != '\0');
        return;
    }
    struct pith_qmat q = {0};
    bool found = false;
    struct pith_grid grid = {0};
    struct pith_container_opts opts = {.model_dtype = PITH_F16};
    const enum pith_status s = c->load(state, &ck->c, MODULE, rows, cols, &q, &found, &err);
    if (s != PITH_OK) must(err.text[0] != '\0' && q.codes == NULL);
    struct pith_error other = {0};
    if (c->describe(state, &ck->c, MODULE, &grid, &opts, &other) == PITH_OK && s == PITH_OK &&
        found)
        must(pith_grid_elements(&grid, NULL).format == q.format);
    if (s == PITH_OK && found) {
        check_matrix(c, &q, &opts);
        pith_qmat_free(&q);
    }
    c->close(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char dir[] = "fuzz";
    struct input in = {data, size, 0};
    struct pith_error err = {0};
    const uint32_t rows = 8 * (1 + take(&in, 1)), cols = 8 * (1 + take(&in, 1));
    size_t json = take(&in, 2);
    if (json > in.size - in.at) json = in.size - in.at;
    json_t *config = NULL;
    if (pith_json_parse((const char *)data + in.at, json, "config", &config, &err) != PITH_OK)
        return 0;
    in.at += json;
    struct checkpoint *ck = calloc(1, sizeof *ck);
    must(ck != NULL);
    ck->c = (struct pith_checkpoint){.dir = dir, .quantization = config, .tensors = ck->tensor};
    /* The lookup of a shape names the file when it fails. */
    struct pith_safetensors file = {.path = dir};
    ck->c.files = &file;
    ck->c.file_count = 1;
    take_tensors(&in, ck);
    fill_tensors(&in, ck);
    run(ck, rows, cols);
    for (size_t i = 0; i < MAX_TENSORS; i++) free(ck->bytes[i]);
    free(ck);
    json_decref(config);
    return 0;
}
