/* io/row_order.h: how the rows of a matrix (or the elements of a vector) lie in a file that has
 * them in another order than Hugging Face's checkpoints, and what its numbers are there. {0}: as
 * shown.
 *
 * Sources: llama.cpp conversion/llama.py (permute()), conversion/qwen.py (in_proj_qkvz, norms,
 * A_log, heads of values), conversion/deepseek.py (kv_b_proj). */
#ifndef PITH_IO_ROW_ORDER_H
#define PITH_IO_ROW_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PITH_STOW_PARTS = 4 };

enum pith_stow_kind {
    PITH_STOW_STRAIGHT,
    /* Runs of `groups` groups, each of `parts` parts of `size` rows, as shown; in the file a run is
     * the first part of each group, the second of each, and so on. */
    PITH_STOW_PARTED,
    /* The columns of each row, as shown, are `groups` groups of `parts` parts of one size; in the
     * file a row is the first part of each group, the second of each, and so on. */
    PITH_STOW_ACROSS,
    /* `groups` heads of size[0] rows and size[1] rows, as shown; in the file stand the former of
     * all heads, each head's transposed, behind them the latter. */
    PITH_STOW_LATENT
};

struct pith_stow {
    enum pith_stow_kind kind;
    uint32_t groups, parts;
    uint32_t even; /* the size of every part; 0: they are of size[] */
    uint32_t skip; /* rows in front of the first run, which lie where they are shown */
    uint32_t size[PITH_STOW_PARTS];
};

/* Rows of q and k in so many heads: llama.cpp rotates neighbouring channels where Hugging Face
 * rotates those half a head apart. Straight for 0 heads. */
struct pith_stow pith_stow_interleaved(uint64_t rows, uint32_t heads);

/* Whether a matrix of that many rows falls into whole runs; of ACROSS its columns may yet not. */
bool pith_stow_fits(const struct pith_stow *o, uint64_t rows);
/* Whether whole rows move: then the two below give the place. */
static inline bool pith_stow_by_rows(const struct pith_stow *o)
{
    return o->kind != PITH_STOW_LATENT && o->kind != PITH_STOW_ACROSS;
}
/* Into how many parts each row falls, which move within it; 1: into none. */
static inline uint64_t pith_stow_pieces(const struct pith_stow *o)
{
    return o->kind == PITH_STOW_ACROSS ? (uint64_t)o->groups * o->parts : 1;
}
/* Of ACROSS: which part of a row, as it is shown, lies at part `at` in the file. */
static inline uint64_t pith_stow_piece_at(const struct pith_stow *o, uint64_t at)
{
    return at % o->groups * o->parts + at / o->groups;
}
/* Where row r lies; which row lies at `place`. */
uint64_t pith_stow_place(const struct pith_stow *o, uint64_t r);
uint64_t pith_stow_row(const struct pith_stow *o, uint64_t place);

/* A whole matrix, as one of the kind lies in a file. */
struct pith_stow_shape {
    uint64_t rows, cols;
    size_t element; /* bytes; for PITH_STOW_LATENT a whole number's, else any, cols being 1 */
};
/* As the file has it from as it is shown, and the reverse. `from` and `to` do not overlap. */
void pith_stow_apply(const struct pith_stow *o, const struct pith_stow_shape *s,
                     const uint8_t *from, uint8_t *to);
void pith_stow_undo(const struct pith_stow *o, const struct pith_stow_shape *s, const uint8_t *from,
                    uint8_t *to);

/* What numbers are in the file: themselves, one more, or -exp() of them. */
enum pith_stored_as { PITH_AS_SHOWN, PITH_AS_PLUS_ONE, PITH_AS_MINUS_EXP };
void pith_stored_apply(enum pith_stored_as as, float *x, size_t n);
void pith_stored_undo(enum pith_stored_as as, float *x, size_t n);

#endif
