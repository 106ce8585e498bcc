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

#endif
