/* tok/files/spm_model.h: reads a SentencePiece model file (a protocol buffer,
 * sentencepiece_model.proto). */
#ifndef PITH_TOK_FILES_SPM_MODEL_H
#define PITH_TOK_FILES_SPM_MODEL_H

#include "base/status.h"
#include "tok/matcher.h"
#include "tok/unicode/charsmap.h"
#include "tok/unigram.h"
#include "tok/vocab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Types of a piece, as the file numbers them. */
enum pith_spm_type {
    PITH_SPM_NORMAL = 1,
    PITH_SPM_UNKNOWN = 2,
    PITH_SPM_CONTROL = 3,
    PITH_SPM_USER = 4,
    PITH_SPM_UNUSED = 5,
    PITH_SPM_BYTE = 6,
    PITH_SPM_ADDED = 7 /* of no file: a token outside the model, apart from the text
                        * around it */
};

/* The longest piece, in bytes, that others may be joined to; the trainer's own limit is 16
 * characters. A pair is looked up by all of its text, so this bounds the work of a merge.
 * User-defined pieces, which are matched and not merged, may be longer. */
#define PITH_SPM_PIECE 1024

/* Start with {0}. */
struct pith_spm_model {
    struct pith_vocab vocab; /* the id of a piece is its position in the file */
    uint8_t *type;
    float *score;
    size_t cap;                  /* of type and score */
    struct pith_matcher user;    /* user-defined pieces */
    struct pith_matcher markup;  /* control pieces, and user-defined ones in brackets */
    int32_t unk, bos, eos;       /* -1: none */
    int32_t byte[256];           /* with byte_fallback */
    size_t mergeable;            /* bytes of the longest piece that others may be joined to */
    struct pith_unigram unigram; /* with is_unigram; pieces are joined by BPE otherwise */
    bool is_unigram, byte_fallback, has_unused;
    bool controls; /* special pieces of a text stand for themselves: not to SentencePiece itself */
    bool prefix_once; /* the prefix does not come again behind a control piece */
    bool dummy_prefix, space_at_end, collapse_spaces, escape_spaces;
    char *unk_surface;
    struct pith_charsmap rules; /* of normalization */
};

/* Parses and checks a file, to be ended by pith_spm_finish() with the ids of *ends: pieces may be
 * added behind the file's before. PITH_UNSUPPORTED for models other than BPE and unigram. */
struct pith_spm_ends {
    int64_t bos, eos;
};
enum pith_status pith_spm_parse(struct pith_spm_model *m, const uint8_t *data, size_t size,
                                struct pith_spm_ends *ends, struct pith_error *err);
/* Makes a normal, user-defined or unused piece that there is of another type; others stay. Before
 * pith_spm_finish(). */
enum pith_status pith_spm_retype(struct pith_spm_model *m, int32_t id, int type,
                                 struct pith_error *err);
/* Whether a text is in brackets, as tokens that structure a prompt are. */
bool pith_spm_is_markup(const char *text, size_t len);
/* Whether a piece is special: a control piece, and with `controls` the unknown one, which then is a
 * token as they are. */
bool pith_spm_is_special(const struct pith_spm_model *m, int32_t id);
/* The same piece by piece, into {.unk = -1, .bos = -1, .eos = -1}: each added piece is the next id;
 * then, with is_unigram set or not, the ids of bos and eos, -1 for none. */
enum pith_status pith_spm_add(struct pith_spm_model *m, const char *text, size_t len, int64_t type,
                              float score, struct pith_error *err);
enum pith_status pith_spm_finish(struct pith_spm_model *m, int64_t bos, int64_t eos,
                                 struct pith_error *err);
void pith_spm_model_free(struct pith_spm_model *m);

#endif
