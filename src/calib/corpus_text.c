/* A plain text file: one document. */
#include "calib/corpora.h"

static bool takes(const char *path)
{
    (void)path;
    return true;
}

static enum pith_status read(const char *path, struct pith_reading *to, struct pith_error *err)
{
    struct pith_text text;
    PITH_TRY(pith_text_open(path, to->newlines, &text, err));
    enum pith_status s = PITH_OK;
    if (text.size) s = to->document(to->ctx, text.data, text.size, err);
    return pith_text_finish(&text, path, s, err);
}

const struct pith_corpus pith_corpus_text = {
    .name = "text",
    .summary = "a plain text file, one document",
    .takes = takes,
    .plain = true,
    .read = read,
};
