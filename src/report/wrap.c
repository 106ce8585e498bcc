/* Words, lines and columns of a terminal. */
#define _XOPEN_SOURCE 700 /* wcwidth() */
#include <pith/report.h>

#include "base/str.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

/* The character at text: its bytes, and the columns that it takes (0 for what cannot be shown). */
static size_t next_char(const char *text, size_t *columns)
{
    wchar_t c;
    mbstate_t state = {0};
    const size_t n = mbrtowc(&c, text, strlen(text), &state);
    const int width = n == 0 || n > strlen(text) ? 1 : wcwidth(c);
    *columns = width < 0 ? 0 : (size_t)width;
    return n == 0 || n > strlen(text) ? 1 : n;
}

size_t pith_text_columns(const char *text)
{
    size_t all = 0, one;
    while (*text) {
        text += next_char(text, &one);
        all += one;
    }
    return all;
}

size_t pith_text_fitting(const char *text, size_t columns)
{
    size_t used = 0, bytes = 0, one;
    while (text[bytes]) {
        const size_t n = next_char(text + bytes, &one);
        if (used + one > columns) break;
        used += one;
        bytes += n;
    }
    return bytes;
}

/* Where the last `columns` columns of text begin. */
static const char *last_columns(const char *text, size_t columns)
{
    size_t one;
    for (size_t all = pith_text_columns(text); all > columns; all -= one)
        text += next_char(text, &one);
    return text;
}

void pith_text_shorten(const char *text, size_t columns, char *out, size_t room)
{
    static const char gap[] = "...";
    const size_t all = pith_text_columns(text), most = columns > 3 ? columns - 3 : 0;
    if (columns == 0 || all <= columns || most < 2) {
        snprintf(out, room, "%s", text);
        return;
    }
    snprintf(out, room, "%.*s%s%s", (int)pith_text_fitting(text, most / 2), text, gap,
             last_columns(text, most - most / 2));
}

/* A word of n bytes, in at most `longest` columns (0: as it is); returns those that it takes. */
static size_t put_word(struct pith_str *out, const char *text, size_t n, size_t longest)
{
    char word[1024], shown[1024];
    snprintf(word, sizeof word, "%.*s", (int)n, text);
    pith_text_shorten(word, longest, shown, sizeof shown);
    if (n < sizeof word) pith_str_puts(out, shown);
    else pith_str_append(out, text, n);
    return pith_text_columns(shown);
}

/* Where what stays together ends: at a blank, or of a list behind a comma. */
static size_t end_of_word(const char *text, const struct pith_text_wrap *wrap)
{
    const char *end = strstr(text, wrap->items ? ", " : " ");
    return end ? (size_t)(end - text) + (wrap->items ? 1 : 0) : strlen(text);
}

char *pith_text_wrapped(const char *text, const struct pith_text_wrap *wrap)
{
    const size_t indent = wrap->indent, width = wrap->width;
    const size_t longest = wrap->shorten && width > indent ? width - indent : 0;
    size_t column = wrap->column;
    struct pith_str out = {0}, word = {0};
    for (bool first = true; *text; first = false) {
        const size_t n = end_of_word(text, wrap);
        pith_str_clear(&word);
        const size_t columns = put_word(&word, text, n, longest);
        if (!first && width && column + 1 + columns > width) {
            pith_str_printf(&out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            pith_str_putc(&out, ' ');
            column++;
        }
        pith_str_puts(&out, pith_str_text(&word));
        column += columns;
        text += n;
        text += strspn(text, " ");
    }
    pith_str_putc(&out, '\n');
    if (word.failed) out.failed = true;
    pith_str_free(&word);
    char *taken = pith_str_take(&out);
    pith_str_free(&out);
    return taken;
}
