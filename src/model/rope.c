#include "model/rope.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* Factors in use are 1 to a few hundred; what lies outside would make frequencies overflow. */
static const double least_factor = 1e-3, greatest_factor = 1e6;

/* A number of the parameters, within (lo, hi]; a missing one is an error when *value is NaN on
 * entry. */
static enum pith_status read_positive(const struct pith_config *c, const char *key, double lo,
                                      double hi, double *value, struct pith_error *err)
{
    PITH_TRY(pith_config_real(c, key, value, err));
    if (isnan(*value)) return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is missing", c->where, key);
    if (!(*value > lo && *value <= hi))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is %g, not above %g and at most %g",
                         c->where, key, *value, lo, hi);
    return PITH_OK;
}

static enum pith_status read_none(const struct pith_config *c, int64_t max_position,
                                  struct pith_rope *r, struct pith_error *err)
{
    (void)c, (void)max_position, (void)r, (void)err;
    return PITH_OK;
}

static enum pith_status read_linear(const struct pith_config *c, int64_t max_position,
                                    struct pith_rope *r, struct pith_error *err)
{
    (void)max_position;
    r->factor = NAN;
    return read_positive(c, "factor", least_factor, greatest_factor, &r->factor, err);
}

static enum pith_status read_llama3(const struct pith_config *c, int64_t max_position,
                                    struct pith_rope *r, struct pith_error *err)
{
    (void)max_position;
    r->factor = r->low_freq = r->high_freq = NAN;
    PITH_TRY(read_positive(c, "factor", least_factor, greatest_factor, &r->factor, err));
    PITH_TRY(read_positive(c, "low_freq_factor", 0, 1e6, &r->low_freq, err));
    return read_positive(c, "high_freq_factor", 0, 1e6, &r->high_freq, err);
}

/* 0.1 m ln(scale) + 1: the temperature that YaRN found to fit (Peng et al. 2023, eq. 22). */
static double yarn_temperature(double scale, double m)
{
    return scale <= 1 ? 1 : 0.1 * m * log(scale) + 1;
}

static enum pith_status read_yarn(const struct pith_config *c, int64_t max_position,
                                  struct pith_rope *r, struct pith_error *err)
{
    r->factor = (double)max_position / (double)r->original_max;
    r->truncate = true;
    PITH_TRY(read_positive(c, "factor", least_factor, greatest_factor, &r->factor, err));
    PITH_TRY(pith_config_real(c, "beta_fast", &r->beta_fast, err));
    PITH_TRY(pith_config_real(c, "beta_slow", &r->beta_slow, err));
    /* Zero means the default to the reference implementation too. */
    if (r->beta_fast == 0) r->beta_fast = 32;
    if (r->beta_slow == 0) r->beta_slow = 1;
    if (!(r->beta_slow > 0 && r->beta_fast >= r->beta_slow && r->beta_fast <= 1e6))
        return pith_fail(err, PITH_FORMAT,
                         "rope parameters: \"beta_fast\" %g and \"beta_slow\" %g are not a range",
                         r->beta_fast, r->beta_slow);
    PITH_TRY(pith_config_bool(c, "truncate", &r->truncate, err));
    double m = 0, m_all = 0, given = NAN;
    PITH_TRY(pith_config_real(c, "mscale", &m, err));
    PITH_TRY(pith_config_real(c, "mscale_all_dim", &m_all, err));
    PITH_TRY(pith_config_real(c, "attention_factor", &given, err));
    if (isnan(given) && m != 0 && m_all != 0)
        given = yarn_temperature(r->factor, m) / yarn_temperature(r->factor, m_all);
    if (isnan(given)) return PITH_OK;
    if (!(given > least_factor && given <= greatest_factor))
        return pith_fail(err, PITH_FORMAT, "rope parameters: attention factor %g makes no sense",
                         given);
    r->attention_factor = given;
    return PITH_OK;
}

static enum pith_status read_factors(const struct pith_config *c, const char *key, float *out,
                                     uint32_t *count, struct pith_error *err)
{
    const json_t *list = pith_config_get(c, key);
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
static enum pith_status read_long(const struct pith_config *c, int64_t max_position,
                                  struct pith_rope *r, struct pith_error *err)
{
    uint32_t count = 0;
    PITH_TRY(read_factors(c, "short_factor", r->divide[0], &r->factors, err));
    PITH_TRY(read_factors(c, "long_factor", r->divide[1], &count, err));
    if (count != r->factors)
        return pith_fail(err, PITH_FORMAT,
                         "rope parameters: %u of \"short_factor\", but %u of \"long_factor\"",
                         r->factors, count);
    double stretched = (double)max_position / (double)r->original_max, given = NAN;
    if (r->original_max == max_position)
        PITH_TRY(read_positive(c, "factor", least_factor, greatest_factor, &stretched, err));
    PITH_TRY(pith_config_real(c, "attention_factor", &given, err));
    if (isnan(given) && (stretched <= 1 || r->original_max < 2)) given = 1;
    if (isnan(given)) given = sqrt(1 + log(stretched) / log((double)r->original_max));
    if (!(given > least_factor && given <= greatest_factor))
        return pith_fail(err, PITH_FORMAT, "rope parameters: attention factor %g makes no sense",
                         given);
    r->attention_factor = given;
    return PITH_OK;
}

static enum pith_status read_proportional(const struct pith_config *c, int64_t max_position,
                                          struct pith_rope *r, struct pith_error *err)
{
    (void)max_position;
    r->part = 1;
    return read_positive(c, "partial_rotary_factor", 0, 1, &r->part, err);
}

/* Dynamic NTK stretches the base once a text is longer than the trained length; up to there nothing
 * changes. Hunyuan's "alpha" stretches it at any length. */
static enum pith_status read_dynamic(const struct pith_config *c, int64_t max_position,
                                     struct pith_rope *r, struct pith_error *err)
{
    const json_t *alpha = pith_config_get(c, "alpha");
    (void)max_position, (void)r;
    if (!alpha || json_is_null(alpha)) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "rope parameters: \"alpha\" of rope type \"dynamic\"");
}

typedef enum pith_status read_fn(const struct pith_config *c, int64_t max_position,
                                 struct pith_rope *r, struct pith_error *err);

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

/* Where rotary parameters stand. */
static const char *const objects[] = {"rope_scaling", "rope_parameters"};

enum pith_status pith_rope_real(const struct pith_config *c, const char *key, double *value,
                                struct pith_error *err)
{
    for (size_t i = 0; i < PITH_COUNT(objects); i++) {
        const struct pith_config own =
            pith_config_part(c, pith_config_get(c, objects[i]), PITH_CONFIG_ROPE);
        PITH_TRY(pith_config_real(&own, key, value, err));
    }
    return PITH_OK;
}

/* The object that holds the parameters, or NULL; where kinds of layers have their own, that of
 * `kind`. */
static enum pith_status find_parameters(const struct pith_config *c, const char *kind,
                                        const json_t **out, struct pith_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < PITH_COUNT(objects); i++) {
        const json_t *v = pith_config_get(c, objects[i]);
        if (!v || json_is_null(v)) continue;
        if (!json_is_object(v))
            return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is not an object", c->where, objects[i]);
        const json_t *own = kind ? json_object_get(v, kind) : NULL;
        if (!*out && json_object_size(v) > 0) *out = json_is_object(own) ? own : v;
    }
    return PITH_OK;
}

bool pith_rope_has_kind(const struct pith_config *c, const char *kind)
{
    for (size_t i = 0; i < PITH_COUNT(objects); i++)
        if (json_is_object(json_object_get(pith_config_get(c, objects[i]), kind))) return true;
    return false;
}

static enum pith_status refuse_nested(const struct pith_config *c, struct pith_error *err)
{
    const char *key;
    json_t *v;
    /* jansson's iteration takes a non-const object but does not change it. */
    json_object_foreach ((json_t *)(uintptr_t)c->json, key, v) {
        if (json_is_object(v) && !pith_json_is_number(v))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "%s: rope parameters for \"%s\" layers alone are not supported",
                             c->where, key);
    }
    return PITH_OK;
}

static enum pith_status read_original_max(const struct pith_config *c,
                                          const struct pith_config *own, int64_t max_position,
                                          int64_t *out, struct pith_error *err)
{
    static const char key[] = "original_max_position_embeddings";
    *out = max_position;
    PITH_TRY(pith_config_int(own, key, 1, INT32_MAX, out, err));
    return pith_config_int(c, key, 1, INT32_MAX, out, err);
}

static enum pith_status read_typed(const struct pith_config *c, const struct pith_config *own,
                                   int64_t max_position, struct pith_rope *rope,
                                   struct pith_error *err)
{
    const char *name = "default";
    struct pith_config of_type = *own;
    of_type.where = "rope parameters";
    PITH_TRY(pith_config_str(own, "type", &name, err));
    PITH_TRY(pith_config_str(own, "rope_type", &name, err));
    /* The first files of Phi-3 with 128k. */
    if (strcmp(name, "yarn") == 0 && pith_config_get(own, "short_factor")) name = "longrope";
    PITH_TRY(read_original_max(c, own, max_position, &rope->original_max, err));
    for (size_t i = 0; i < PITH_COUNT(types); i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        rope->type = types[i].type;
        const enum pith_status s = types[i].read(&of_type, max_position, rope, err);
        return s == PITH_OK ? PITH_OK : pith_fail_in(err, s, c->where);
    }
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: rope type \"%s\" is not supported (default, linear, llama3, yarn, "
                     "longrope, proportional, dynamic)",
                     c->where, name);
}

enum pith_status pith_rope_read(const struct pith_config *c, const char *kind, int64_t max_position,
                                struct pith_rope *rope, struct pith_error *err)
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
    PITH_TRY(find_parameters(c, kind, &obj, err));
    PITH_TRY(pith_config_real(c, "rope_theta", &rope->theta, err));
    if (obj) {
        const struct pith_config own = pith_config_part(c, obj, PITH_CONFIG_ROPE);
        PITH_TRY(refuse_nested(&own, err));
        PITH_TRY(pith_config_real(&own, "rope_theta", &rope->theta, err));
        PITH_TRY(read_typed(c, &own, max_position, rope, err));
    }
    if (!(rope->theta > 1 && rope->theta <= 1e15))
        return pith_fail(err, PITH_FORMAT, "%s: \"rope_theta\" is %g, not above 1 and at most 1e15",
                         c->where, rope->theta);
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

/* Long wavelengths are stretched by the factor, short ones stay unchanged, between the two it is
 * blended (Llama 3.1's release notes; the wavelengths are relative to the original context length).
 * Where the two bounds are one or change places there is no between, and the lower one decides. */
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
            const float rotations = (float)context / (float)wavelength;
            const float blend = unit((rotations - (float)rope->low_freq) /
                                     (float)(rope->high_freq - rope->low_freq));
            g = (1 - blend) * f / (float)rope->factor + blend * f;
        }
        inv_freq[i] = (double)g;
    }
}

/* The (fractional) pair that rotates `rotations` times within the original context. */
static double yarn_pair(const struct pith_rope *rope, uint32_t head_dim, double rotations)
{
    const double tokens_per_radian = (double)rope->original_max / (rotations * 2 * pi);
    return (double)head_dim * log(tokens_per_radian) / (2 * log(rope->theta));
}

/* YaRN (Peng et al. 2023, section 3.2): pairs of high frequency stay unchanged, those of low
 * frequency are stretched, with a linear ramp between. */
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
