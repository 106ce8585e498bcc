/* Which tensor of an adapter changes which of a checkpoint. None is passed over. */
#include "io/adapter.h"

#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>

#define PREFIX "base_model.model."

/* What a tensor's last names say that it is. */
enum role { WHOLE, DOWN, UP, UP_BIAS, MAGNITUDE };
struct ending {
    const char *text;
    enum role role;
    bool embedding;     /* the matrix is [in, out] whatever the config says */
    const char *member; /* of the module, that it changes */
};
static const struct ending endings[] = {
    {".lora_A.weight", DOWN, false, ".weight"},
    {".lora_B.weight", UP, false, ".weight"},
    {".lora_B.bias", UP_BIAS, false, ".bias"},
    {".lora_embedding_A", DOWN, true, ".weight"},
    {".lora_embedding_B", UP, true, ".weight"},
    {".lora_magnitude_vector", MAGNITUDE, false, ".weight"},
    {".lora_magnitude_vector.weight", MAGNITUDE, false, ".weight"},
    /* Whole tensors of modules that PEFT wraps. */
    {".base_layer.weight", WHOLE, false, ".weight"},
    {".base_layer.bias", WHOLE, false, ".bias"},
    {".modules_to_save.weight", WHOLE, false, ".weight"},
    {".modules_to_save.bias", WHOLE, false, ".bias"},
    {".weight", WHOLE, false, ".weight"},
    {".bias", WHOLE, false, ".bias"},
};

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static const struct ending *ending_of(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(endings); i++)
        if (ends_with(name, endings[i].text)) return &endings[i];
    return NULL;
}

/* Finding what one tensor changes. */
struct search {
    struct pith_adapter *a;
    const struct pith_checkpoint *c;
    struct pith_adapter_change *of; /* [c->count]: of each tensor of the checkpoint */
    struct pith_str name;
};

static enum pith_status refuse(const struct search *s, const struct pith_tensor *t, const char *why,
                               struct pith_error *err)
{
    return pith_fail(err, PITH_FORMAT, "%s: tensor \"%.200s\" %s", s->a->file.path, t->name, why);
}

/* A checkpoint's names may lack the first name of its class's ("model.", "transformer."), or have
 * it in addition. */
static const struct pith_tensor *find(struct search *s, const char *module, const char *member)
{
    const char *dot = strchr(module, '.'), *rest = dot ? dot + 1 : module;
    const struct {
        const char *first, *module;
    } tries[] = {{"", module}, {"", rest}, {"model.", module}, {"transformer.", module}};
    for (size_t i = 0; i < PITH_COUNT(tries); i++) {
        pith_str_clear(&s->name);
        pith_str_printf(&s->name, "%s%s%s", tries[i].first, tries[i].module, member);
        if (s->name.failed) return NULL;
        const struct pith_tensor *t = pith_checkpoint_find(s->c, pith_str_text(&s->name));
        if (t) return t;
    }
    return NULL;
}

/* The module of a tensor's name, which is a copy to be freed. */
static char *module_of(const struct pith_tensor *t, const struct ending *e)
{
    struct pith_str m = {0};
    const char *name = t->name + sizeof PREFIX - 1;
    pith_str_printf(&m, "%.*s", (int)(strlen(name) - strlen(e->text)), name);
    return pith_str_take(&m);
}

static enum pith_status scale_of(const struct search *s, const struct pith_tensor *t,
                                 const char *module, double *scale, struct pith_error *err)
{
    if (t->dims != 2) return refuse(s, t, "is not a matrix", err);
    const enum pith_status st = pith_adapter_scale(&s->a->config, module, t->shape[0], scale, err);
    if (t->shape[0] > s->a->rank) s->a->rank = t->shape[0];
    return st == PITH_OK ? st : pith_fail_in(err, st, s->a->file.path);
}

/* Puts t in its slot of a change. */
static enum pith_status take(struct search *s, const struct pith_tensor *t, const struct ending *e,
                             const char *module, struct pith_error *err)
{
    const struct pith_tensor *target = find(s, module, e->member);
    if (s->name.failed) return pith_fail_nomem(err, t->name);
    if (!target)
        return refuse(s, t,
                      e->role == WHOLE || e->role == UP_BIAS
                          ? "takes the place of nothing in the model (of another model, or of a"
                            " head that shares the embedding's matrix)"
                          : "changes no matrix of the model (of another model, or of experts that"
                            " it stores otherwise)",
                      err);
    struct pith_adapter_change *c = &s->of[target - s->c->tensors];
    const struct pith_tensor **slot = e->role == DOWN      ? &c->a
                                      : e->role == UP      ? &c->b
                                      : e->role == UP_BIAS ? &c->bias
                                      : e->role == WHOLE   ? &c->whole
                                                           : &c->magnitude;
    if (*slot) return refuse(s, t, "is there under two names", err);
    *slot = t;
    if (e->role == DOWN) {
        c->exchanged = e->embedding || s->a->config.exchanged;
        return scale_of(s, t, module, &c->scale, err);
    }
    if (e->role != UP_BIAS) return PITH_OK;
    struct pith_str down = {0};
    pith_str_printf(&down, PREFIX "%s.lora_A.weight", module);
    if (down.failed) return pith_fail_nomem(err, t->name);
    const struct pith_tensor *a = pith_safetensors_find(&s->a->file, pith_str_text(&down));
    pith_str_free(&down);
    return a ? scale_of(s, a, module, &c->scale, err) : refuse(s, t, "lacks its lora_A", err);
}

static enum pith_status sort_out(struct search *s, const struct pith_tensor *t,
                                 struct pith_error *err)
{
    if (strncmp(t->name, PREFIX, sizeof PREFIX - 1) != 0)
        return refuse(s, t, "does not begin with \"" PREFIX "\", as PEFT's do", err);
    const struct ending *e = ending_of(t->name + sizeof PREFIX - 1);
    if (!e || (e->role == WHOLE && strstr(t->name, "lora_")))
        return refuse(s, t, "is of no kind that is known", err);
    float probe;
    if (!pith_dtype_decode(t->dtype, t->data, 0, &probe))
        return refuse(s, t, "is not of floats", err);
    char *module = module_of(t, e);
    if (!module) return pith_fail_nomem(err, t->name);
    const enum pith_status st = take(s, t, e, module, err);
    pith_free(module);
    return st;
}

/* --- what fits -------------------------------------------------------------------------------- */

static enum pith_status check_pair(const struct search *s, const struct pith_tensor *w,
                                   const struct pith_adapter_change *c, struct pith_error *err)
{
    const struct pith_tensor *a = c->a, *b = c->b;
    if (!a || !b) return refuse(s, a ? a : b ? b : c->magnitude, "lacks its other half", err);
    if (b->dims != 2 || b->shape[1] != a->shape[0])
        return refuse(s, b, "has not the rank of its lora_A", err);
    const unsigned in = c->exchanged ? 0 : 1;
    if (w->dims != 2 || w->shape[in] != a->shape[1] || w->shape[1 - in] != b->shape[0])
        return refuse(s, a, "is not for a matrix of the model's shape", err);
    if (!c->magnitude)
        return s->a->config.magnitudes ? refuse(s, a, "lacks its lora_magnitude_vector", err)
                                       : PITH_OK;
    if (!s->a->config.magnitudes)
        return refuse(s, c->magnitude, "is there, and \"use_dora\" is not", err);
    if (c->exchanged)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: \"%.200s\": DoRA of matrices that lie by columns is not merged here",
                         s->a->file.path, c->magnitude->name);
    return pith_tensor_elements(c->magnitude) == b->shape[0]
               ? PITH_OK
               : refuse(s, c->magnitude, "has not a number for each output", err);
}

static enum pith_status check_change(const struct search *s, const struct pith_tensor *w,
                                     const struct pith_adapter_change *c, struct pith_error *err)
{
    float none;
    if (!pith_dtype_encode(w->dtype, &none, 0, &none))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: \"%.200s\" is of type %s; adapters are merged into F32, F16 and BF16",
                         s->c->dir, w->name, pith_dtype_name(w->dtype));
    if (c->a || c->b || c->magnitude) PITH_TRY(check_pair(s, w, c, err));
    if (c->bias && pith_tensor_elements(c->bias) != pith_tensor_elements(w))
        return refuse(s, c->bias, "has not a number for each output", err);
    if (c->whole && (c->whole->dims != w->dims ||
                     memcmp(c->whole->shape, w->shape, w->dims * sizeof w->shape[0]) != 0))
        return refuse(s, c->whole,
                      "has another shape than the model's (a resized vocabulary is not merged"
                      " here)",
                      err);
    return PITH_OK;
}

static bool of_module(const char *tensor, const char *module)
{
    const size_t n = strlen(tensor), tail = sizeof ".weight" - 1, m = strlen(module);
    if (n < tail + m || strcmp(tensor + n - tail, ".weight") != 0) return false;
    const char *at = tensor + n - tail - m;
    return strncmp(at, module, m) == 0 && (at == tensor || at[-1] == '.');
}

/* A module that the config names, which the model has, was changed: else tensors are missing. */
static enum pith_status check_targets(const struct search *s, struct pith_error *err)
{
    const json_t *list = json_object_get(s->a->config.json, "target_modules"), *item;
    size_t i;
    if (!json_is_array(list) || s->a->config.layers_chosen) return PITH_OK;
    json_array_foreach (list, i, item) {
        const char *name = json_string_value(item);
        bool there = false, changed = false;
        for (size_t t = 0; name && *name && t < s->c->count && !changed; t++) {
            const bool same = of_module(s->c->tensors[t].name, name);
            there = there || same;
            changed = same && s->of[t].a;
        }
        if (there && !changed)
            return pith_fail(err, PITH_FORMAT,
                             "%s: holds nothing for \"%.100s\", which adapter_config.json names"
                             " among \"target_modules\"",
                             s->a->file.path, name);
    }
    return PITH_OK;
}

static enum pith_status find_changes(struct search *s, struct pith_error *err)
{
    struct pith_adapter *a = s->a;
    if (a->file.count == 0)
        return pith_fail(err, PITH_FORMAT, "%s: holds no tensors", a->file.path);
    for (size_t i = 0; i < a->file.count; i++) PITH_TRY(sort_out(s, &a->file.tensors[i], err));
    for (size_t i = 0; i < s->c->count; i++) {
        struct pith_adapter_change *c = &s->of[i];
        if (!c->a && !c->b && !c->magnitude && !c->bias && !c->whole) continue;
        PITH_TRY(check_change(s, &s->c->tensors[i], c, err));
        c->tensor = i;
    }
    PITH_TRY(check_targets(s, err));
    for (size_t i = 0; i < s->c->count; i++)
        if (s->of[i].a || s->of[i].bias || s->of[i].whole) s->of[a->count++] = s->of[i];
    return PITH_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static enum pith_status open_weights(struct pith_adapter *a, struct pith_error *err)
{
    char *path = pith_path_join(a->dir, "adapter_model.safetensors");
    char *old = pith_path_join(a->dir, "adapter_model.bin");
    enum pith_status s = PITH_OK;
    if (!path || !old) s = pith_fail_nomem(err, a->dir);
    else if (!pith_path_exists(path) && pith_path_exists(old))
        s = pith_fail(err, PITH_UNSUPPORTED,
                      "%s: is a Python pickle, which may run code when it is read; save the adapter"
                      " as adapter_model.safetensors",
                      old);
    else s = pith_safetensors_open(path, &a->file, err);
    pith_free(path);
    pith_free(old);
    return s;
}

static enum pith_status hash_files(struct pith_adapter *a, struct pith_error *err)
{
    struct pith_str text = {0};
    pith_json_dump(a->config.json, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17), &text);
    struct pith_sha256 *h = text.failed ? NULL : pith_sha256_new();
    pith_sha256_update(h, text.data, text.len);
    pith_sha256_update(h, a->file.map.data, a->file.map.size);
    pith_sha256_finish(h, a->sha256);
    pith_str_free(&text);
    return a->sha256[0] ? PITH_OK : pith_fail_nomem(err, a->dir);
}

enum pith_status pith_adapter_open(const char *dir, const struct pith_checkpoint *c,
                                   struct pith_adapter *out, struct pith_error *err)
{
    *out = (struct pith_adapter){0};
    if (c->gguf || c->quantization)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: is %s; adapters are merged into the folder of the model in 16 or 32"
                         " bits",
                         c->dir, c->gguf ? "a GGUF file" : "quantized already");
    struct search s = {.a = out, .c = c};
    enum pith_status st = PITH_OK;
    out->dir = pith_strdup(dir);
    s.of = pith_zalloc(c->count + 1, sizeof *s.of);
    if (!out->dir || !s.of) st = pith_fail_nomem(err, dir);
    if (st == PITH_OK) st = pith_adapter_config_read(dir, &out->config, err);
    if (st == PITH_OK) st = open_weights(out, err);
    if (st == PITH_OK) st = hash_files(out, err);
    if (st == PITH_OK) st = find_changes(&s, err);
    pith_str_free(&s.name);
    out->change = s.of;
    if (st != PITH_OK) pith_adapter_close(out);
    return st;
}

void pith_adapter_close(struct pith_adapter *a)
{
    pith_adapter_config_free(&a->config);
    if (a->file.path) pith_safetensors_close(&a->file);
    pith_free(a->change);
    pith_free(a->dir);
    *a = (struct pith_adapter){0};
}
