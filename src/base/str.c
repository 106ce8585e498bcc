#include "base/str.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static bool reserve(struct pith_str *s, size_t extra)
{
    size_t need;
    if (s->failed || !pith_add_size(s->len, extra, &need) || !pith_add_size(need, 1, &need)) {
        s->failed = true;
        return false;
    }
    if (need <= s->cap) return true;
    size_t cap = s->cap ? s->cap : 64;
    while (cap < need && cap <= SIZE_MAX / 2) cap *= 2;
    if (cap < need) cap = need;
    char *data = pith_realloc(s->data, cap, 1);
    if (!data) {
        s->failed = true;
        return false;
    }
    s->data = data;
    s->cap = cap;
    return true;
}

void pith_str_append(struct pith_str *s, const char *bytes, size_t n)
{
    if (!reserve(s, n)) return;
    if (n) memcpy(s->data + s->len, bytes, n);
    s->len += n;
    s->data[s->len] = '\0';
}

void pith_str_puts(struct pith_str *s, const char *text)
{
    pith_str_append(s, text, strlen(text));
}

void pith_str_putc(struct pith_str *s, char c)
{
    pith_str_append(s, &c, 1);
}

void pith_str_vprintf(struct pith_str *s, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0 && reserve(s, (size_t)n)) {
        vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    } else {
        s->failed = true;
    }
    va_end(again);
}

void pith_str_printf(struct pith_str *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    pith_str_vprintf(s, fmt, ap);
    va_end(ap);
}

void pith_str_clear(struct pith_str *s)
{
    s->len = 0;
    if (s->data) s->data[0] = '\0';
}

const char *pith_str_text(const struct pith_str *s)
{
    return s->data ? s->data : "";
}

char *pith_str_take(struct pith_str *s)
{
    char *data = NULL;
    if (!s->failed) data = s->data ? s->data : pith_strdup("");
    if (s->failed) pith_free(s->data);
    *s = (struct pith_str){0};
    return data;
}

void pith_str_free(struct pith_str *s)
{
    pith_free(s->data);
    *s = (struct pith_str){0};
}

int pith_hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool pith_ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

bool pith_is_blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return false;
    return true;
}

/* Linear backtracking: only the last '*' is ever tried again, so hostile patterns cost O(n*m). */
bool pith_glob_match(const char *pattern, const char *text)
{
    const char *star = NULL, *from = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            from = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

bool pith_module_match(const char *pattern, const char *module)
{
    if (pith_glob_match(pattern, module)) return true;
    for (const char *dot = strchr(module, '.'); dot; dot = strchr(dot + 1, '.'))
        if (pith_glob_match(pattern, dot + 1)) return true;
    return false;
}
