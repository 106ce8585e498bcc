/* kern/peak.h: what the peak_ kernels share: twelve registers of sums, so that a unit of which two
 * or three start at a time and which takes four steps never waits. */
#ifndef PITH_KERN_PEAK_H
#define PITH_KERN_PEAK_H

#include "kern/ops.h"

#define PITH_TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

#endif
