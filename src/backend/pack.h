/* backend/pack.h: quantized matrices packed into the panels of kern/panel.h, for pith_linear. */
#ifndef PITH_BACKEND_PACK_H
#define PITH_BACKEND_PACK_H

#include "backend/backend.h"
#include "kern/panel.h"

/* A packed matrix. Codes, scales, zeros and the order lie in memory of the caller's. */
struct pith_pack {
    uint32_t rows, cols;
    size_t panels;
    size_t bytes; /* of all parts: what one product with a vector reads */
    /* [rows][groups], added to the product with the sums of x over each group; NULL: none */
    const struct pith_weight *offsets;
    double bits_per_weight; /* of the matrix that was packed, by pith_qmat_bits_per_weight() */
    /* Integers and factors: columns of a block of x as bytes; as digits, which smaller groups than
     * 128 do not have: they come to float32 so often that multiplying in it is faster. 0: neither
     */
    size_t block, digits;
    struct pith_panels m;
    const uint32_t *order; /* column c of m is column order[c] of the matrix (act-order); NULL: c */
    struct pith_input input; /* of the matrix that was packed */
    size_t input_block;      /* columns of a block of x on its grid, as integers; 0: as floats */
};

/* Bytes that pith_pack_init() needs for q; 0 when q has no packed form: separate levels for rows or
 * a sparse part, offsets of tiles or very many groups, columns or groups that do not fill the
 * lines, floats of 6 bits; with g_idx also groups of unequal size or an input on a grid, whose
 * scales would cover other columns. Integers of 2, 3, 5 and 6 bits keep their width where groups
 * are whole steps of 16 columns; else, and those of 7 bits, they take the form of 4 or 8 bits. */
size_t pith_pack_bytes(const struct pith_qmat *q);

/* The same of a matrix that has no numbers yet; `input` is the grid of what it is multiplied with,
 * NULL for none. A g_idx counts as one of groups of equal size, E4M3 scales as exact: the rest of
 * the layout depends on the spec alone. */
size_t pith_pack_spec_bytes(const struct pith_qspec *s, const struct pith_grid *input);

/* Whether the exact mode multiplies with such a matrix by digits of bytes, where rows are enough:
 * that takes the work space of pith_mode_integer_bytes(). */
bool pith_pack_spec_digits(const struct pith_qspec *s);
/* Bytes that its products take of the memory of pith_backend_take_prepared(), with so many rows:
 * sums of x where it has offsets. In whole huge pages; 0 for none. */
size_t pith_pack_spec_prepared(const struct pith_qspec *s, size_t rows);

/* Packs q, whose pith_pack_bytes() is not 0, into memory (aligned to 64 bytes) that must outlive
 * *out; q is needed no longer. Over all threads; not from inside a pool task. */
void pith_pack_init(struct pith_backend *b, const struct pith_qmat *q, void *memory,
                    struct pith_pack *out);

/* Whether products with it need pith_backend_take_prepared(): it has a permuted order, or offsets.
 */
bool pith_pack_prepares(const struct pith_pack *p);

/* A row of it as float32: the values of pith_weight_decode(), zeros maybe of the other sign. */
void pith_pack_row(const struct pith_pack *p, uint32_t row, float *out);

/* A matrix that is not packed rounded to int8:channel, scale = max |row| / 127, nearest even: what
 * the fast mode makes of a head. PITH_NUMERIC when a row is not finite; on failure *out owns
 * nothing. */
enum pith_status pith_round_to_bytes(struct pith_backend *b, const struct pith_weight *w,
                                     struct pith_qmat *out, struct pith_error *err);

#endif
