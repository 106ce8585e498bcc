#include "plan/subject.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/foreign.h"
#include "plan/shapes.h"

#include <string.h>

enum { CONFIG_MOST = 64 << 20 }; /* bytes of a config.json */

const char *pith_plan_class_name(enum pith_plan_class c)
{
    static const char *const names[] = {
        [PITH_PLAN_EMBED] = "embeddings",    [PITH_PLAN_HEAD] = "head",
        [PITH_PLAN_ATTENTION] = "attention", [PITH_PLAN_MLP] = "mlp",
        [PITH_PLAN_EXPERTS] = "experts",     [PITH_PLAN_ROUTER] = "routers",
        [PITH_PLAN_VECTOR] = "norms"};
    return names[c];
}

enum pith_status pith_plan_subject_read(const json_t *config, const char *where,
                                        struct pith_plan_subject *out, struct pith_error *err)
{
    struct pith_model *m = pith_zalloc(1, sizeof *m);
    *out = (struct pith_plan_subject){.model = m};
    if (!m) return pith_fail_nomem(err, "a model");
    enum pith_status s = pith_shape_read(config, where, &m->arch, &m->shape, err);
    if (s == PITH_OK && !pith_shape_has_dtype(config)) m->shape.dtype = PITH_BF16;
    if (s == PITH_OK) s = pith_plans_make(m->arch, &m->shape, &m->plans, err);
    if (s != PITH_OK) pith_plan_subject_free(out);
    return s;
}

static enum pith_status read_file(const char *path, struct pith_plan_subject *out,
                                  struct pith_error *err)
{
    json_t *config;
    PITH_TRY(pith_json_load(path, CONFIG_MOST, &config, err));
    const enum pith_status s = pith_plan_subject_read(config, path, out, err);
    json_decref(config);
    return s;
}

/* Whether a folder has weights: a config alone is no broken checkpoint here. */
static enum pith_status has_weights(const char *path, bool *out, struct pith_error *err)
{
    char **names;
    size_t count;
    *out = false;
    PITH_TRY(pith_dir_list(path, &names, &count, err));
    for (size_t i = 0; i < count; i++)
        *out |= pith_ends_in(names[i], ".safetensors") || pith_ends_in(names[i], ".gguf") ||
                pith_ends_in(names[i], ".safetensors.index.json");
    pith_names_free(names, count);
    return PITH_OK;
}

/* From a folder with a checkpoint, a .gguf file, a folder with config.json alone, or such a file
 * (*.json). */
static enum pith_status plan_subject_open(const char *path, struct pith_plan_subject *out,
                                          struct pith_error *err)
{
    struct pith_str config = {0};
    bool weights = true;
    *out = (struct pith_plan_subject){0};
    if (pith_ends_in(path, ".json")) return read_file(path, out, err);
    if (!pith_ends_in(path, ".gguf")) PITH_TRY(has_weights(path, &weights, err));
    if (!weights) {
        PITH_TRY(pith_foreign_check(path, err));
        pith_str_printf(&config, "%s/config.json", path);
        const enum pith_status s = config.failed ? pith_fail_nomem(err, path)
                                                 : read_file(config.data, out, err);
        pith_str_free(&config);
        return s;
    }
    PITH_TRY(pith_model_open(path, &out->model, err));
    out->opened = true;
    out->stored = out->model->checkpoint->bytes;
    return PITH_OK;
}

enum pith_status pith_plan_subject_find(const char *name, struct pith_plan_subject *out,
                                        struct pith_error *err)
{
    json_t *shapes;
    if (pith_path_exists(name)) return plan_subject_open(name, out, err);
    PITH_TRY(pith_shapes_read(&shapes, err));
    char names[PITH_SHAPE_NAMES];
    const json_t *s = pith_shapes_match(shapes, name, names);
    const enum pith_status status =
        s ? pith_plan_subject_read(json_object_get(s, "config"), name, out, err)
          : pith_fail(err, PITH_ARG,
                      "%.200s: no such folder or file, and no well-known model of that name%s%s; "
                      "pith plan --shapes lists those",
                      name, *names ? "; there are " : "", names);
    if (status == PITH_OK)
        (void)snprintf(out->shape_name, sizeof out->shape_name, "%s",
                       json_string_value(json_object_get(s, "name")));
    json_decref(shapes);
    return status;
}

void pith_plan_subject_free(struct pith_plan_subject *p)
{
    if (p->opened) pith_model_close(p->model);
    else if (p->model) {
        pith_plans_free(&p->model->plans);
        pith_free(p->model);
    }
    *p = (struct pith_plan_subject){0};
}

/* --- the walk --------------------------------------------------------------------------------- */

struct walker {
    pith_matrix_fn *fn;
    void *ctx;
};

static void give(const struct walker *w, struct pith_matrix m)
{
    if (m.rows && m.cols && m.count) w->fn(w->ctx, &m);
}

/* So many numbers that stay as they are. */
static void give_plain(const struct walker *w, enum pith_plan_class class, uint32_t layer,
                       uint64_t numbers)
{
    if (numbers == 0) return;
    w->fn(w->ctx, &(struct pith_matrix){.class = class,
                                        .layer = layer,
                                        .linear = PITH_NO_PART,
                                        .rows = 1,
                                        .cols = 1,
                                        .count = numbers});
}

/* What mixes positions comes first in every layer, up to the linear that reads what attention gives
 * or, in a layer that keeps a state, the first that gives to the stream. */
static uint32_t mixing_sites(const struct pith_layer_plan *l)
{
    if (pith_plan_attend(l)) return pith_plan_after_attend(l) + 1;
    for (uint32_t i = 0; l->state.kind == PITH_STATE_RECURRENT && i < l->linears; i++)
        if (l->linear[i].to_stream) return l->linear[i].site + 1;
    return 0;
}

static enum pith_plan_class class_of(const struct pith_linear_spec *l, uint32_t mixing)
{
    if (l->expert != PITH_NO_PART) return PITH_PLAN_EXPERTS;
    if (l->stays) return PITH_PLAN_ROUTER;
    return l->heads > 0 || l->site < mixing ? PITH_PLAN_ATTENTION : PITH_PLAN_MLP;
}

/* Experts are alike: the first stands for all. */
static void walk_layer(const struct walker *w, const struct pith_plan_subject *p, uint32_t layer)
{
    const struct pith_layer_plan *l = pith_plan(&p->model->plans, layer);
    const uint32_t mixing = mixing_sites(l);
    uint64_t plain = 0;
    for (uint32_t i = 0; i < l->linears; i++) {
        const struct pith_linear_spec *spec = &l->linear[i];
        const bool expert = spec->expert != PITH_NO_PART;
        if (expert && spec->expert != 0) continue;
        const struct pith_matrix m = {.class = class_of(spec, mixing),
                                      .layer = layer,
                                      .linear = i,
                                      .rows = spec->rows,
                                      .cols = spec->cols,
                                      .count = expert ? p->model->plans.experts : 1,
                                      .spec = spec};
        if (spec->bias) plain += m.count * spec->rows;
        give(w, m);
    }
    for (uint32_t i = 0; i < l->vectors; i++) plain += pith_vector_count(&l->vector[i]);
    give_plain(w, PITH_PLAN_VECTOR, layer, plain);
}

static void walk_ends(const struct walker *w, const struct pith_plan_subject *p)
{
    const struct pith_shape *shape = &p->model->shape;
    const uint32_t width = pith_shape_embed(shape);
    struct pith_matrix m = {.class = PITH_PLAN_EMBED,
                            .layer = PITH_NO_PART,
                            .linear = PITH_NO_PART,
                            .rows = shape->vocab,
                            .cols = width,
                            .count = 1,
                            .reads_out = shape->ends.tied};
    uint64_t vectors = 0;
    give(w, m);
    m.class = PITH_PLAN_HEAD;
    m.reads_out = true;
    if (!shape->ends.tied) give(w, m);
    give_plain(w, PITH_PLAN_EMBED, PITH_NO_PART, (uint64_t)shape->place.learned * shape->hidden);
    if (shape->ends.width)
        give_plain(w, PITH_PLAN_EMBED, PITH_NO_PART,
                   2 * (uint64_t)shape->ends.width * shape->hidden);
    if (shape->tokens.width) {
        const uint64_t each = (uint64_t)shape->layers * shape->tokens.width;
        give_plain(w, PITH_PLAN_EMBED, PITH_NO_PART,
                   each * shape->tokens.vocab + each * shape->hidden);
        vectors += shape->tokens.width;
    }
    if (pith_shape_has_last_gain(shape)) {
        vectors += shape->hidden;
        if (p->model->arch->norm.bias) vectors += shape->hidden;
    }
    if (shape->ends.head_bias) vectors += shape->vocab;
    give_plain(w, PITH_PLAN_VECTOR, PITH_NO_PART, vectors);
}

void pith_plan_subject_walk(const struct pith_plan_subject *p, pith_matrix_fn *fn, void *ctx)
{
    const struct walker w = {fn, ctx};
    for (uint32_t i = 0; i < p->model->shape.layers; i++) walk_layer(&w, p, i);
    walk_ends(&w, p);
}

/* --- counting --------------------------------------------------------------------------------- */

struct counter {
    struct pith_census *out;
    double taken; /* of experts, the share that a token takes */
};

static void count(void *ctx, const struct pith_matrix *m)
{
    struct counter *c = ctx;
    const uint64_t numbers = (uint64_t)m->rows * m->cols * m->count;
    c->out->class[m->class] += numbers;
    c->out->all += numbers;
    if (m->class == PITH_PLAN_EXPERTS) c->out->active += (double)numbers * c->taken;
    else if (m->class != PITH_PLAN_EMBED || m->reads_out) c->out->active += (double)numbers;
}

void pith_plan_subject_count(const struct pith_plan_subject *p, struct pith_census *out)
{
    struct counter c = {out, 0};
    if (p->model->plans.experts) c.taken = (double)p->model->plans.taken / p->model->plans.experts;
    *out = (struct pith_census){0};
    pith_plan_subject_walk(p, count, &c);
}
