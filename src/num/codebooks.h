/* num/codebooks.h: the tables of the codebook formats, each defined in its format's file. */
#ifndef PITH_NUM_CODEBOOKS_H
#define PITH_NUM_CODEBOOKS_H

#include "num/codebook.h"

extern const struct pith_codebook pith_nf4_book, pith_bnb_fp4_book, pith_iq4_book;

#endif
