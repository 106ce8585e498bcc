#include "plan/capacity.h"

#include "base/mem.h"
#include "plan/pith_engine.h"

#include <math.h>
#include <string.h>

#define MIB 1048576.0
#define GIB 1073741824.0

/* The shares of vLLM, TensorRT-LLM and llama.cpp were searched on half of the measurements that
 * others published (bench/published.py --fit; docs/planning.md), pith's are measured
 * (bench/plan.py); of the others: hardware.json, efficiency_hints (capmd, measured with vLLM) and
 * eight kernels of 3e-6 s (aiconfigurator's memory_constant_latency_s). GiB of vLLM: CAPMD's
 * measurements in hardware.json, efficiency_hints.engine_overhead_gib; communication: NVIDIA's
 * aiconfigurator, nccl_memory_bytes, there. */
static const struct pith_engine_need needs[] = {
    {"vllm", 2.0 * GIB, 3.0 * GIB, 392 * MIB, 2048, 0.95, 0.45, 8e-5, true, true, false,
     "hardware.json efficiency_hints: capmd, aic"},
    {"sglang", 2.0 * GIB, 3.0 * GIB, 392 * MIB, 2048, 0.95, 0.45, 8e-5, true, true, false,
     "taken as vLLM's: no figure found"},
    {"trtllm", 3.5 * GIB, 3.5 * GIB, 392 * MIB, 2048, 0.85, 0.7, 1.1e-4, true, true, false,
     "hardware.json efficiency_hints: aic other_memory_bytes, nccl_memory_bytes"},
    {"llama.cpp", 0.5 * GIB, 0.5 * GIB, 0, 512, 0.85, 0.6, 1.1e-4, false, true, true,
     "a GPU's context and libraries; assumed, no figure found"},
    {"transformers", 1.0 * GIB, 1.0 * GIB, 0, 2048, 0.7, 0.4, 2.4e-5, false, true, true,
     "a GPU's context and libraries; assumed, no figure found"},
    {"pith", 1.8 * MIB, 1.8 * MIB, 0, 512, 0.87, 0.72, 0, false, false, true,
     "the program with its tables, as pith bench shows it; the rest by its layouts "
     "(plan/pith_engine.h)"},
};

const struct pith_engine_need *pith_engine_needs(size_t *count)
{
    *count = PITH_COUNT(needs);
    return needs;
}

const struct pith_engine_need *pith_engine_need_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(needs); i++)
        if (strcmp(needs[i].name, name) == 0) return &needs[i];
    return NULL;
}

struct pith_spread_over pith_spread_devices(const struct pith_plan_subject *p,
                                            const struct pith_engine_need *e, unsigned devices)
{
    const unsigned tensor = e->shards ? pith_tensor_most(p, devices) : 1;
    return (struct pith_spread_over){tensor, devices / tensor};
}

/* Registers of the layers' programs, in 16 bits, and the logits of every user; of pith what it
 * holds. */
static double scratch_of(const struct pith_deployment *d, const struct pith_cache_sums *cache)
{
    if (strcmp(d->engine->name, "pith") == 0)
        return pith_own_bytes(d, cache->sequence * (double)d->demand.users);
    const struct pith_shape *s = &d->model->model->shape;
    const size_t users = d->demand.users,
                 wanted = d->demand.prompt > users ? d->demand.prompt : users;
    const size_t rows = wanted < d->engine->chunk ? wanted : d->engine->chunk;
    const double floats = (double)pith_scratch_bytes(&d->model->model->plans, rows ? rows : 1) +
                          4.0 * (double)rows * s->hidden;
    const double logits = 4.0 * (double)(users < rows ? users : rows) * s->vocab;
    return floats / (2 * d->over.tensor) + logits / d->over.tensor;
}

/* Of one device, with so many users of so long a context. */
static double needed(const struct pith_deployment *d, const struct pith_room *r, size_t users,
                     size_t context)
{
    struct pith_cache_sums sums = r->cache;
    if (context != d->demand.context) pith_weigh_cache(d->model, d->kv, d->over, context, &sums);
    return r->weights.device + r->scratch + r->base + sums.device * (double)users;
}

/* The most n in 1..most that fits, 0 when none does; `fits` shrinks as n grows. */
static size_t most_users(const struct pith_deployment *d, const struct pith_room *r)
{
    const double left = d->memory - needed(d, r, 0, d->demand.context);
    if (left <= 0 || r->cache.device <= 0) return 0;
    return (size_t)fmin(floor(left / r->cache.device), 1e9);
}

size_t pith_room_users(const struct pith_deployment *d, const struct pith_room *r, size_t context)
{
    struct pith_cache_sums sums;
    const double left = d->memory - (r->weights.device + r->scratch + r->base);
    pith_weigh_cache(d->model, d->kv, d->over, context, &sums);
    if (left <= 0 || sums.device <= 0) return 0;
    return (size_t)fmin(floor(left / sums.device), 1e9);
}

static size_t most_context(const struct pith_deployment *d, const struct pith_room *r)
{
    size_t low = 0, high = d->model->model->shape.max_position;
    if (needed(d, r, d->demand.users, high) <= d->memory) return high;
    while (low + 1 < high) {
        const size_t mid = low + (high - low) / 2;
        if (needed(d, r, d->demand.users, mid) <= d->memory) low = mid;
        else high = mid;
    }
    return low;
}

void pith_room_find(const struct pith_deployment *d, struct pith_room *out)
{
    const unsigned devices = d->over.tensor * d->over.pipeline;
    const double users = (double)d->demand.users;
    *out = (struct pith_room){0};
    if (d->weights) out->weights = *d->weights;
    else pith_weigh(d->model, d->form, d->over, &out->weights);
    pith_weigh_cache(d->model, d->kv, d->over, d->demand.context, &out->cache);
    out->scratch = scratch_of(d, &out->cache);
    out->base = (d->model->model->plans.experts ? d->engine->mixture : d->engine->base) +
                (devices > 1 ? d->engine->link : 0);
    out->device = needed(d, out, d->demand.users, d->demand.context);
    out->cache_all = d->over.tensor > 1 ? fmax(out->cache.device * devices, out->cache.sequence)
                                        : out->cache.sequence;
    out->cache_all *= users;
    out->overhead_all = (out->scratch + out->base) * devices + out->weights.copies;
    out->total = out->weights.all + out->cache_all + out->overhead_all;
    out->fits = d->memory > 0 && out->device <= d->memory;
    if (d->memory <= 0) return;
    out->most_users = most_users(d, out);
    out->most_context = most_context(d, out);
}
