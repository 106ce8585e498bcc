/* io/: whichever of pith's requests for memory fails, containers say so and leak nothing. */
#include "ramp.h"
#include "requests.h"

#define MODULE "model.layers.0.mlp.up_proj"

struct job {
    const struct pith_container *container;
    struct ramp ramp;
    struct pith_container_opts opts;
    struct pith_qmat q;
};

/* Packs a matrix, makes its config and reads both back, from memory. */
static enum pith_status round_trip(void *ctx, struct pith_error *err)
{
    const struct job *j = ctx;
    const struct pith_qmat *q = &j->q;
    const struct pith_container *c = j->container;
    const struct pith_linear_grid linears[] = {{MODULE, ramp_grid(&j->ramp), 0},
                                               {"model.layers.1.mlp.gate_proj", {0}, 0}};
    struct pith_packed_set set = {0};
    struct pith_tensor tensors[PITH_MAX_PACKED];
    static char names[PITH_MAX_PACKED][64];
    json_t *config = NULL;
    void *state = NULL;
    struct pith_qmat again = {0};
    bool found = false;
    enum pith_status s = pith_container_pack(c, q, &j->opts, &set, err);
    if (s == PITH_OK) s = c->config(linears, 2, &j->opts, &config, err);
    for (unsigned i = 0; i < set.count; i++) {
        const struct pith_packed *p = &set.item[i];
        snprintf(names[i], sizeof names[i], MODULE "%s", p->suffix);
        tensors[i] = (struct pith_tensor){.name = names[i],
                                          .dtype = p->dtype,
                                          .dims = p->dims,
                                          .bytes = p->bytes,
                                          .data = p->data};
        memcpy(tensors[i].shape, p->shape, sizeof p->shape);
    }
    /* Sorted by name, as in a file. */
    for (unsigned i = 1; i < set.count; i++)
        for (unsigned k = i; k > 0 && strcmp(tensors[k].name, tensors[k - 1].name) < 0; k--) {
            const struct pith_tensor t = tensors[k];
            tensors[k] = tensors[k - 1];
            tensors[k - 1] = t;
        }
    static char dir[] = "memory";
    struct pith_safetensors file = {.path = dir};
    const struct pith_checkpoint ck = {.dir = dir,
                                       .quantization = config,
                                       .files = &file,
                                       .file_count = 1,
                                       .tensors = tensors,
                                       .count = set.count};
    if (s == PITH_OK) s = c->open(&ck, &state, err);
    if (s == PITH_OK) {
        s = c->load(state, &ck, MODULE, q->rows, q->cols, &again, &found, err);
        c->close(state);
    }
    if (s == PITH_OK) assert_true(found && pith_qmat_equal(q, &again));
    pith_qmat_free(&again);
    json_decref(config);
    pith_packed_free(&set);
    return s;
}

/* The same zero points as offsets. */
static void make_offsets(struct pith_qmat *q)
{
    q->offsets = pith_alloc(pith_qmat_scale_count(q), sizeof *q->offsets);
    for (size_t i = 0; i < pith_qmat_scale_count(q); i++)
        q->offsets[i] = -((float)q->zeros[i] * q->scales[i]);
    pith_free(q->zeros);
    q->zeros = NULL;
}

static void exhaust(const struct pith_container *container, struct ramp ramp,
                    struct pith_container_opts opts)
{
    struct job j = {.container = container, .ramp = ramp, .opts = opts};
    ramp_make(&ramp, &j.q);
    j.q.input.grid = opts.acts;
    if (strcmp(container->name, "hqq") == 0) make_offsets(&j.q);
    const long n = fail_each_request(round_trip, &j, false);
    print_message("%s: %ld requests\n", container->name, n);
    pith_qmat_free(&j.q);
}

static void memory_runs_out(void **state)
{
    (void)state;
    need_requests();
    const struct pith_container_opts plain = {.model_dtype = PITH_F16};
    struct pith_container_opts order = plain, acts = plain;
    order.act_order_groups = order.gptq_v2 = true;
    acts.acts =
        (struct pith_grid){.format = pith_format_find("int8"), .granularity = PITH_PER_TOKEN};
    struct ramp p = {
        .bits = 4, .rows = 64, .cols = 96, .group = 32, .asym = true, .dtype = PITH_F16};
    const struct pith_container *ct = pith_container_find("compressed-tensors");
    exhaust(pith_container_find("awq"), p, plain);
    exhaust(pith_container_find("hqq"), p, plain);
    exhaust(ct, p, acts);
    p.permuted = true;
    exhaust(pith_container_find("gptq"), p, order);
    exhaust(ct, p, order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_runs_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
