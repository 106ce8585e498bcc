/* The algorithms of ModelOpt's checkpoints. */
#include "io/container/modelopt.h"

#include "base/mem.h"

#include <string.h>

#define FP8_STATIC "fp8_e4m3:tensor:static"

static const struct pith_modelopt_algo algos[] = {
    {.name = "FP8",
     .weights = "fp8_e4m3",
     .granularity = PITH_PER_TENSOR,
     .inputs = FP8_STATIC,
     .codes = PITH_MODELOPT_ROWS},
    {.name = "FP8_PER_CHANNEL_PER_TOKEN",
     .weights = "fp8_e4m3",
     .granularity = PITH_PER_CHANNEL,
     .inputs = "fp8_e4m3:token",
     .codes = PITH_MODELOPT_ROWS},
    /* ModelOpt writes this one in lower case. */
    {.name = "fp8_pb_wo",
     .weights = "fp8_e4m3",
     .granularity = PITH_PER_BLOCK,
     .group = 128,
     .codes = PITH_MODELOPT_ROWS},
    {.name = "NVFP4",
     .weights = "nvfp4",
     .inputs = "nvfp4:static",
     .codes = PITH_MODELOPT_ROWS,
     .second = true},
    {.name = "W4A16_NVFP4", .weights = "nvfp4", .codes = PITH_MODELOPT_ROWS, .second = true},
    {.name = "MXFP8", .weights = "mxfp8", .inputs = "mxfp8", .codes = PITH_MODELOPT_ROWS},
    /* A scale of the inputs may be there or not. */
    {.name = "W4A8_MXFP4_FP8",
     .weights = "mxfp4",
     .inputs = "fp8_e4m3:tensor",
     .codes = PITH_MODELOPT_ROWS},
    {.name = "W4A8_MXFP4_FP8",
     .weights = "mxfp4",
     .inputs = FP8_STATIC,
     .codes = PITH_MODELOPT_ROWS},
    {.name = "W4A16_AWQ",
     .weights = "int4",
     .granularity = PITH_PER_GROUP,
     .codes = PITH_MODELOPT_PAIRS,
     .awq = true},
    {.name = "W4A8_AWQ",
     .weights = "int4",
     .granularity = PITH_PER_GROUP,
     .inputs = FP8_STATIC,
     .codes = PITH_MODELOPT_PAIRS,
     .second = true,
     .awq = true},
    {.name = "W8A16",
     .weights = "int8",
     .granularity = PITH_PER_CHANNEL,
     .codes = PITH_MODELOPT_SIGNED},
    {.name = "W8A8_SQ_PER_CHANNEL",
     .weights = "int8",
     .granularity = PITH_PER_CHANNEL,
     .inputs = "int8:tensor:static",
     .codes = PITH_MODELOPT_SIGNED},
};

static bool same_letters(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        const char x = *a >= 'a' && *a <= 'z' ? (char)(*a - 'a' + 'A') : *a;
        const char y = *b >= 'a' && *b <= 'z' ? (char)(*b - 'a' + 'A') : *b;
        if (x != y) return false;
    }
    return *a == *b;
}

const struct pith_modelopt_algo *pith_modelopt_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(algos); i++)
        if (same_letters(algos[i].name, name)) return &algos[i];
    return NULL;
}

struct pith_grid pith_modelopt_weights(const struct pith_modelopt_algo *a, uint32_t group)
{
    struct pith_grid g = {.format = pith_format_find(a->weights), .granularity = a->granularity};
    if (g.format->kind == PITH_KIND_BLOCK) {
        g.granularity = PITH_PER_GROUP;
        g.group = g.format->block;
    } else if (g.granularity == PITH_PER_GROUP || g.granularity == PITH_PER_BLOCK) {
        g.group = a->group ? a->group : group;
    }
    return g;
}

struct pith_grid pith_modelopt_inputs(const struct pith_modelopt_algo *a)
{
    struct pith_grid g = {0};
    if (a->inputs) (void)pith_grid_parse(a->inputs, &g, NULL);
    return g;
}

const struct pith_modelopt_algo *pith_modelopt_for(const struct pith_grid *weights,
                                                   const struct pith_grid *inputs)
{
    for (size_t i = 0; i < PITH_COUNT(algos); i++) {
        const struct pith_grid w = pith_modelopt_weights(&algos[i], weights->group),
                               x = pith_modelopt_inputs(&algos[i]);
        if (pith_grid_equal(&w, weights) && pith_grid_equal(&x, inputs)) return &algos[i];
    }
    return NULL;
}
