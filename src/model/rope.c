#include "model/rope.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* Factors in use are 1 to a few hundred; what lies outside would make frequencies overflow. */
static const double least_factor = 1e-3, greatest_factor = 1e6;

/* A number of `obj`, within (lo, hi]; a missing one is an error when *value is NaN on entry. */
static enum pith_status read_positive(const json_t *obj, const char *key, double lo, double hi,
                                      double *value, struct pith_error *err)
{
    const char *where = "rope parameters";
    PITH_TRY(pith_json_get_real(obj, key, value, where, err));
    if (isnan(*value)) return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is missing", where, key);
    if (!(*value > lo && *value <= hi))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is %g, not above %g and at most %g", where,
                         key, *value, lo, hi);
    return PITH_OK;
}

static enum pith_status read_none(const json_t *obj, int64_t max_position, struct pith_rope *r,
                                  struct pith_error *err)
{
    (void)obj, (void)max_position, (void)r, (void)err;
    return PITH_OK;
}

static enum pith_status read_linear(const json_t *obj, int64_t max_position, struct pith_rope *r,
                                    struct pith_error *err)
{
    (void)max_position;
    r->factor = NAN;
    return read_positive(obj, "factor", least_factor, greatest_factor, &r->factor, err);
}

static enum pith_status read_llama3(const json_t *obj, int64_t max_position, struct pith_rope *r,
                                    struct pith_error *err)
{
    (void)max_position;
    r->factor = r->low_freq = r->high_freq = NAN;
    PITH_TRY(read_positive(obj, "factor", least_factor, greatest_factor, &r->factor, err));
    PITH_TRY(read_positive(obj, "low_freq_factor", 0, 1e6, &r->low_freq, err));
    return read_positive(obj, "high_freq_factor", 0, 1e6, &r->high_freq, err);
}

/* 0.1 m ln(scale) + 1: the temperature that YaRN found to fit (Peng et al. 2023, eq. 22). */
static double yarn_temperature(double scale, double m)
{
    return scale <= 1 ? 1 : 0.1 * m * log(scale) + 1;
}

static enum pith_status read_yarn(const json_t *obj, int64_t max_position, struct pith_rope *r,
                                  struct pith_error *err)
{
    r->factor = (double)max_position / (double)r->original_max;
    r->truncate = true;
    PITH_TRY(read_positive(obj, "factor", least_factor, greatest_factor, &r->factor, err));
    PITH_TRY(pith_json_get_real(obj, "beta_fast", &r->beta_fast, "rope parameters", err));
    PITH_TRY(pith_json_get_real(obj, "beta_slow", &r->beta_slow, "rope parameters", err));
    /* Zero means the default to the reference implementation too. */
    if (r->beta_fast == 0) r->beta_fast = 32;
    if (r->beta_slow == 0) r->beta_slow = 1;
    if (!(r->beta_slow > 0 && r->beta_fast >= r->beta_slow && r->beta_fast <= 1e6))
        return pith_fail(err, PITH_FORMAT,
                         "rope parameters: \"beta_fast\" %g and \"beta_slow\" %g are not a range",
                         r->beta_fast, r->beta_slow);
    PITH_TRY(pith_json_get_bool(obj, "truncate", &r->truncate, "rope parameters", err));
    double m = 0, m_all = 0, given = NAN;
    PITH_TRY(pith_json_get_real(obj, "mscale", &m, "rope parameters", err));
    PITH_TRY(pith_json_get_real(obj, "mscale_all_dim", &m_all, "rope parameters", err));
    PITH_TRY(pith_json_get_real(obj, "attention_factor", &given, "rope parameters", err));
    if (isnan(given) && m != 0 && m_all != 0)
        given = yarn_temperature(r->factor, m) / yarn_temperature(r->factor, m_all);
    if (isnan(given)) return PITH_OK;
    if (!(given > least_factor && given <= greatest_factor))
        return pith_fail(err, PITH_FORMAT, "rope parameters: attention factor %g makes no sense",
                         given);
    r->attention_factor = given;
    return PITH_OK;
}

static enum pith_status read_factors(const json_t *obj, const char *key, float *out,
                                     uint32_t *count, struct pith_error *err)
{
    const json_t *list = json_object_get(obj, key);
    const size_t n = json_array_size(list);
    if (n == 0 || n > PITH_MAX_ROPE_FACTORS)
        return pith_fail(err, PITH_FORMAT, "rope parameters: \"%s\" is no list of 1 to %d numbers",
                         key, (int)PITH_MAX_ROPE_FACTORS);
    for (size_t i = 0; i < n; i++) {
        const double f = pith_json_number(json_array_get(list, i));
        if (!(f > least_factor && f <= greatest_factor))
            return pith_fail(err, PITH_FORMAT, "rope parameters: \"%s\"[%zu] is %g or no number",
                             key, i, f);
        out[i] = (float)f;
    }
    *count = (uint32_t)n;
    return PITH_OK;
}

/* LongRoPE (Ding et al. 2024): a factor for each pair, other ones beyond the original context. */
static enum pith_status read_long(const json_t *obj, int64_t max_position, struct pith_rope *r,
                                  struct pith_error *err)
{
    uint32_t count = 0;
    PITH_TRY(read_factors(obj, "short_factor", r->divide[0], &r->factors, err));
    PITH_TRY(read_factors(obj, "long_factor", r->divide[1], &count, err));
    if (count != r->factors)
        return pith_fail(err, PITH_FORMAT,
                         "rope parameters: %u of \"short_factor\", but %u of \"long_factor\"",
                         r->factors, count);
    double stretched = (double)max_position / (double)r->original_max, given = NAN;
    if (r->original_max == max_position)
        PITH_TRY(read_positive(obj, "factor", least_factor, greatest_factor, &stretched, err));
    PITH_TRY(pith_json_get_real(obj, "attention_factor", &given, "rope parameters", err));
    if (isnan(given) && (stretched <= 1 || r->original_max < 2)) given = 1;
    if (isnan(given)) given = sqrt(1 + log(stretched) / log((double)r->original_max));
    if (!(given > least_factor && given <= greatest_factor))
        return pith_fail(err, PITH_FORMAT, "rope parameters: attention factor %g makes no sense",
                         given);
    r->attention_factor = given;
    return PITH_OK;
}

static enum pith_status read_proportional(const json_t *obj, int64_t max_position,
                                          struct pith_rope *r, struct pith_error *err)
{
    (void)max_position;
    r->part = 1;
    return read_positive(obj, "partial_rotary_factor", 0, 1, &r->part, err);
}

/* Dynamic NTK stretches the base once a text is longer than the trained length; up to there nothing
 * changes. Hunyuan's "alpha" stretches it at any length. */
static enum pith_status read_dynamic(const json_t *obj, int64_t max_position, struct pith_rope *r,
                                     struct pith_error *err)
{
    const json_t *alpha = json_object_get(obj, "alpha");
    (void)max_position, (void)r;
    if (!alpha || json_is_null(alpha)) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "rope parameters: \"alpha\" of rope type \"dynamic\"");
}

typedef enum pith_status read_fn(const json_t *obj, int64_t max_position, struct pith_rope *r,
                                 struct pith_error *err);

static const struct {
    const char *name;
    enum pith_rope_type type;
    read_fn *read;
} types[] = {
    {"default", PITH_ROPE_DEFAULT, read_none},
    {"linear", PITH_ROPE_LINEAR, read_linear},
    {"llama3", PITH_ROPE_LLAMA3, read_llama3},
    {"yarn", PITH_ROPE_YARN, read_yarn},
    {"longrope", PITH_ROPE_LONG, read_long},
    {"su", PITH_ROPE_LONG, read_long},
    {"proportional", PITH_ROPE_PROPORTIONAL, read_proportional},
    {"dynamic", PITH_ROPE_DEFAULT, read_dynamic},
    /* Positions in time, height and width, which are one number in text. */
    {"mrope", PITH_ROPE_DEFAULT, read_none},
};

/* The object that holds the parameters, or NULL; where kinds of layers have their own, that of
 * `kind`. */
static enum pith_status find_parameters(const json_t *config, const char *where, const char *kind,
                                        const json_t **out, struct pith_error *err)
{
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    *out = NULL;
    for (size_t i = 0; i < PITH_COUNT(keys); i++) {
        const json_t *v = json_object_get(config, keys[i]);
        if (!v || json_is_null(v)) continue;
        if (!json_is_object(v))
            return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is not an object", where, keys[i]);
        const json_t *own = kind ? json_object_get(v, kind) : NULL;
        if (!*out && json_object_size(v) > 0) *out = json_is_object(own) ? own : v;
    }
    return PITH_OK;
}

bool pith_rope_has_kind(const json_t *config, const char *kind)
{
    return json_is_object(json_object_get(json_object_get(config, "rope_parameters"), kind)) ||
           json_is_object(json_object_get(json_object_get(config, "rope_scaling"), kind));
}

static enum pith_status refuse_nested(const json_t *obj, const char *where, struct pith_error *err)
{
    const char *key;
    json_t *v;
    /* jansson's iteration takes a non-const object but does not change it. */
    json_object_foreach ((json_t *)obj, key, v) {
        if (json_is_object(v) && !pith_json_is_number(v))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "%s: rope parameters for \"%s\" layers alone are not supported", where,
                             key);
    }
    return PITH_OK;
}

static enum pith_status read_original_max(const json_t *config, const json_t *obj,
                                          const char *where, int64_t max_position, int64_t *out,
                                          struct pith_error *err)
{
    static const char key[] = "original_max_position_embeddings";
    *out = max_position;
    PITH_TRY(pith_json_get_int(obj, key, 1, INT32_MAX, out, where, err));
    return pith_json_get_int(config, key, 1, INT32_MAX, out, where, err);
}

static enum pith_status read_typed(const json_t *config, const json_t *obj, const char *where,
                                   int64_t max_position, struct pith_rope *rope,
                                   struct pith_error *err)
{
    const char *name = "default";
    PITH_TRY(pith_json_get_str(obj, "type", &name, where, err));
    PITH_TRY(pith_json_get_str(obj, "rope_type", &name, where, err));
    /* The first files of Phi-3 with 128k. */
    if (strcmp(name, "yarn") == 0 && json_object_get(obj, "short_factor")) name = "longrope";
    PITH_TRY(read_original_max(config, obj, where, max_position, &rope->original_max, err));
    for (size_t i = 0; i < PITH_COUNT(types); i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        rope->type = types[i].type;
        const enum pith_status s = types[i].read(obj, max_position, rope, err);
        return s == PITH_OK ? PITH_OK : pith_fail_in(err, s, where);
    }
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: rope type \"%s\" is not supported (default, linear, llama3, yarn, "
                     "longrope, proportional, dynamic)",
                     where, name);
}

enum pith_status pith_rope_read(const json_t *config, const char *where, const char *kind,
                                int64_t max_position, struct pith_rope *rope,
                                struct pith_error *err)
{
    *rope = (struct pith_rope){.type = PITH_ROPE_DEFAULT,
                               .theta = rope->theta > 0 ? rope->theta : 10000,
                               .factor = 1,
                               .low_freq = 1,
                               .high_freq = 4,
                               .beta_fast = 32,
                               .beta_slow = 1,
                               .truncate = true,
                               .original_max = max_position};
    const json_t *obj;
    PITH_TRY(find_parameters(config, where, kind, &obj, err));
    PITH_TRY(pith_json_get_real(config, "rope_theta", &rope->theta, where, err));
    if (obj) {
        PITH_TRY(refuse_nested(obj, where, err));
        PITH_TRY(pith_json_get_real(obj, "rope_theta", &rope->theta, where, err));
        PITH_TRY(read_typed(config, obj, where, max_position, rope, err));
    }
    if (!(rope->theta > 1 && rope->theta <= 1e15))
        return pith_fail(err, PITH_FORMAT, "%s: \"rope_theta\" is %g, not above 1 and at most 1e15",
                         where, rope->theta);
    return PITH_OK;
}

static void scale_linear(const struct pith_rope *rope, uint32_t head_dim, double *inv_freq)
{
    for (uint32_t i = 0; i < head_dim / 2; i++)
        inv_freq[i] = (double)((float)inv_freq[i] / (float)rope->factor);
}

/* x within 0..1. */
static float unit(float x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* Long wavelengths are stretched by the factor, short ones are kept, between the two it is blended
 * (Llama 3.1's release notes; the wavelengths are relative to the original context length). Where
 * the two bounds are one or change places there is no between, and the lower one decides. */
static void scale_llama3(const struct pith_rope *rope, uint32_t head_dim, double *inv_freq)
{
    const double context = (double)rope->original_max;
    const bool between = rope->high_freq > rope->low_freq;
    for (uint32_t i = 0; i < head_dim / 2; i++) {
        const float f = (float)inv_freq[i];
        const double wavelength = (double)((float)(2 * pi) / f);
        const bool is_long = wavelength > context / rope->low_freq;
        if (!is_long && (wavelength < context / rope->high_freq || !between)) continue;
        float g = f / (float)rope->factor;
        if (!is_long) {
            const float turns = (float)context / (float)wavelength;
            const float blend =
                unit((turns - (float)rope->low_freq) / (float)(rope->high_freq - rope->low_freq));
            g = (1 - blend) * f / (float)rope->factor + blend * f;
        }
        inv_freq[i] = (double)g;
    }
}

/* The (fractional) pair that turns `turns` times within the original context. */
static double yarn_pair(const struct pith_rope *rope, uint32_t head_dim, double turns)
{
    const double turned = (double)rope->original_max / (turns * 2 * pi);
    return (double)head_dim * log(turned) / (2 * log(rope->theta));
}

/* YaRN (Peng et al. 2023, section 3.2): pairs that turn often are kept, those that turn seldom are
 * stretched, with a linear ramp between. */
static void scale_yarn(const struct pith_rope *rope, uint32_t head_dim, double *inv_freq)
{
    double low = yarn_pair(rope, head_dim, rope->beta_fast);
    double high = yarn_pair(rope, head_dim, rope->beta_slow);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    if (low < 0) low = 0;
    if (high > (double)head_dim - 1) high = (double)head_dim - 1;
    if (low == high) high += 0.001; /* the reference implementation's way around 0 / 0 */
    for (uint32_t i = 0; i < head_dim / 2; i++) {
        const float f = (float)inv_freq[i];
        const float keep = 1 - unit(((float)i - (float)low) / (float)(high - low));
        inv_freq[i] = (double)(f / (float)rope->factor * (1 - keep) + f * keep);
    }
}

static void divide_each(const struct pith_rope *rope, bool far, uint32_t head_dim, double *inv_freq)
{
    for (uint32_t i = 0; i < head_dim / 2 && i < rope->factors; i++) {
        const float exponent = (float)(2 * i) / (float)head_dim;
        const float power = (float)pow((double)(float)rope->theta, (double)exponent);
        inv_freq[i] = (double)(1 / (rope->divide[far][i] * power));
    }
}

void pith_rope_frequencies_far(const struct pith_rope *rope, uint32_t head_dim, double *inv_freq,
                               double *attention_factor)
{
    pith_rope_frequencies(rope, head_dim, inv_freq, attention_factor);
    if (rope->type == PITH_ROPE_LONG) divide_each(rope, true, head_dim, inv_freq);
}

void pith_rope_frequencies(const struct pith_rope *rope, uint32_t head_dim, double *inv_freq,
                           double *attention_factor)
{
    for (uint32_t i = 0; i < head_dim / 2; i++) {
        const float exponent = (float)(2 * i) / (float)head_dim;
        const float power = (float)pow((double)(float)rope->theta, (double)exponent);
        inv_freq[i] = (double)(1 / power);
    }
    *attention_factor = 1;
    switch (rope->type) {
    case PITH_ROPE_DEFAULT: break;
    case PITH_ROPE_PROPORTIONAL:
        for (uint32_t i = (uint32_t)(rope->part * head_dim / 2); i < head_dim / 2; i++)
            inv_freq[i] = 0;
        break;
    case PITH_ROPE_LINEAR: scale_linear(rope, head_dim, inv_freq); break;
    case PITH_ROPE_LLAMA3: scale_llama3(rope, head_dim, inv_freq); break;
    case PITH_ROPE_YARN:
        scale_yarn(rope, head_dim, inv_freq);
        *attention_factor = rope->attention_factor > 0 ? rope->attention_factor
                                                       : yarn_temperature(rope->factor, 1);
        break;
    case PITH_ROPE_LONG:
        divide_each(rope, false, head_dim, inv_freq);
        *attention_factor = rope->attention_factor;
        break;
    }
}

void pith_rope_table(const double *inv_freq, size_t half, double factor, size_t start, size_t n,
                     float *cos_out, float *sin_out)
{
    for (size_t r = 0; r < n; r++) {
        const float position = (float)(start + r);
        for (size_t i = 0; i < half; i++) {
            const double angle = (double)(position * (float)inv_freq[i]);
            cos_out[r * half + i] = (float)cos(angle) * (float)factor;
            sin_out[r * half + i] = (float)sin(angle) * (float)factor;
        }
    }
}

void pith_rope_back(size_t dim, bool adjacent, const float *cos, const float *sin, float back,
                    float *x)
{
    const size_t half = dim / 2;
    for (size_t i = 0; i < half; i++) {
        const size_t a = adjacent ? 2 * i : i, b = adjacent ? 2 * i + 1 : i + half;
        const float u = x[a], v = x[b];
        x[a] = (u * cos[i] + v * sin[i]) * back;
        x[b] = (v * cos[i] - u * sin[i]) * back;
    }
}
