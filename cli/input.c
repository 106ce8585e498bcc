#include "cli/input.h"

#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Room for `size` bytes and a NUL more; false, and errno, when there is none. */
static bool make_room(char **text, size_t size)
{
    enum { MOST = 1 << 26 };
    char *more = size > MOST ? NULL : realloc(*text, size + 1);
    if (more) *text = more;
    else errno = size > MOST ? EFBIG : ENOMEM;
    return more != NULL;
}

/* *size bytes; false, and errno, when not all could be read: EINTR, after a signal. */
static bool read_all(int fd, char **text, size_t *size)
{
    enum { STEP = 1 << 16 };
    ssize_t got = 1;
    for (*size = 0; got > 0; *size += got > 0 ? (size_t)got : 0) {
        if (!make_room(text, *size + STEP)) return false;
        if (!interrupt_wait(fd)) {
            errno = EINTR;
            return false;
        }
        got = read(fd, *text + *size, STEP);
    }
    return got == 0;
}

char *read_whole(const char *path, const char *name, struct pith_error *err)
{
    const bool input = strcmp(path, "-") == 0;
    const int fd = input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    size_t size = 0;
    bool good = fd >= 0 && read_all(fd, &text, &size);
    const char *what = !input ? path : name ? name : "standard input";
    if (!good) {
        *err = (struct pith_error){.status = errno == EINTR ? PITH_INTERRUPTED : PITH_IO};
        if (errno == EINTR) snprintf(err->text, sizeof err->text, "interrupted");
        else snprintf(err->text, sizeof err->text, "%s: cannot read: %s", what, strerror(errno));
    } else if (memchr(text, 0, size)) {
        *err = (struct pith_error){.status = PITH_FORMAT};
        snprintf(err->text, sizeof err->text, "%s: not UTF-8: byte %zu is NUL; UTF-16 perhaps?",
                 what, (size_t)((char *)memchr(text, 0, size) - text));
        good = false;
    }
    if (fd >= 0 && !input) close(fd);
    if (good) text[size] = '\0';
    else free(text);
    return good ? text : NULL;
}

bool read_first_line(const char *path, const char *what, char *line, size_t room,
                     struct pith_error *err)
{
    FILE *f = fopen(path, "re");
    size_t n = 0;
    *err = (struct pith_error){.status = PITH_IO};
    while (f && n == 0 && fgets(line, (int)room, f)) {
        n = strlen(line);
        while (n > 0 && strchr(" \t\r\n", line[n - 1])) line[--n] = '\0';
    }
    if (!f || (n == 0 && ferror(f)))
        snprintf(err->text, sizeof err->text, "%s: cannot read: %s", path, strerror(errno));
    else if (n == 0) snprintf(err->text, sizeof err->text, "%s: there is no %s in it", path, what);
    if (f) fclose(f);
    return n > 0;
}
