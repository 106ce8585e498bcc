/* num/grid.h: the vocabulary of grids: a format, which elements share a scale, symmetric or not,
 * how the scale is found. FORMAT[:GRANULARITY][:asym][:mse][:static][:dq][:hqq][:even][:ceil], see
 * docs/formats.md. */
#ifndef PITH_NUM_GRID_H
#define PITH_NUM_GRID_H

#include "base/status.h"
#include "num/format.h"

enum pith_granularity {
    PITH_PER_TENSOR,
    PITH_PER_CHANNEL, /* one output row */
    PITH_PER_GROUP,   /* `group` consecutive inputs of a row; a last, shorter group is allowed */
    PITH_PER_BLOCK,   /* `group` x `group` tiles */
    PITH_PER_TOKEN,   /* activations only */
    PITH_PER_HEAD     /* keys and values only: one for each head of a layer, static */
};

struct pith_grid {
    const struct pith_format *format; /* NULL: no grid ("none") */
    enum pith_granularity granularity;
    uint32_t group;    /* for groups and blocks, else 0 */
    bool asym;         /* a zero point a scale */
    bool mse;          /* scale by least squared error instead of absmax */
    bool is_static;    /* activations: scale fixed by calibration */
    bool double_quant; /* scales quantized again */
    bool hqq;          /* asymmetric integers: zero points are any numbers, half-quadratic ones */
    bool even, ceil;   /* mx formats: other rules for the power of two, see quant/grid/mx.c */
};

/* Parses and checks ("int4:g128:asym"). Without a granularity: int and fp8 formats channel,
 * codebooks g64, block formats their own block. PITH_ARG names the part that is wrong and what
 * would be right. */
enum pith_status pith_grid_parse(const char *text, struct pith_grid *out, struct pith_error *err);

/* The same for a text that takes the place of `usual`: what it leaves open stays as it was there,
 * where both are of one kind (integers, floats of 8 bits, codebooks, blocks) and the whole is a
 * grid. A format alone takes granularity and flags ("int3" for int4:g128:asym is int3:g128:asym), a
 * format with flags the granularity. */
enum pith_status pith_grid_parse_like(const char *text, const struct pith_grid *usual,
                                      struct pith_grid *out, struct pith_error *err);

/* How a matrix on that grid is stored: a block format becomes its element format in groups of the
 * block, and *scale_dtype (may be NULL) the dtype of its scales; other grids stay as they are. */
struct pith_grid pith_grid_elements(const struct pith_grid *g, enum pith_dtype *scale_dtype);

/* Weights of a row of `cols` that share a scale, as a matrix on that grid holds them. */
uint32_t pith_grid_group(const struct pith_grid *g, uint32_t cols);
/* Rows of scales of a matrix of `rows`. */
uint32_t pith_grid_scale_rows(const struct pith_grid *g, uint32_t rows);

/* Equal in what a matrix on it means: how the scales are found (mse) may differ; that zero points
 * are any numbers (hqq) may not. */
bool pith_grid_equal(const struct pith_grid *a, const struct pith_grid *b);

/* Completes a grid that is meant for keys and values: FP8 without a granularity is by tensor, and
 * scales by tensor, by head, and nvfp4's own are static. */
void pith_kv_grid_settle(struct pith_grid *g);

/* The canonical text of a grid; at most PITH_GRID_TEXT bytes with the NUL. parse(format(g)) ==
 * g. */
#define PITH_GRID_TEXT 64
void pith_grid_format(const struct pith_grid *g, char text[PITH_GRID_TEXT]);

#endif
