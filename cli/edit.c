#include "cli/edit.h"

#include "cli/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    char *path, *beside; /* of the history; NULL: it is not kept */
#endif
};

void editor_prompt(struct editor *e, const char *prompt)
{
    e->prompt = prompt;
}

#ifdef HAVE_LIBEDIT

static char *give_prompt(EditLine *el)
{
    struct editor *e = NULL;
    el_get(el, EL_CLIENTDATA, &e);
    return (char *)(uintptr_t)e->prompt;
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
    free(e->beside);
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
    const bool good = history(e->history, &event, H_SAVE, e->beside) >= 0;
    umask(mask);
    if (!good || rename(e->beside, e->path) != 0) (void)remove(e->beside);
}

bool editor_remember(struct editor *e, const char *path)
{
    static const char ending[] = ".partial";
    HistEvent event;
    e->path = strdup(path);
    e->beside = malloc(strlen(path) + sizeof ending);
    if (!e->path || !e->beside) {
        free(e->path);
        e->path = NULL;
        return false;
    }
    strcpy(e->beside, path);
    strcat(e->beside, ending);
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
        clear_interrupt();
        el_reset(e->el);
        fputs("^C\n", stdout);
        fflush(stdout);
        return EDIT_CANCELLED;
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
    const ssize_t n = getline(&e->line, &e->capacity, stdin);
    if (interrupted()) {
        *line = "";
        clear_interrupt();
        clearerr(stdin);
        fputc('\n', stdout);
        return EDIT_CANCELLED;
    }
    if (n < 0) return EDIT_END;
    e->line[strcspn(e->line, "\r\n")] = '\0';
    *line = e->line;
    return EDIT_LINE;
}

#endif
