/* calib/corpora.h: the kinds of calibration sources; internal to calib/. */
#ifndef PITH_CALIB_CORPORA_H
#define PITH_CALIB_CORPORA_H

#include "calib/corpus.h"

/* The name under which the text that ships is a source. */
#define PITH_BUILTIN_NAME "builtin"

/* Listed in calib/corpus.c. */
extern const struct pith_corpus pith_corpus_builtin, pith_corpus_jsonl, pith_corpus_text;

#endif
