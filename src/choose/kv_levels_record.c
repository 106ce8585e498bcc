#include "choose/kv_levels_record.h"

#include "base/file.h"
#include "base/mem.h"
#include "choose/kv_levels.h"

#include <math.h>
#include <string.h>

enum { FILE_LIMIT = 64 << 20, BITS = PITH_KV_LEVELS_BITS };

static json_t *list_of(const float *x, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) pith_json_add(&list, json_real((double)x[i]));
    return list;
}

static json_t *side_of(float level[BITS][16])
{
    return json_pack("{s:o, s:o, s:o}", "2", list_of(level[0], 4), "3", list_of(level[1], 8), "4",
                     list_of(level[2], 16));
}

static json_t *layer_of(struct pith_kv_layer_levels *l)
{
    const size_t n = (size_t)l->heads * l->key;
    if (!l->key) return json_null();
    return json_pack("{s:o, s:o, s:f, s:o, s:o}", "middle", list_of(l->middle, n), "range",
                     list_of(l->range, n), "beyond", (double)l->beyond, "k", side_of(l->level[0]),
                     "v", side_of(l->level[1]));
}

static bool take_list(const json_t *list, size_t n, float *x)
{
    if (!json_is_array(list) || json_array_size(list) != n) return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        x[i] = (float)json_number_value(item);
        if (!json_is_number(item) || !isfinite(x[i])) return false;
    }
    return true;
}

static bool take_side(const json_t *side, float level[BITS][16])
{
    static const char *const bits[BITS] = {"2", "3", "4"};
    for (unsigned b = 0; b < BITS; b++) {
        if (!take_list(json_object_get(side, bits[b]), 4u << b, level[b])) return false;
        for (unsigned i = 0; i < 4u << b; i++)
            if (fabsf(level[b][i]) > 2 || (i && level[b][i] < level[b][i - 1])) return false;
    }
    return true;
}

static bool take_layer(const json_t *from, struct pith_kv_layer_levels *l)
{
    const size_t n = (size_t)l->heads * l->key;
    if (!l->key) return json_is_null(from);
    if (!take_list(json_object_get(from, "middle"), n, l->middle) ||
        !take_list(json_object_get(from, "range"), n, l->range))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!(l->range[i] > 0)) return false;
    l->beyond = (float)json_number_value(json_object_get(from, "beyond"));
    return l->beyond > 0 && isfinite(l->beyond) &&
           take_side(json_object_get(from, "k"), l->level[0]) &&
           take_side(json_object_get(from, "v"), l->level[1]);
}

json_t *pith_kv_levels_json(const struct pith_kv_levels *levels)
{
    json_t *layers = json_array();
    for (uint32_t i = 0; i < levels->layers; i++)
        pith_json_add(&layers, layer_of(&levels->layer[i]));
    return layers;
}

bool pith_kv_levels_take(const json_t *layers, struct pith_kv_levels *out)
{
    bool whole = json_array_size(layers) == out->layers;
    for (uint32_t i = 0; whole && i < out->layers; i++)
        whole = take_layer(json_array_get(layers, i), &out->layer[i]);
    return whole;
}

/* Behind the model's name. */
static const char record[] = "kvquant.json";

char *pith_kv_levels_path(const struct pith_model *m)
{
    return pith_checkpoint_sibling(m->checkpoint, record);
}

bool pith_kv_levels_are_there(const struct pith_model *m)
{
    return pith_checkpoint_has_sibling(m->checkpoint, record);
}

enum pith_status pith_kv_levels_read(const struct pith_model *m, const char *path,
                                     const char *identity, struct pith_kv_levels **out,
                                     struct pith_error *err)
{
    json_t *file;
    const char *of = NULL;
    *out = NULL;
    if (!pith_path_exists(path)) return PITH_OK;
    PITH_TRY(pith_json_load(path, FILE_LIMIT, &file, err));
    enum pith_status s = pith_json_get_str(file, "checkpoint", &of, path, err);
    if (s == PITH_OK && of && strcmp(of, identity) == 0) {
        s = pith_kv_levels_new(&m->plans, out, err);
        if (s == PITH_OK && !pith_kv_levels_take(json_object_get(file, "layers"), *out))
            s = pith_fail(err, PITH_FORMAT, "%s: no levels of this model's layers", path);
    }
    json_decref(file);
    if (s == PITH_OK) return PITH_OK;
    pith_kv_levels_free(*out);
    *out = NULL;
    return s;
}

enum pith_status pith_kv_levels_write(const struct pith_kv_levels *levels, const char *path,
                                      const struct pith_kv_levels_source *of,
                                      struct pith_error *err)
{
    const struct pith_calib_set *set = of->set;
    json_t *file = json_pack("{s:i, s:s, s:s, s:I, s:I, s:f, s:b, s:o}", "kvquant", 1, "checkpoint",
                             of->identity, "text_sha256", set->sha256, "tokens",
                             (json_int_t)(set->windows * set->length), "context",
                             (json_int_t)set->length, "share", of->share, "fisher", levels->weighed,
                             "layers", pith_kv_levels_json(levels));
    const enum pith_status s = file ? pith_json_save(path, file, err) : pith_fail_nomem(err, path);
    json_decref(file);
    return s;
}
