/* What is shown of an answer: nothing that a model says may steer the terminal. */
#include "cli/chat/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

void put_safe(const char *text, size_t size)
{
    const utf8proc_uint8_t *s = (const utf8proc_uint8_t *)text;
    for (size_t i = 0; i < size;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t n = utf8proc_iterate(s + i, (utf8proc_ssize_t)(size - i), &c);
        const bool control = c < ' ' ? c != '\n' && c != '\t' : c >= 0x7f && c < 0xa0;
        if (n <= 0 || control) printf("\\x%02x", n > 0 ? (unsigned)c : s[i]);
        else fwrite(s + i, 1, (size_t)n, stdout);
        i += n > 0 ? (size_t)n : 1;
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
