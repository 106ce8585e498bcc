/* What a checkpoint must hold and may hold. What is missing is refused; what is not read is
 * ignored, as in transformers, and named (model/remarks.h). */
#include "base/mem.h"
#include "base/str.h"
#include "model/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    struct pith_model *m;
    const struct pith_checkpoint *c;
    bool *known; /* [c->count] */
};

/* Marks a tensor that must be there in that shape. */
static enum pith_status need(struct check *k, const char *name, unsigned dims,
                             const uint64_t *shape, struct pith_error *err)
{
    const struct pith_tensor *t;
    PITH_TRY(pith_checkpoint_get(k->c, name, dims, shape, &t, err));
    k->known[t - k->c->tensors] = true;
    return PITH_OK;
}

/* Some quantizers store a bias of zeros for every linear, which does nothing. */
static bool is_zero(const struct pith_tensor *t)
{
    const uint8_t *p = t->data;
    for (uint64_t i = 0; i < t->bytes; i++)
        if (p[i] != 0) return false;
    return true;
}

/* A linear of a quantized checkpoint: marks whatever its container stores under the module's name.
 * Returns whether that is more than a bias. What the container needs is checked when the linear is
 * loaded. */
static bool mark_module(struct check *k, const char *module, bool bias)
{
    char prefix[PITH_TENSOR_NAME];
    (void)snprintf(prefix, sizeof prefix, "%s.", module);
    size_t count;
    const size_t length = strlen(prefix), first = pith_checkpoint_range(k->c, prefix, &count);
    bool found = false;
    for (size_t i = first; i < first + count; i++) {
        const struct pith_tensor *t = &k->c->tensors[i];
        if (strncmp(t->name + length, "lora_", 5) == 0) continue;
        const bool of_bias = strcmp(t->name + length, "bias") == 0;
        found |= !of_bias;
        k->known[i] = !of_bias || bias || is_zero(t);
    }
    return found;
}

/* The up-projection of latent attention as mlx-lm 0.32 takes it apart (models/deepseek_v3.py,
 * sanitize): its rows of keys, exchanged head by head, and those of values. */
static enum pith_status check_apart(const struct check *k, const char *module,
                                    struct pith_error *err)
{
    static const char linear[] = "kv_b_proj";
    char part[PITH_TENSOR_NAME];
    if (!pith_ends_in(module, linear)) return PITH_OK;
    (void)snprintf(part, sizeof part, "%.*sembed_q.weight", (int)(strlen(module) - strlen(linear)),
                   module);
    if (!pith_checkpoint_find(k->c, part)) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: \"%s\" is in two parts, embed_q and unembed_out, as mlx-lm stores latent "
                     "attention, which this version cannot read; start from the model before that",
                     k->c->dir, module);
}

static enum pith_status check_linear(struct check *k, const char *module, uint32_t rows,
                                     uint32_t cols, bool bias, struct pith_error *err)
{
    char name[PITH_TENSOR_NAME + 8];
    if (bias) {
        (void)snprintf(name, sizeof name, "%s.bias", module);
        PITH_TRY(need(k, name, 1, (const uint64_t[]){rows}, err));
    }
    if (k->m->container && mark_module(k, module, bias)) return PITH_OK;
    (void)snprintf(name, sizeof name, "%s.weight", module);
    if (!pith_checkpoint_find(k->c, name)) PITH_TRY(check_apart(k, module, err));
    return need(k, name, 2, (const uint64_t[]){rows, cols}, err);
}

static enum pith_status check_layer(struct check *k, uint32_t layer, struct pith_error *err)
{
    char name[PITH_TENSOR_NAME];
    const struct pith_plans *plans = &k->m->plans;
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    for (uint32_t i = 0; i < l->linears; i++) {
        const struct pith_linear_spec *spec = &l->linear[i];
        pith_plan_linear_name(plans, layer, i, name, sizeof name);
        PITH_TRY(check_linear(k, name, spec->rows, spec->cols, spec->bias, err));
    }
    for (uint32_t i = 0; i < l->vectors; i++) {
        pith_plan_name(plans, layer, l->vector[i].name, name, sizeof name);
        uint64_t stored[3];
        const unsigned dims = pith_vector_stored(&l->vector[i], stored);
        PITH_TRY(need(k, name, dims, stored, err));
    }
    return PITH_OK;
}

static const struct pith_tensor *end_weight(const struct check *k, const char *module)
{
    char name[PITH_TENSOR_NAME];
    (void)snprintf(name, sizeof name, "%s.weight", module);
    return pith_checkpoint_find(k->c, name);
}

/* A stored head with "tie_word_embeddings": equal bytes are the tied head, others a separate head
 * (transformers 5 decides so; engines that drop it would compute another model). */
static enum pith_status check_head(struct check *k, struct pith_error *err)
{
    struct pith_shape *s = &k->m->shape;
    const struct pith_arch_names *names = &k->m->arch->names;
    if (s->ends.tied && s->ends.head_bias) {
        char name[PITH_TENSOR_NAME];
        (void)snprintf(name, sizeof name, "%s.bias", names->head);
        PITH_TRY(need(k, name, 1, (const uint64_t[]){s->vocab}, err));
    }
    if (s->ends.tied) {
        const struct pith_tensor *head = end_weight(k, names->head);
        const struct pith_tensor *embed = end_weight(k, names->embed);
        if (!head) return PITH_OK;
        if (embed) PITH_TRY(pith_tensor_need(embed, err));
        PITH_TRY(pith_tensor_need(head, err));
        if (embed && head->dtype == embed->dtype && head->bytes == embed->bytes &&
            memcmp(head->data, embed->data, head->bytes) == 0) {
            k->known[head - k->c->tensors] = true;
            return PITH_OK;
        }
        s->ends.tied = false;
    }
    return check_linear(k, names->head, s->vocab, pith_shape_embed(s), s->ends.head_bias, err);
}

bool pith_is_kv_scale(const char *tensor)
{
    static const char *const ends[] = {".self_attn.q_scale",        ".self_attn.k_scale",
                                       ".self_attn.v_scale",        ".self_attn.kv_scale",
                                       ".self_attn.k_proj.k_scale", ".self_attn.v_proj.v_scale"};
    for (size_t i = 0; i < PITH_COUNT(ends); i++)
        if (pith_ends_in(tensor, ends[i])) return true;
    return false;
}

/* Tensors that no forward pass needs: buffers are computed, what is not part of the language model
 * is not run, and a cache in float32 needs no scales. */
static bool may_ignore(const struct check *k, const char *name)
{
    if (pith_plan_buffer(&k->m->plans, name)) return true;
    if (pith_plan_is_other(&k->m->plans, name) || pith_plan_unread(&k->m->plans, name)) return true;
    return k->m->container && pith_is_kv_scale(name);
}

static enum pith_status check_positions(struct check *k, struct pith_error *err)
{
    const struct pith_shape *s = &k->m->shape;
    char name[PITH_TENSOR_NAME];
    if (s->place.learned == 0) return PITH_OK;
    (void)snprintf(name, sizeof name, "%s.weight", k->m->arch->names.positions);
    return need(k, name, 2, (const uint64_t[]){s->place.learned, s->hidden}, err);
}

static enum pith_status check_projections(struct check *k, struct pith_error *err)
{
    const struct pith_shape *s = &k->m->shape;
    const struct pith_arch_names *names = &k->m->arch->names;
    if (s->ends.width == 0) return PITH_OK;
    PITH_TRY(check_linear(k, names->project_in, s->hidden, s->ends.width, false, err));
    return check_linear(k, names->project_out, s->ends.width, s->hidden, false, err);
}

static enum pith_status check_per_layer(struct check *k, struct pith_error *err)
{
    const struct pith_shape *s = &k->m->shape;
    const struct pith_arch_names *names = &k->m->arch->names;
    char norm[PITH_TENSOR_NAME];
    if (s->tokens.width == 0) return PITH_OK;
    (void)snprintf(norm, sizeof norm, "%s.weight", names->per_layer_norm);
    PITH_TRY(need(k, norm, 1, (const uint64_t[]){s->tokens.width}, err));
    PITH_TRY(check_linear(k, names->per_layer_embed, s->tokens.vocab, s->layers * s->tokens.width,
                          false, err));
    return check_linear(k, names->per_layer_project, s->layers * s->tokens.width, s->hidden, false,
                        err);
}

/* A tensor of no known part. What an adapter adds is meant to be read. */
static enum pith_status check_unknown(struct check *k, const char *name, struct pith_error *err)
{
    struct pith_model *m = k->m;
    if (strstr(name, "lora_"))
        return pith_fail(err, PITH_FORMAT,
                         "%s: tensor \"%.100s\" is not part of a %s, but of an adapter that is not "
                         "merged",
                         k->c->dir, name, m->arch->name);
    if (!m->stray) m->stray = pith_alloc(k->c->count, sizeof *m->stray);
    if (!m->stray) return pith_fail_nomem(err, name);
    m->stray[m->strays++] = name;
    return PITH_OK;
}

static int compare_names(const void *key, const void *stray)
{
    return strcmp(key, *(const char *const *)stray);
}

bool pith_model_is_stray(const struct pith_model *m, const char *tensor)
{
    return m->strays && bsearch(tensor, m->stray, m->strays, sizeof *m->stray, compare_names);
}

static enum pith_status check_all(struct check *k, struct pith_error *err)
{
    const struct pith_shape *s = &k->m->shape;
    const struct pith_arch_names *names = &k->m->arch->names;
    char norm[PITH_TENSOR_NAME];
    (void)snprintf(norm, sizeof norm, "%s.weight", names->norm);
    PITH_TRY(check_linear(k, names->embed, s->vocab, pith_shape_embed(s), false, err));
    PITH_TRY(check_projections(k, err));
    PITH_TRY(check_per_layer(k, err));
    PITH_TRY(check_positions(k, err));
    for (uint32_t i = 0; i < s->layers; i++) PITH_TRY(check_layer(k, i, err));
    if (pith_shape_has_last_gain(s)) PITH_TRY(need(k, norm, 1, (const uint64_t[]){s->hidden}, err));
    if (pith_shape_has_last_gain(s) && k->m->arch->norm.bias) {
        (void)snprintf(norm, sizeof norm, "%s.bias", names->norm);
        PITH_TRY(need(k, norm, 1, (const uint64_t[]){s->hidden}, err));
    }
    PITH_TRY(check_head(k, err));
    for (size_t i = 0; i < k->c->count; i++)
        if (!k->known[i] && !may_ignore(k, k->c->tensors[i].name))
            PITH_TRY(check_unknown(k, k->c->tensors[i].name, err));
    return PITH_OK;
}

enum pith_status pith_model_check_tensors(struct pith_model *m, struct pith_error *err)
{
    struct check k = {.m = m, .c = m->checkpoint};
    k.known = pith_zalloc(k.c->count, sizeof *k.known);
    if (!k.known) return pith_fail_nomem(err, "the list of tensors");
    const enum pith_status s = check_all(&k, err);
    pith_free(k.known);
    return s;
}
