#include <pith/text.h>

#include "calib/corpora.h"
#include "tok/text_input.h"

#include <string.h>

enum pith_status pith_text_look(const char *path, struct pith_text_look *look,
                                struct pith_error *err)
{
    struct pith_newlines newlines = {0};
    struct pith_text text;
    *look = (struct pith_text_look){0};
    if (strcmp(path, PITH_BUILTIN_NAME) == 0) return PITH_OK;
    PITH_TRY(pith_text_open(path, pith_corpus_of(path)->plain ? &newlines : NULL, &text, err));
    *look = (struct pith_text_look){text.size, newlines.crlf};
    pith_text_close(&text);
    return PITH_OK;
}
