#define _GNU_SOURCE
#include "base/sparse_file.h"

#include "base/mem.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum pith_status pith_sparse_file_open(const char *dir, size_t size, struct pith_sparse_file *f,
                                       struct pith_error *err)
{
    *f = (struct pith_sparse_file){.size = size};
    PITH_TRY(pith_out_nameless(dir, 0, &f->out, err));
    enum pith_status s = PITH_OK;
    if (ftruncate(f->out.fd, (off_t)size) != 0)
        s = pith_fail_errno(err, "cannot make a scratch file in", dir);
    if (s == PITH_OK && size > 0) {
        void *at = mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, f->out.fd, 0);
        if (at == MAP_FAILED) s = pith_fail_errno(err, "cannot map a scratch file in", dir);
        else f->data = at;
    }
    if (s != PITH_OK) pith_out_close(&f->out);
    return s;
}

void pith_sparse_file_close(struct pith_sparse_file *f)
{
    if (f->data) munmap(f->data, f->size);
    pith_out_close(&f->out);
    *f = (struct pith_sparse_file){.out = {.fd = -1}};
}

enum pith_status pith_sparse_file_write(const struct pith_sparse_file *f, size_t offset,
                                        const void *data, size_t size, struct pith_error *err)
{
    return pith_out_write(&f->out, offset, data, size, err);
}

/* The whole pages of a part. */
static size_t pages_of(const struct pith_sparse_file *f, size_t offset, size_t size)
{
    const size_t parts = (size + PITH_SPARSE_ALIGN - 1) / PITH_SPARSE_ALIGN;
    const size_t end = offset + parts * PITH_SPARSE_ALIGN;
    return (end < f->size ? end : f->size) - offset;
}

enum pith_status pith_sparse_file_show(const struct pith_sparse_file *f, size_t offset, size_t size,
                                       struct pith_error *err)
{
    if (size == 0) return PITH_OK;
    return mprotect(f->data + offset, pages_of(f, offset, size), PROT_READ) == 0
               ? PITH_OK
               : pith_fail_errno(err, "cannot map", f->out.path);
}

void pith_sparse_file_drop(const struct pith_sparse_file *f, size_t offset, size_t size)
{
    const size_t all = size ? pages_of(f, offset, size) : 0;
    if (all == 0) return;
    /* Where the file system has no holes, the space goes when the file is closed. */
    (void)mprotect(f->data + offset, all, PROT_NONE);
    (void)fallocate(f->out.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                    (off_t)all);
}
