/* kern/grid.h: the constants of the grid operations of kern/ops.h, shared by all their versions. */
#ifndef PITH_KERN_GRID_H
#define PITH_KERN_GRID_H

/* 1.5 * 2^23: added to and subtracted from |x| < 2^22 it leaves x rounded to an integer, ties to
 * even. */
#define PITH_GRID_MAGIC 12582912.0f
#define PITH_GRID_LIMIT 1048576.0f

/* |x|^2.4 as x^2 a^(1/5) with a = x^2 and a^(1/5) = a z^4. The guess for z = a^(-1/5) comes from
 * the exponent bits: GUESS - a fifth of them, as an integer, are the bits of a number within 6%.
 * Three of Newton's steps z (1.2 - 0.2 a z^5), which need no division, leave a relative error below
 * 1e-6. */
#define PITH_POW24_GUESS 1277970816.0f

/* The levels of a float format with a sign, e exponent and m mantissa bits and the bias
 * 2^(e-1) - 1, as whole numbers and powers of two, with which float arithmetic is exact, so that
 * a vector unit needs no other. For t in 0..max, p the power of two at or below t but at least
 * min_normal, the nearest level is v = (t + p * magic) - p * magic. With b the bits of v as a
 * number, the code is max(b * unit - offset, min(v * per_step, normal)): the first is right from
 * min_normal on, the second, counting steps, below. */
struct pith_float_levels {
    float max, min_normal;
    float magic;    /* 2^(23 - m) */
    float unit;     /* 2^(m - 23) */
    float offset;   /* (127 - bias) 2^m */
    float per_step; /* 2^(m + bias - 1) */
    float normal;   /* 2^m: the code of min_normal */
    float sign;     /* 2^(e + m) */
};

static inline struct pith_float_levels pith_float_levels_of(int exponent, int mantissa, float max)
{
    const int bias = (1 << (exponent - 1)) - 1;
    return (struct pith_float_levels){
        .max = max,
        .min_normal = 2.0f / (float)(1 << bias),
        .magic = (float)(1 << (23 - mantissa)),
        .unit = 1.0f / (float)(1 << (23 - mantissa)),
        .offset = (float)((127 - bias) << mantissa),
        .per_step = (float)(1 << mantissa) * (float)(1 << bias) / 2.0f,
        .normal = (float)(1 << mantissa),
        .sign = (float)(1 << (exponent + mantissa)),
    };
}

#endif
