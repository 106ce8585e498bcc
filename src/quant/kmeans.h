/* quant/kmeans.h: the best levels for weighted numbers, exactly.
 *
 * In one dimension the clusters of an optimal k-means are runs of the sorted numbers, so the best
 * ones come from dynamic programming (Wang and Song 2011) instead of from a start and luck: with
 * S and F the running sums of weight * value and of weight, putting i..j-1 into one cluster costs
 * a constant less (S_j - S_i)^2 / (F_j - F_i). Where the best last cluster begins never falls as j
 * grows, which divides the search: n log n steps a level. */
#ifndef PITH_QUANT_KMEANS_H
#define PITH_QUANT_KMEANS_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of scratch for at most n numbers and k levels. */
size_t pith_kmeans_bytes(size_t n, unsigned k);

/* Chooses levels[k], ascending, so that the sum of weight[i] * (x[i] - nearest level)^2 is least,
 * and returns that sum. x[n] is finite, weight[n] finite and not negative (NULL: all 1); numbers of
 * weight 0, or less than 2^-32 of the sum, have no say, and when all are of weight 0 they count
 * alike. With fewer than k distinct numbers the largest level is repeated; n = 0 gives zeros.
 * scratch: pith_kmeans_bytes(n, k), aligned for double. The same bits on every machine. */
double pith_kmeans(const float *x, const float *weight, size_t n, unsigned k, float *levels,
                   void *scratch);

/* The index of the level nearest to x, the lower of two as near; levels[k] ascending, k at least 1.
 * NaN takes the first. */
uint32_t pith_kmeans_nearest(const float *levels, unsigned k, float x);

#endif
