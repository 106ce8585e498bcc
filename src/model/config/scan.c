/* Mamba 2 in a config. */
#include "model/config/read.h"

#include <math.h>
#include <string.h>

/* A number, or an infinity as JSON cannot say it. */
static double number_of(const json_t *v)
{
    const char *text = json_string_value(json_object_get(v, "__float__"));
    return text && strcmp(text, "Infinity") == 0 ? INFINITY : pith_json_number(v);
}

enum pith_status pith_read_mamba(const struct pith_config *c, struct pith_shape *shape,
                                 struct pith_error *err)
{
    struct pith_scan_shape *s = &shape->scan;
    uint32_t expand = 2;
    const json_t *limit = pith_config_get(c, "time_step_limit");
    const json_t *head = pith_config_get(c, "mamba_d_head");
    shape->recurrent.conv_bias = true;
    PITH_TRY(pith_read_size(c, "mamba_n_heads", PITH_MAX_HEADS, 128, &s->heads, err));
    PITH_TRY(pith_read_size(c, "mamba_n_groups", PITH_MAX_HEADS, 1, &s->groups, err));
    PITH_TRY(pith_read_size(c, "mamba_d_state", PITH_DELTA_DIM, 256, &s->state, err));
    PITH_TRY(pith_read_size(c, "mamba_d_conv", PITH_CONV_TAPS, 4, &shape->recurrent.taps, err));
    PITH_TRY(pith_read_size(c, "mamba_expand", 64, expand, &expand, err));
    PITH_TRY(pith_config_bool(c, "mamba_conv_bias", &shape->recurrent.conv_bias, err));
    PITH_TRY(pith_config_bool(c, "mamba_proj_bias", &s->bias, err));
    const uint64_t width = (uint64_t)expand * shape->hidden;
    s->dim = (uint32_t)(width / s->heads);
    if (json_is_integer(head))
        PITH_TRY(pith_read_size(c, "mamba_d_head", PITH_DELTA_DIM, 0, &s->dim, err));
    s->most = INFINITY;
    if (json_array_size(limit) == 2) {
        s->least = number_of(json_array_get(limit, 0));
        s->most = number_of(json_array_get(limit, 1));
    }
    if ((uint64_t)s->dim * s->heads != width || width > PITH_MAX_WIDTH || s->dim > PITH_DELTA_DIM ||
        s->heads % s->groups != 0 || (uint64_t)s->groups * s->state > PITH_MAX_WIDTH ||
        pith_scan_state(s->heads, s->dim, s->state) > 1 << 28 || !(s->least <= s->most))
        return pith_fail(
            err, PITH_FORMAT, "%s: %u heads of Mamba of %u in %u groups of %u, for a width of %llu",
            c->where, s->heads, s->dim, s->groups, s->state, (unsigned long long)width);
    return PITH_OK;
}
