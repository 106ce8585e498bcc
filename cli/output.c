#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* False, with what errno says. */
static bool refuse(const char *path, struct pith_error *err)
{
    *err = (struct pith_error){.status = errno == ENOMEM ? PITH_NOMEM : PITH_IO};
    snprintf(err->text, sizeof err->text, "%s: cannot write: %s", path, strerror(errno));
    return false;
}

/* "PATH.partial"; NULL when memory is out. */
static char *name_temporary(const char *path)
{
    const size_t length = strlen(path) + sizeof ".partial";
    char *temporary = malloc(length);
    if (temporary) snprintf(temporary, length, "%s.partial", path);
    return temporary;
}

/* Whether what is there is to be written into: it is something, and no plain file. */
static bool is_special(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Creates the temporary file next to it; -1, and errno. */
static int open_temporary(const char *path, const char *temporary)
{
    struct stat st;
    if (lstat(path, &st) == 0 && access(path, W_OK) != 0) return -1;
    if (unlink(temporary) != 0 && errno != ENOENT) return -1;
    return open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

bool can_write(const char *path, struct pith_error *err)
{
    struct stat st;
    if (is_special(path)) {
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) errno = EISDIR;
        else if (access(path, W_OK) == 0 || errno == ENOENT) return true;
        return refuse(path, err);
    }
    char *temporary = name_temporary(path);
    const int fd = temporary ? open_temporary(path, temporary) : -1;
    if (fd < 0) (void)refuse(path, err);
    if (fd >= 0) {
        close(fd);
        unlink(temporary);
    }
    free(temporary);
    return fd >= 0;
}

static bool write_all(int fd, const char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        const ssize_t n = write(fd, text + at, size - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        at += (size_t)n;
    }
    return true;
}

bool write_whole(const char *path, const char *text, size_t size, struct pith_error *err)
{
    const bool special = is_special(path);
    char *temporary = name_temporary(path);
    const int fd = !temporary ? -1
                   : special  ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
                              : open_temporary(path, temporary);
    bool good = fd >= 0 && write_all(fd, text, size) && (special || fsync(fd) == 0);
    if (good && !special) good = rename(temporary, path) == 0;
    if (!good) (void)refuse(path, err);
    if (fd >= 0) close(fd);
    if (fd >= 0 && !good && !special) unlink(temporary);
    free(temporary);
    return good;
}
