/* base/sparse_file.h: a scratch file without a name, larger than what it holds at any time: parts
 * of it are filled, read through a mapping, and dropped again.
 *
 * What is not filled may not be read: its pages cannot be touched, so that a reader who forgot to
 * fill a part is stopped at once, and never reads zeros. */
#ifndef PITH_BASE_SPARSE_FILE_H
#define PITH_BASE_SPARSE_FILE_H

#include "base/file.h"

/* Parts begin at multiples of this, which every page size in use divides. */
enum { PITH_SPARSE_ALIGN = 1 << 16 };

struct pith_sparse_file {
    struct pith_out out;
    uint8_t *data; /* the mapping; NULL for a file of no bytes */
    size_t size;
};

/* In the folder `dir`; no space is reserved. On failure *f owns nothing. */
enum pith_status pith_sparse_file_open(const char *dir, size_t size, struct pith_sparse_file *f,
                                       struct pith_error *err);
void pith_sparse_file_close(struct pith_sparse_file *f);

/* Writes bytes of a part, which is not readable yet. PITH_IO when the disk is full. For any
 * thread. */
enum pith_status pith_sparse_file_write(const struct pith_sparse_file *f, size_t offset,
                                        const void *data, size_t size, struct pith_error *err);
/* Makes the part [offset, offset + size) readable; offset is a multiple of the alignment, and no
 * other part begins before the next multiple behind its end. For any thread. */
enum pith_status pith_sparse_file_show(const struct pith_sparse_file *f, size_t offset, size_t size,
                                       struct pith_error *err);
/* Gives the part's pages and its space on the disk back: it may not be read until it is filled
 * again. */
void pith_sparse_file_drop(const struct pith_sparse_file *f, size_t offset, size_t size);

#endif
