/* kern/exp.h: constants of pith_exp_f32(), pith_exp_f64() and what is made of them, shared by all
 * instruction sets.
 *
 * x = n ln 2 + r with n = the integer nearest to x / ln 2; e^x = 2^n e^r. Adding 1.5 * 2^23
 * (2^52) to x / ln 2 rounds it to an integer that then sits in the low bits of the sum. ln 2 is
 * subtracted in two pieces, so r is good to the last bit. e^r, |r| <= 0.347, is its Taylor
 * polynomial: of degree 7 (error 5e-9 relative) and 13 (4e-18). */
#ifndef PITH_KERN_EXP_H
#define PITH_KERN_EXP_H

#define PITH_EXP32_LOW (-104.0f) /* e^-104 is below half the least subnormal */
#define PITH_EXP32_HIGH 89.0f    /* e^89 is above the greatest float */
#define PITH_EXP32_LOG2E 0x1.715476p+0f
#define PITH_EXP32_MAGIC 0x1.8p+23f
#define PITH_EXP32_MAGIC_BITS 0x4b400000
#define PITH_EXP32_LN2_HIGH 0x1.62e400p-1f
#define PITH_EXP32_LN2_LOW 0x1.7f7d1cp-20f

/* Horner's scheme from the highest power down; the last two coefficients are 1. */
#define PITH_EXP32_POLY(FIRST, NEXT)                                                               \
    FIRST(1.0f / 5040)                                                                             \
    NEXT(1.0f / 720) NEXT(1.0f / 120) NEXT(1.0f / 24) NEXT(1.0f / 6)                               \
    NEXT(0.5f) NEXT(1.0f) NEXT(1.0f)

#define PITH_EXP64_LOW (-700.0)
#define PITH_EXP64_HIGH 710.0 /* e^710 is above the greatest double */
#define PITH_EXP64_LOG2E 0x1.71547652b82fep+0
#define PITH_EXP64_MAGIC 0x1.8p+52
#define PITH_EXP64_MAGIC_BITS 0x4338000000000000
#define PITH_EXP64_LN2_HIGH 0x1.62e42fefa3800p-1
#define PITH_EXP64_LN2_LOW 0x1.ef35793c76730p-45

#define PITH_EXP64_POLY(FIRST, NEXT)                                                               \
    FIRST(1.0 / 6227020800)                                                                        \
    NEXT(1.0 / 479001600) NEXT(1.0 / 39916800) NEXT(1.0 / 3628800) NEXT(1.0 / 362880)              \
    NEXT(1.0 / 40320) NEXT(1.0 / 5040) NEXT(1.0 / 720) NEXT(1.0 / 120) NEXT(1.0 / 24)              \
    NEXT(1.0 / 6) NEXT(0.5) NEXT(1.0) NEXT(1.0)

/* GELU by tanh (Hendrycks and Gimpel 2016, section 2): sqrt(2 / pi), and the cube's factor. */
#define PITH_GELU_ROOT 0.79788456080286535588
#define PITH_GELU_CUBE 0.044715

#endif
