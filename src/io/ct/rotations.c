#include "io/ct/rotations.h"

#include "base/mem.h"
#include "base/str.h"
#include "io/ct/args.h"

#include <stdio.h>
#include <string.h>

/* A group for each width of blocks. */
#define NAMES(n)                                                                                   \
    {                                                                                              \
        n, "hadamard_" #n, ".hadamard_" #n "_input.weight"                                         \
    }
static const struct {
    uint32_t block;
    const char *group, *suffix;
} names[] = {NAMES(2),    NAMES(4),    NAMES(8),    NAMES(16),    NAMES(32),
             NAMES(64),   NAMES(128),  NAMES(256),  NAMES(512),   NAMES(1024),
             NAMES(2048), NAMES(4096), NAMES(8192), NAMES(16384), NAMES(32768)};

enum { MAX_GROUPS = 64, MAX_APPLIES = 64, MAX_BLOCK = 1 << 15 };

/* --- reading ---------------------------------------------------------------------------------- */

static bool is(const char *text, const char *what)
{
    return text && strcmp(text, what) == 0;
}

static enum pith_status check_scheme(const json_t *o, const char *where, struct pith_error *err)
{
    const char *type = NULL;
    bool randomize = false;
    PITH_TRY(pith_json_get_str(o, "type", &type, where, err));
    PITH_TRY(pith_json_get_bool(o, "randomize", &randomize, where, err));
    if (!is(type, "hadamard") || randomize)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: online rotations of type \"%.40s\"%s are not read by this version",
                         where, type ? type : "", randomize ? ", randomized," : "");
    return PITH_OK;
}

/* One entry of "apply"; *count grows when it is done at run time. Sylvester's matrix is its own
 * inverse, so "inverse" says nothing. */
static enum pith_status read_apply(const json_t *scheme, const json_t *apply, const char *where,
                                   struct pith_ct_rotations *out, struct pith_error *err)
{
    static const char *const known[] = {"targets", "location", "inverse", "ignore"};
    const char *location = NULL;
    int64_t block = 0;
    if (!json_is_object(apply)) return pith_fail(err, PITH_FORMAT, "%s: not an object", where);
    PITH_TRY(pith_ct_check_keys(apply, known, PITH_COUNT(known), where, err));
    PITH_TRY(pith_json_get_str(apply, "location", &location, where, err));
    if (is(location, "weight_input") || is(location, "weight_output")) return PITH_OK;
    if (!is(location, "input"))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: rotations at \"%.40s\" are not read by this version", where,
                         location ? location : "");
    PITH_TRY(check_scheme(scheme, where, err));
    PITH_TRY(pith_json_get_int(scheme, "head_dim", 1, MAX_BLOCK, &block, where, err));
    struct pith_ct_rotation *t = &out->item[out->count++];
    t->block = (uint32_t)block;
    PITH_TRY(pith_patterns_new(json_object_get(apply, "targets"), where, &t->targets, err));
    return pith_patterns_new(json_object_get(apply, "ignore"), where, &t->ignore, err);
}

static enum pith_status read_scheme(const char *name, const json_t *o,
                                    struct pith_ct_rotations *out, struct pith_error *err)
{
    static const char *const known[] = {"type",          "apply",    "randomize",
                                        "requires_grad", "head_dim", "precision"};
    const char *type = NULL;
    char where[120];
    (void)snprintf(where, sizeof where, "transform_config \"%.60s\"", name);
    if (!json_is_object(o)) return pith_fail(err, PITH_FORMAT, "%s: not an object", where);
    PITH_TRY(pith_ct_check_keys(o, known, PITH_COUNT(known), where, err));
    PITH_TRY(pith_json_get_str(o, "type", &type, where, err));
    if (!is(type, "hadamard") && !is(type, "random-hadamard") && !is(type, "random-matrix"))
        return pith_fail(err, PITH_UNSUPPORTED, "%s: type \"%.40s\" is not read by this version",
                         where, type ? type : "");
    const json_t *list = json_object_get(o, "apply");
    if (list && !json_is_array(list))
        return pith_fail(err, PITH_FORMAT, "%s: \"apply\" is not a list", where);
    if (json_array_size(list) > MAX_APPLIES)
        return pith_fail(err, PITH_FORMAT, "%s: more than %d places", where, MAX_APPLIES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const size_t before = out->count;
        PITH_TRY(read_apply(o, json_array_get(list, i), where, out, err));
        if (out->count > before) out->item[before].group = name;
    }
    return PITH_OK;
}

static size_t count_applies(const json_t *groups)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach ((json_t *)(uintptr_t)groups, key, value)
        n += json_array_size(json_object_get(value, "apply"));
    return n;
}

static enum pith_status read_groups(const json_t *groups, struct pith_ct_rotations *out,
                                    struct pith_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(groups) || json_object_size(groups) > MAX_GROUPS)
        return pith_fail(err, PITH_FORMAT,
                         "transform_config: \"config_groups\" is no object of up to %d groups",
                         MAX_GROUPS);
    out->item = pith_zalloc(count_applies(groups), sizeof *out->item);
    if (!out->item) return pith_fail_nomem(err, "transform_config");
    json_object_foreach ((json_t *)(uintptr_t)groups, key, value)
        PITH_TRY(read_scheme(key, value, out, err));
    return PITH_OK;
}

enum pith_status pith_ct_rotations_read(const json_t *config, const char *where,
                                        struct pith_ct_rotations *out, struct pith_error *err)
{
    *out = (struct pith_ct_rotations){0};
    if (!config || json_is_null(config)) return PITH_OK;
    if (!json_is_object(config))
        return pith_fail(err, PITH_FORMAT, "%s: \"transform_config\" is not an object", where);
    const json_t *groups = json_object_get(config, "config_groups");
    if (!groups) return PITH_OK;
    const enum pith_status s = read_groups(groups, out, err);
    if (s == PITH_OK) return PITH_OK;
    pith_ct_rotations_free(out);
    return pith_fail_in(err, s, where);
}

void pith_ct_rotations_free(struct pith_ct_rotations *rotations)
{
    for (size_t i = 0; i < rotations->count; i++) {
        pith_patterns_free(&rotations->item[i].targets);
        pith_patterns_free(&rotations->item[i].ignore);
    }
    pith_free(rotations->item);
    *rotations = (struct pith_ct_rotations){0};
}

static float entry(uint32_t i, uint32_t j)
{
    uint32_t bits = i & j;
    for (unsigned shift = 16; shift; shift /= 2) bits ^= bits >> shift;
    return bits & 1 ? -1.0f : 1.0f;
}

static enum pith_status check_matrix(const struct pith_checkpoint *c, const char *module,
                                     const struct pith_ct_rotation *t, uint32_t block,
                                     struct pith_error *err)
{
    struct pith_str suffix = {0};
    pith_str_printf(&suffix, ".%s_input.weight", t->group);
    if (suffix.failed) return pith_fail_nomem(err, module);
    const struct pith_tensor *m = pith_part_find(c, module, suffix.data);
    const struct pith_part want = {suffix.data, PITH_PART_FLOATS, 2, {block, block}};
    enum pith_status s = m ? pith_part_get(c, module, &want, &m, err) : PITH_OK;
    float *row = m && s == PITH_OK ? pith_alloc(block, sizeof *row) : NULL;
    if (m && s == PITH_OK && !row) s = pith_fail_nomem(err, module);
    for (uint32_t i = 0; row && i < block && s == PITH_OK; i++) {
        const size_t bytes = (size_t)block * pith_dtype_bits(m->dtype) / 8;
        (void)pith_dtype_decode(m->dtype, m->data + i * bytes, block, row);
        for (uint32_t j = 0; j < block && s == PITH_OK; j++)
            if (row[j] != entry(i, j))
                s = pith_fail(err, PITH_UNSUPPORTED,
                              "%s%s: is not Sylvester's matrix, the only one that is read", module,
                              suffix.data);
    }
    pith_free(row);
    pith_str_free(&suffix);
    return s;
}

static enum pith_status claims(const struct pith_ct_rotation *t, const char *module, bool *yes,
                               struct pith_error *err)
{
    enum pith_match_rank in, out;
    PITH_TRY(pith_patterns_match(&t->targets, module, &in, err));
    PITH_TRY(pith_patterns_match(&t->ignore, module, &out, err));
    *yes = in != PITH_MATCH_NONE && out == PITH_MATCH_NONE;
    return PITH_OK;
}

enum pith_status pith_ct_rotations_claim(const struct pith_ct_rotations *rotations,
                                         const char *module, uint32_t *block,
                                         struct pith_error *err)
{
    for (size_t i = 0; i < rotations->count; i++) {
        bool yes;
        PITH_TRY(claims(&rotations->item[i], module, &yes, err));
        if (yes) *block = rotations->item[i].block ? rotations->item[i].block : UINT32_MAX;
    }
    return PITH_OK;
}

enum pith_status pith_ct_rotations_find(const struct pith_ct_rotations *rotations,
                                        const struct pith_checkpoint *c, const char *module,
                                        uint32_t cols, uint32_t *block, struct pith_error *err)
{
    *block = 0;
    for (size_t i = 0; i < rotations->count; i++) {
        const struct pith_ct_rotation *t = &rotations->item[i];
        bool yes;
        PITH_TRY(claims(t, module, &yes, err));
        if (!yes) continue;
        const uint32_t n = t->block ? t->block : cols;
        if (*block)
            return pith_fail(err, PITH_UNSUPPORTED, "%s: more than one rotation of its input",
                             module);
        if (n > MAX_BLOCK || (n & (n - 1)) != 0 || cols % n != 0)
            return pith_fail(err, PITH_UNSUPPORTED,
                             "%s: %u inputs rotated in blocks of %u; a power of two that divides "
                             "them is needed",
                             module, (unsigned)cols, (unsigned)n);
        PITH_TRY(check_matrix(c, module, t, n, err));
        *block = n;
    }
    return PITH_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

static const char *last_part(const char *module)
{
    const char *dot = strrchr(module, '.');
    return dot ? dot + 1 : module;
}

/* All modules of the names of those with such blocks: "re:.*down_proj$"; those of such a name that
 * are not rotated so are named. */
static bool fill_lists(const struct pith_linear_grid *linears, size_t count, uint32_t block,
                       json_t *targets, json_t *ignore)
{
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) {
        const char *last = last_part(linears[i].module);
        bool seen = false;
        if (linears[i].hadamard != block) continue;
        for (size_t k = 0; k < i && !seen; k++)
            seen = linears[k].hadamard == block && strcmp(last_part(linears[k].module), last) == 0;
        if (seen) continue;
        ok = json_array_append_new(targets, json_sprintf("re:.*%s$", last)) == 0;
        for (size_t k = 0; k < count && ok; k++)
            if (linears[k].hadamard != block && strcmp(last_part(linears[k].module), last) == 0)
                ok = json_array_append_new(ignore, json_string(linears[k].module)) == 0;
    }
    return ok;
}

static const char *precision(enum pith_dtype t)
{
    return t == PITH_BF16 ? "torch.bfloat16" : t == PITH_F16 ? "torch.float16" : "torch.float32";
}

static json_t *make_group(const struct pith_linear_grid *linears, size_t count, uint32_t block,
                          enum pith_dtype model_dtype)
{
    json_t *targets = json_array(), *ignore = json_array(), *o = NULL;
    if (targets && ignore && fill_lists(linears, count, block, targets, ignore))
        o = json_pack("{s:s, s:[{s:O, s:s, s:b, s:O}], s:b, s:b, s:i, s:s}", "type", "hadamard",
                      "apply", "targets", targets, "location", "input", "inverse", 0, "ignore",
                      ignore, "randomize", 0, "requires_grad", 0, "head_dim", (int)block,
                      "precision", precision(model_dtype));
    json_decref(targets);
    json_decref(ignore);
    return o;
}

json_t *pith_ct_rotations_make(const struct pith_linear_grid *linears, size_t count,
                               enum pith_dtype model_dtype)
{
    json_t *groups = json_object(), *all = NULL;
    bool ok = groups != NULL;
    for (size_t n = 0; n < PITH_COUNT(names) && ok; n++) {
        bool any = false;
        for (size_t i = 0; i < count && !any; i++) any = linears[i].hadamard == names[n].block;
        if (any)
            ok = json_object_set_new(groups, names[n].group,
                                     make_group(linears, count, names[n].block, model_dtype)) == 0;
    }
    if (ok)
        all = json_object_size(groups) ? json_pack("{s:O}", "config_groups", groups)
                                       : json_object();
    json_decref(groups);
    return all;
}

/* The tensor's suffix, NULL for a width that is none. */
static const char *suffix_of(uint32_t block)
{
    for (size_t n = 0; n < PITH_COUNT(names); n++)
        if (names[n].block == block) return names[n].suffix;
    return NULL;
}

void pith_ct_rotation_shape(uint32_t block, enum pith_dtype model_dtype,
                            struct pith_packed_set *out)
{
    const uint64_t shape[] = {block, block};
    const char *suffix = suffix_of(block);
    if (suffix) pith_packed_add(out, suffix, model_dtype, 2, shape);
}

enum pith_status pith_ct_rotation_fill(uint32_t block, const struct pith_packed_set *set,
                                       struct pith_error *err)
{
    const struct pith_packed *p = NULL;
    const char *suffix = suffix_of(block);
    if (!suffix) return PITH_OK;
    for (unsigned i = 0; i < set->count; i++)
        if (strcmp(set->item[i].suffix, suffix) == 0) p = &set->item[i];
    float *row = pith_alloc(block, sizeof *row);
    if (!p || !row) {
        pith_free(row);
        return pith_fail_nomem(err, "a rotation's matrix");
    }
    const size_t bytes = (size_t)block * pith_dtype_bits(p->dtype) / 8;
    for (uint32_t i = 0; i < block; i++) {
        for (uint32_t j = 0; j < block; j++) row[j] = entry(i, j);
        (void)pith_dtype_encode(p->dtype, row, block, (uint8_t *)p->data + i * bytes);
    }
    pith_free(row);
    return PITH_OK;
}
