/* What is shown of an answer: nothing that a model says may steer the terminal. */
#include "cli/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of the character at the start, or 0: no UTF-8. */
static size_t character(const unsigned char *s, size_t n)
{
    const size_t size = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (s[0] >= 0x80 && (s[0] < 0xc2 || s[0] > 0xf4)) return 0;
    if (size > n) return 0;
    for (size_t i = 1; i < size; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (s[0] == 0xe0 && s[1] < 0xa0) return 0;
    if (s[0] == 0xed && s[1] >= 0xa0) return 0;
    if (s[0] == 0xf0 && s[1] < 0x90) return 0;
    if (s[0] == 0xf4 && s[1] >= 0x90) return 0;
    return size;
}

void put_safe(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        const size_t n = character(s + i, size - i);
        const bool control = n == 1 ? (s[i] < ' ' && s[i] != '\n' && s[i] != '\t') || s[i] == 0x7f
                                    : n == 2 && s[i] == 0xc2 && s[i + 1] < 0xa0;
        if (n == 0 || control) printf("\\x%02x", n == 2 ? s[i + 1] : s[i]);
        else fwrite(s + i, 1, n, stdout);
        i += n ? n : 1;
    }
}

void show_start(struct show *s)
{
    *s = (struct show){.terminal = isatty(STDOUT_FILENO), .colour = *bold() != '\0'};
}

/* Each piece is dimmed by itself: whenever the program ends, the terminal is as it was. */
static void show_reasoning(const struct show *s, const char *text, size_t size)
{
    if (!s->any && !s->colour) fputs("[thinking]\n", stdout);
    fputs(s->colour ? "\033[2m" : "", stdout);
    put_safe(text, size);
    fputs(s->colour ? "\033[0m" : "", stdout);
}

void show_text(struct show *s, enum pith_reply_kind kind, const char *text, size_t size)
{
    if (!s->terminal) {
        if (kind == PITH_REPLY_CONTENT) fwrite(text, 1, size, stdout);
    } else if (kind == PITH_REPLY_REASONING) {
        show_reasoning(s, text, size);
    } else {
        if (s->any && s->kind == PITH_REPLY_REASONING)
            fputs(s->colour ? "\n\n" : "\n[answer]\n", stdout);
        put_safe(text, size);
    }
    fflush(stdout);
    s->kind = kind;
    s->any = true;
}

void show_end(struct show *s)
{
    (void)s;
    fputc('\n', stdout);
    fflush(stdout);
}
