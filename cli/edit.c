#include "cli/edit.h"

#include "cli/interrupt.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#if defined(__has_include)
#if __has_include(<histedit.h>)
#define HAVE_LIBEDIT 1
#endif
#endif

#ifdef HAVE_LIBEDIT
#include <histedit.h>
#endif

struct editor {
    const char *prompt;
    char *line;
    size_t capacity;
#ifdef HAVE_LIBEDIT
    EditLine *el;
    History *history;
    char *path, *temporary; /* of the history; NULL: it is not saved */
#endif
};

void editor_prompt(struct editor *e, const char *prompt)
{
    e->prompt = prompt;
}

/* Ctrl-C cancels a line; SIGTERM ends. */
static enum edited cancelled(void)
{
    interrupt_clear();
    return interrupt_is_final() ? EDIT_END : EDIT_CANCELLED;
}

#ifdef HAVE_LIBEDIT

static char *give_prompt(EditLine *el)
{
    struct editor *e = NULL;
    el_get(el, EL_CLIENTDATA, &e);
    return (char *)(uintptr_t)e->prompt;
}

/* The next character for libedit: 1, 0 at the end, -1 after a signal. Bytes that are no character
 * of the locale are skipped. */
static int give_character(EditLine *el, wchar_t *c)
{
    mbstate_t state = {0};
    (void)el;
    for (;;) {
        char byte;
        if (!interrupt_wait(STDIN_FILENO)) {
            errno = EINTR;
            return -1;
        }
        const ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n <= 0) return (int)n;
        const size_t used = mbrtowc(c, &byte, 1, &state);
        if (used == (size_t)-1) state = (mbstate_t){0};
        else if (used != (size_t)-2) return 1;
    }
}

struct editor *editor_new(const char *prompt)
{
    struct editor *e = calloc(1, sizeof *e);
    HistEvent event;
    if (!e) return NULL;
    e->prompt = prompt;
    e->el = el_init("pith", stdin, stdout, stderr);
    e->history = history_init();
    if (!e->el || !e->history) {
        editor_free(e);
        return NULL;
    }
    history(e->history, &event, H_SETSIZE, 1000);
    history(e->history, &event, H_SETUNIQUE, 1);
    el_set(e->el, EL_CLIENTDATA, e);
    el_set(e->el, EL_PROMPT, give_prompt);
    el_set(e->el, EL_GETCFN, give_character);
    el_set(e->el, EL_EDITOR, "emacs");
    el_set(e->el, EL_HIST, history, e->history);
    el_source(e->el, NULL); /* ~/.editrc, as everywhere */
    return e;
}

void editor_free(struct editor *e)
{
    if (!e) return;
    if (e->el) el_end(e->el);
    if (e->history) history_end(e->history);
    free(e->path);
    free(e->temporary);
    free(e->line);
    free(e);
}

/* A copy of the line without its end; NULL when memory is out. */
static const char *keep(struct editor *e, const char *text, size_t n)
{
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) n--;
    if (n >= e->capacity) {
        char *more = realloc(e->line, n + 1);
        if (!more) return NULL;
        e->line = more;
        e->capacity = n + 1;
    }
    memcpy(e->line, text, n);
    e->line[n] = '\0';
    return e->line;
}

/* A history that cannot be written is no reason to end a conversation. */
static void save_history(struct editor *e)
{
    HistEvent event;
    if (!e->path) return;
    const mode_t mask = umask(077);
    const bool good = history(e->history, &event, H_SAVE, e->temporary) >= 0;
    umask(mask);
    if (!good || rename(e->temporary, e->path) != 0) (void)remove(e->temporary);
}

bool editor_remember(struct editor *e, const char *path)
{
    static const char ending[] = ".partial";
    HistEvent event;
    e->path = strdup(path);
    e->temporary = malloc(strlen(path) + sizeof ending);
    if (!e->path || !e->temporary) {
        free(e->path);
        e->path = NULL;
        return false;
    }
    strcpy(e->temporary, path);
    strcat(e->temporary, ending);
    (void)history(e->history, &event, H_LOAD, path); /* there may be none yet */
    return true;
}

enum edited editor_read(struct editor *e, const char **line)
{
    HistEvent event;
    int count = 0;
    const char *text = el_gets(e->el, &count);
    if (interrupted()) {
        const LineInfo *typed = el_line(e->el);
        *line = typed ? keep(e, typed->buffer, (size_t)(typed->lastchar - typed->buffer)) : "";
        if (!*line) *line = "";
        el_reset(e->el);
        fputs("^C\n", stdout);
        fflush(stdout);
        return cancelled();
    }
    if (!text || count <= 0) return EDIT_END;
    *line = keep(e, text, (size_t)count);
    if (!*line) return EDIT_END;
    if (**line) history(e->history, &event, H_ENTER, *line);
    if (**line) save_history(e);
    return EDIT_LINE;
}

#else

struct editor *editor_new(const char *prompt)
{
    struct editor *e = calloc(1, sizeof *e);
    if (e) e->prompt = prompt;
    setvbuf(stdin, NULL, _IONBF, 0); /* what was typed ahead stays where it can be waited for */
    return e;
}

bool editor_remember(struct editor *e, const char *path)
{
    (void)e, (void)path;
    return false;
}

void editor_free(struct editor *e)
{
    if (!e) return;
    free(e->line);
    free(e);
}

enum edited editor_read(struct editor *e, const char **line)
{
    fputs(e->prompt, stdout);
    fflush(stdout);
    if (!interrupt_wait(STDIN_FILENO)) {
        *line = "";
        fputc('\n', stdout);
        return cancelled();
    }
    if (getline(&e->line, &e->capacity, stdin) < 0) return EDIT_END;
    e->line[strcspn(e->line, "\r\n")] = '\0';
    *line = e->line;
    return EDIT_LINE;
}

#endif
