/* base/cpu.h: which instruction sets this CPU and operating system allow. */
#ifndef PITH_BASE_CPU_H
#define PITH_BASE_CPU_H

#include <stddef.h>
#include <stdint.h>

/* Each tier includes what stands above it. Values are bits of a mask. */
enum pith_cpu {
    PITH_CPU_SCALAR = 0,
    PITH_CPU_AVX2 = 1 << 0,   /* AVX2, FMA, F16C */
    PITH_CPU_AVX512 = 1 << 1, /* F, BW, VL, DQ */
    PITH_CPU_NEON = 1 << 2,
    PITH_CPU_VNNI = 1 << 3, /* AVX-512 VNNI: dot products of bytes */
    PITH_CPU_BF16 = 1 << 4, /* AVX-512 BF16: dot products of pairs of bfloat16 */
    PITH_CPU_DOTPROD = 1 << 5, /* 64-bit Arm: dot products of bytes */
    PITH_CPU_AMX = 1 << 6, /* tiles of bytes and of bfloat16 */
    PITH_CPU_ALL = 0x7fffffff
};

/* The bits that this machine has. */
uint32_t pith_cpu_detect(void);

/* The i-th name that pith_cpu_mask() knows; NULL behind the last. */
const char *pith_cpu_tier(size_t i);
/* Mask for a tier by name ("scalar", "avx2", "avx512", "vnni", "bf16", "amx", "neon", "dotprod",
 * "auto"): that tier and all below it. Returns -1 for an unknown name. */
int64_t pith_cpu_mask(const char *name);

/* The name of the best tier within a mask. */
const char *pith_cpu_name(uint32_t mask);

#endif
