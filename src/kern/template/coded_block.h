/* kern/template/coded_block.h: what coded_bytes_template.h and its tiers share. */
#ifndef PITH_KERN_CODED_BLOCK_H
#define PITH_KERN_CODED_BLOCK_H

#include <stddef.h>
#include <stdint.h>

/* A block of some rows, `ld` blocks apart: q[r * ld * 32], sum[r * ld]. */
struct coded_block {
    const int8_t *q;
    const int32_t *sum;
    size_t ld;
};

#endif
