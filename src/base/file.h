/* base/file.h: files as pith uses them: mapped for reading, written in full, then renamed. */
#ifndef PITH_BASE_FILE_H
#define PITH_BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A read-only mapping of a whole file. An empty file maps to data == NULL, size == 0. */
struct pith_map {
    const uint8_t *data;
    size_t size;
    unsigned guard;        /* base/guard.h */
    uint64_t device, node; /* which file it is */
    int64_t changed;       /* when it last was, in nanoseconds */
};

/* Maps `path`; on failure *map owns nothing. Regular files only. */
enum pith_status pith_map_open(const char *path, struct pith_map *map, struct pith_error *err);
void pith_map_close(struct pith_map *map);
/* To be called before what was read from a mapping is reported or stored: PITH_IO when the file
 * became shorter or could not be read, or, unless this process writes to it (`written`), when it
 * was changed since. A file that was replaced by another of its name is still mapped as it was. */
enum pith_status pith_map_check(const struct pith_map *map, const char *path, bool written,
                                struct pith_error *err);

/* Informs the kernel that this part of a mapping is not needed soon (bounded resident memory). */
void pith_map_release(const struct pith_map *map, size_t offset, size_t size);

/* Informs the kernel that this part will be needed soon: it begins to read and does not wait. */
void pith_map_prefetch(const struct pith_map *map, size_t offset, size_t size);

/* The same for any mapped pages. */
void pith_pages_prefetch(const void *data, size_t size);

/* A file of `size` bytes mapped for reading and writing: scratch that may be larger than memory,
 * and that a later run finds again. Created when missing; its content stays when it has that size
 * already, else zero. The space is reserved. */
struct pith_scratch_file {
    void *data;
    size_t size;
    unsigned guard;
};
enum pith_status pith_scratch_file_open(const char *path, size_t size,
                                        struct pith_scratch_file *out, struct pith_error *err);
/* One of FOLDER/NAME.NUMBER that is this process' alone, and gone when it is closed or killed. */
enum pith_status pith_scratch_file_own(const char *folder, const char *name, unsigned number,
                                       size_t size, struct pith_scratch_file *out,
                                       struct pith_error *err);
void pith_scratch_file_close(struct pith_scratch_file *f);
/* As pith_map_check(): PITH_IO when some of it is lost. `what` names it. */
enum pith_status pith_scratch_file_check(const struct pith_scratch_file *f, const char *what,
                                         struct pith_error *err);

/* Reads a whole file of at most `limit` bytes; *out is NUL-terminated (not counted in *size) and
 * freed with pith_free(). PITH_FORMAT when it is larger. */
enum pith_status pith_file_read(const char *path, size_t limit, char **out, size_t *size,
                                struct pith_error *err);

/* The same for a file that pith itself wrote: PITH_IO when a link stands in its place, to another
 * name or from one. */
enum pith_status pith_file_read_own(const char *path, size_t limit, char **out, size_t *size,
                                    struct pith_error *err);

/* Appends to a file (created when missing) and syncs it. Links as for pith_file_read_own(). */
enum pith_status pith_file_append(const char *path, const void *data, size_t size,
                                  struct pith_error *err);

/* Replaces `path` by `size` bytes: written under another name, synced, renamed. Whatever happens,
 * `path` holds either its old content or the new one, whole. Links are replaced, never followed. */
enum pith_status pith_file_write(const char *path, const void *data, size_t size,
                                 struct pith_error *err);

/* Copies a regular file like pith_file_write() would. */
enum pith_status pith_file_copy(const char *from, const char *to, struct pith_error *err);

/* A file open for writing at any offset; fd < 0 when closed. */
struct pith_out {
    int fd;
    char *path; /* owned */
    int direct; /* the same file, read past the page cache; <= 0: where that cannot be */
};

/* Opens `path` for reading and writing, creating it; keeps its content. When size > 0, its length
 * becomes `size` and the space is reserved, so that a full disk shows now and not hours later.
 * Links as for pith_file_read_own(). */
enum pith_status pith_out_open(const char *path, uint64_t size, struct pith_out *out,
                               struct pith_error *err);
/* A file without a name in the folder `dir`, of `size` bytes (reserved): what is made once and read
 * from then on. It goes with the last that holds it: `out`, or a mapping. */
enum pith_status pith_out_nameless(const char *dir, uint64_t size, struct pith_out *out,
                                   struct pith_error *err);
/* Maps what such a file holds; it may be closed then. */
enum pith_status pith_map_out(const struct pith_out *out, struct pith_map *map,
                              struct pith_error *err);
enum pith_status pith_out_write(const struct pith_out *out, uint64_t offset, const void *data,
                                size_t size, struct pith_error *err);
/* Asks the kernel to begin writing this part to the disk; a sync is then short. */
void pith_out_begin_sync(const struct pith_out *out, uint64_t offset, uint64_t size);
enum pith_status pith_out_sync(const struct pith_out *out, struct pith_error *err);
/* Opens a file of exactly `size` bytes that pith wrote, to read back what the disk has of it: what
 * the page cache holds is dropped, as far as nobody has it mapped, and gone past by
 * pith_out_read_direct(). Links as for pith_file_read_own(); PITH_MISMATCH for another size. */
enum pith_status pith_out_reopen(const char *path, uint64_t size, struct pith_out *out,
                                 struct pith_error *err);
/* Reads exactly `size` bytes from `offset` on; PITH_IO when the file ends before. For tasks too. */
enum pith_status pith_out_read(const struct pith_out *out, uint64_t offset, void *data, size_t size,
                               struct pith_error *err);
/* What is read past the page cache begins and ends at multiples of this. */
enum { PITH_DIRECT_ALIGN = 4096 };
/* As pith_out_read(), of a file of pith_out_reopen(), past the page cache where the file system
 * can: the bytes come from the disk, and no page is filled and copied on the way. `room` holds size
 * + 2 * PITH_DIRECT_ALIGN bytes and is aligned to one; *data is where in it they begin. */
enum pith_status pith_out_read_direct(const struct pith_out *out, uint64_t offset, void *room,
                                      size_t size, const void **data, struct pith_error *err);
/* Which file it is, how long, and when it last changed: what was read since a stamp was taken is
 * what the file holds, as long as its name still gives the same stamp. Of a link, the link's own.
 */
struct pith_stamp {
    uint64_t device, node, size;
    int64_t written, changed;
};
enum pith_status pith_file_stamp(const char *path, struct pith_stamp *out, struct pith_error *err);
/* Closes; *out may be closed already. */
void pith_out_close(struct pith_out *out);

/* Bytes that a user may still write where the file or folder is; UINT64_MAX when not known. */
uint64_t pith_disk_free(const char *path);

/* Makes a directory (parents must exist); an existing directory is fine. */
enum pith_status pith_dir_make(const char *path, struct pith_error *err);
/* Syncs a directory, so that names created or renamed in it survive a power cut. */
enum pith_status pith_dir_sync(const char *path, struct pith_error *err);
/* Claims a directory against other processes for as long as this one lives, or until
 * pith_dir_unlock(*lock). PITH_IO when another holds it. File systems without locks let everyone
 * in. A link in the folder's place is PITH_IO. */
enum pith_status pith_dir_lock(const char *path, int *lock, struct pith_error *err);
void pith_dir_unlock(int lock); /* -1 is allowed */
/* Removes the files of a directory, folders in it likewise, and the directory. Links are removed
 * themselves. */
enum pith_status pith_dir_remove(const char *path, struct pith_error *err);
/* Removes the folder if it is empty. */
void pith_dir_drop(const char *path);
/* Names in a directory, sorted, without "." and ".."; free with pith_names_free(). */
enum pith_status pith_dir_list(const char *path, char ***names, size_t *count,
                               struct pith_error *err);
void pith_names_free(char **names, size_t count);
/* Adds others and sorts the whole. Takes `more`, also after a failure, which leaves *names as they
 * were. */
enum pith_status pith_names_add(char ***names, size_t *count, char **more, size_t n,
                                struct pith_error *err);

/* What `to` was goes; no folder is synced. */
enum pith_status pith_rename(const char *from, const char *to, struct pith_error *err);
/* Two files or folders exchange their names, at once. PITH_IO where the file system cannot. */
enum pith_status pith_rename_exchange(const char *a, const char *b, struct pith_error *err);
enum pith_status pith_unlink(const char *path, struct pith_error *err); /* a missing file is fine */
/* False when it is missing; true also of what cannot be looked at: opening it reports why. */
bool pith_path_exists(const char *path);
/* PITH_OK when there is something, which may be a link to nothing; else PITH_IO: "no such file or
 * folder", or why that cannot be known. */
enum pith_status pith_path_look(const char *path, struct pith_error *err);
bool pith_path_is_dir(const char *path);
/* "dir/name", or NULL when memory is out; pith_free() it. */
char *pith_path_join(const char *dir, const char *name);
/* The folder that a path's last name is in ("." for a plain name), or NULL when memory is out;
 * pith_free() it. */
char *pith_path_parent(const char *path);
/* True for a plain file name: not empty, no '/', not "." or "..". Names read from files must pass
 * this before they are joined to a folder. */
bool pith_path_is_plain(const char *name);

/* Size in bytes and time of last change in nanoseconds of a file. */
enum pith_status pith_file_stat(const char *path, uint64_t *size, int64_t *modified_ns,
                                struct pith_error *err);

/* Monotonic seconds since an arbitrary start. */
double pith_clock(void);
/* Seconds that the process has had processors for, all threads together. */
double pith_processor_clock(void);

/* Largest resident set of this process so far, in bytes: all of it, and (0 where unknown)
 * now-resident anonymous memory, which leaves mapped files out. */
uint64_t pith_memory_peak(void);
uint64_t pith_memory_anonymous(void);
/* Both kinds of now-resident memory at once: anonymous, and pages of mapped files (which the
 * system takes back when others need them); 0 where unknown. */
void pith_memory_now(uint64_t *anonymous, uint64_t *mapped);

#endif
