/* A plain text file: one document. */
#include "calib/corpora.h"

#include "base/file.h"

static bool takes(const char *path)
{
    (void)path;
    return true;
}

static enum pith_status read(const char *path, pith_document_fn *fn, void *ctx,
                             struct pith_error *err)
{
    struct pith_map map;
    PITH_TRY(pith_map_open(path, &map, err));
    enum pith_status s = PITH_OK;
    if (map.size) s = fn(ctx, (const char *)map.data, map.size, err);
    pith_map_close(&map);
    return s;
}

const struct pith_corpus pith_corpus_text = {
    .name = "text",
    .summary = "a plain text file, one document",
    .takes = takes,
    .read = read,
};
