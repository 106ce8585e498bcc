/* The inputs of tests/golden/quant/make_golden.py, bit for bit from a seed. */
#ifndef PITH_QUANT_ORACLE_H
#define PITH_QUANT_ORACLE_H

#include "base/json.h"
#include "quant_test.h"

/* Sums of four 16-bit numbers, scaled to a standard deviation of about 1. */
static inline void lcg_normal(uint64_t *state, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        int total = -131070;
        for (int k = 0; k < 4; k++) {
            *state = *state * 6364136223846793005u + 1442695040888963407u;
            total += (int)(*state >> 48);
        }
        out[i] = (float)total * (float)(1.0 / 37837.0);
    }
}

static inline float *oracle_weights(uint64_t *state, uint32_t rows, uint32_t cols)
{
    const size_t n = (size_t)rows * cols;
    float *w = malloc(n * sizeof *w);
    lcg_normal(state, n, w);
    for (size_t i = 0; i < n; i++) w[i] *= 0.05f;
    return w;
}

static inline float *oracle_inputs(uint64_t *state, uint32_t tokens, uint32_t cols)
{
    float *x = malloc((size_t)tokens * cols * sizeof *x);
    lcg_normal(state, (size_t)tokens * cols, x);
    for (uint32_t t = 0; t < tokens; t++) {
        float *row = x + (size_t)t * cols;
        for (uint32_t c = 1; c < cols; c++) row[c] = 0.8f * row[c - 1] + 0.6f * row[c];
        for (uint32_t c = 5; c < cols; c += 37) row[c] *= 10.0f;
        for (uint32_t c = 0; c < cols; c++) row[c] = rintf(row[c] * 64.0f) / 64.0f;
    }
    return x;
}

static inline json_t *load_golden(const char *name)
{
    char path[256];
    json_t *json = NULL;
    struct pith_error err = {0};
    snprintf(path, sizeof path, "tests/golden/quant/%s", name);
    assert_ok(pith_json_load(path, 1 << 22, &json, &err), err);
    return json;
}

static inline const char *text_of(const json_t *obj, const char *key)
{
    return json_string_value(json_object_get(obj, key));
}

static inline uint32_t count_of(const json_t *obj, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(obj, key));
}

#endif
