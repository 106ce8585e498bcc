#include "base/cpu.h"

#include "base/amx.h"
#include "base/names.h"

#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
uint32_t pith_cpu_detect(void)
{
    uint32_t mask = 0;
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return mask;
    mask |= PITH_CPU_AVX2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        mask |= PITH_CPU_AVX512;
    if (!(mask & PITH_CPU_AVX512) || !__builtin_cpu_supports("avx512vnni")) return mask;
    mask |= PITH_CPU_VNNI;
    if (!__builtin_cpu_supports("avx512bf16")) return mask;
    mask |= PITH_CPU_BF16;
    return pith_amx_usable() ? mask | PITH_CPU_AMX : mask;
}
#elif defined(__aarch64__)
uint32_t pith_cpu_detect(void)
{
    return PITH_CPU_NEON | (getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? PITH_CPU_DOTPROD : 0);
}
#else
uint32_t pith_cpu_detect(void)
{
    return PITH_CPU_SCALAR;
}
#endif

static const struct {
    const char *name;
    uint32_t mask;
} tiers[] = {
    {"scalar", PITH_CPU_SCALAR},
    {"avx2", PITH_CPU_AVX2},
    {"avx512", PITH_CPU_AVX2 | PITH_CPU_AVX512},
    {"vnni", PITH_CPU_AVX2 | PITH_CPU_AVX512 | PITH_CPU_VNNI},
    {"bf16", PITH_CPU_AVX2 | PITH_CPU_AVX512 | PITH_CPU_VNNI | PITH_CPU_BF16},
    {"amx", PITH_CPU_AVX2 | PITH_CPU_AVX512 | PITH_CPU_VNNI | PITH_CPU_BF16 | PITH_CPU_AMX},
    {"neon", PITH_CPU_NEON},
    {"dotprod", PITH_CPU_NEON | PITH_CPU_DOTPROD},
    {"auto", PITH_CPU_ALL},
};

const char *pith_cpu_tier(size_t i)
{
    return i < sizeof tiers / sizeof tiers[0] ? tiers[i].name : NULL;
}

int64_t pith_cpu_mask(const char *name)
{
    for (unsigned i = 0; i < sizeof tiers / sizeof tiers[0]; i++)
        if (pith_name_equal(name, tiers[i].name)) return tiers[i].mask;
    return -1;
}

const char *pith_cpu_name(uint32_t mask)
{
    if (mask & PITH_CPU_AMX) return "amx";
    if (mask & PITH_CPU_BF16) return "bf16";
    if (mask & PITH_CPU_VNNI) return "vnni";
    if (mask & PITH_CPU_AVX512) return "avx512";
    if (mask & PITH_CPU_AVX2) return "avx2";
    if (mask & PITH_CPU_DOTPROD) return "dotprod";
    if (mask & PITH_CPU_NEON) return "neon";
    return "scalar";
}
