/* The text that ships: src/calib/builtin.txt, made part of the program by the assembler. */
#include "calib/corpora.h"

#include <string.h>

__asm__(".section .rodata\n"
        ".global pith_builtin_text\n"
        ".hidden pith_builtin_text\n"
        ".balign 16\n"
        "pith_builtin_text:\n"
        ".incbin \"src/calib/builtin.txt\"\n"
        "pith_builtin_text_end:\n"
        ".byte 0\n"
        ".balign 8\n"
        ".global pith_builtin_text_size\n"
        ".hidden pith_builtin_text_size\n"
        "pith_builtin_text_size:\n"
        ".quad pith_builtin_text_end - pith_builtin_text\n"
        ".previous\n");

static bool takes(const char *path)
{
    return strcmp(path, PITH_BUILTIN_NAME) == 0;
}

/* Documents are separated by lines of a form feed. */
static enum pith_status read(const char *path, struct pith_reading *to, struct pith_error *err)
{
    (void)path;
    const char *at = pith_builtin_text;
    const char *const end = at + pith_builtin_text_size;
    while (at < end) {
        const char *stop = memchr(at, '\f', (size_t)(end - at));
        if (!stop) stop = end;
        if (stop > at) PITH_TRY(to->document(to->ctx, at, (size_t)(stop - at), err));
        at = stop + 1;
        if (at < end && *at == '\n') at++;
    }
    return PITH_OK;
}

const struct pith_corpus pith_corpus_builtin = {
    .name = "builtin",
    .summary = "the text that ships with pith",
    .takes = takes,
    .read = read,
};
