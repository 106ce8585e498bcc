/* kern/peak.h: what the read_ and peak_ kernels share: registers by name, since an array of them
 * may end up in memory. With twelve sums a unit of which two or three start at a time and which
 * takes four steps never waits; with eight loads as many cache misses are under way as the
 * processor can have. */
#ifndef PITH_KERN_PEAK_H
#define PITH_KERN_PEAK_H

#include "kern/ops.h"

#define PITH_SEVEN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6)
#define PITH_EIGHT(X) PITH_SEVEN(X) X(7)
#define PITH_TWELVE(X) PITH_EIGHT(X) X(8) X(9) X(10) X(11)

#endif
