/* calib/corpora.h: declares the members of corpora.def to each other; internal to calib/. */
#ifndef PITH_CALIB_CORPORA_H
#define PITH_CALIB_CORPORA_H

#include "calib/corpus.h"

/* The name under which the text that ships is a source. */
#define PITH_BUILTIN_NAME "builtin"

#define PITH_CORPUS(row) extern const struct pith_corpus row;
#include "calib/corpora.def"
#undef PITH_CORPUS

#endif
