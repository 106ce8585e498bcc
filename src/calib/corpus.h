/* calib/corpus.h: calibration text, as windows of token ids.
 *
 * A source is plain text (one document) or JSON lines with "text", or with "messages": a
 * conversation, as the model's chat template puts it, or, of a model that has none, the contents
 * joined by blank lines. Documents are encoded one by one and joined; the stream is cut
 * into windows of seq_len ids, each beginning with BOS where the tokenizer adds one. When there are
 * more windows than wanted, a random subset (by seed, in order) is used. A kind of source is a row
 * of the table in corpus.c. */
#ifndef PITH_CALIB_CORPUS_H
#define PITH_CALIB_CORPUS_H

#include "base/hash.h"
#include "tok/text_input.h"
#include "tok/tokenizer.h"

/* Receives one document. */
typedef enum pith_status pith_document_fn(void *ctx, const char *text, size_t size,
                                          struct pith_error *err);

struct pith_chat;
struct pith_rendered;
/* Reading sources: who is given what they hold, and what was met. */
struct pith_reading {
    struct pith_newlines *newlines; /* converts line ends where they are part of the text */
    pith_document_fn *document;
    enum pith_status (*prompt)(void *ctx, const struct pith_rendered *prompt,
                               struct pith_error *err);
    void *ctx;         /* of both */
    const char *model; /* whose chat template is opened at the first conversation; or NULL */
    struct pith_chat *chat; /* owned; NULL: it has none, or was not opened yet */
    bool looked_up;
    size_t rendered, joined; /* conversations */
};

struct pith_corpus {
    const char *name; /* "jsonl" */
    const char *summary;
    bool (*takes)(const char *path); /* by name only */
    bool plain;                      /* what ends a line is part of the text */
    enum pith_status (*read)(const char *path, struct pith_reading *to, struct pith_error *err);
};
/* The row that reads a source. */
const struct pith_corpus *pith_corpus_of(const char *path);

struct pith_calib_options {
    const char *const *paths; /* NULL or none: the text that ships */
    size_t path_count;
    size_t tokens, seq_len;
    uint64_t seed;
    bool lf;           /* line ends CR LF of plain text become LF */
    const char *model; /* whose chat template conversations are put into; NULL: none */
    struct pith_calib_draw {
        size_t tokens, seq_len;
    } other;     /* what else is drawn of the same text by the same seed; tokens 0: nothing */
    size_t judge; /* tokens to hold out of both; 0: none */
};

/* windows x length ids, packed. */
struct pith_calib_set {
    int32_t *ids;
    size_t windows, length;
    size_t *at;                   /* [windows]: which of the text's ids a window's first is */
    size_t shows;                 /* of the text's ids, in a window: without BOS */
    size_t available;             /* tokens of the text, as far as it was read */
    char sha256[PITH_SHA256_HEX]; /* of the ids */
    size_t crlf;                  /* line ends CR LF in the sources */
    size_t rendered, joined;      /* conversations in them, by a chat template and without */
};

/* PITH_ARG when the text does not fill a single window, PITH_FORMAT when it is not UTF-8. Free the
 * set by pith_calib_free(). */
enum pith_status pith_calib_load(const struct pith_calib_options *o, const struct pith_tokenizer *t,
                                 struct pith_calib_set *out, struct pith_error *err);
/* The same, and in *judge the held-out text: windows as long as the shorter of both draws', of
 * which neither has an id, of o->judge tokens at most, or PITH_CALIB_JUDGE_LEAST windows where
 * these are more. They lie behind what the draws choose from where the text goes on; else they are
 * those, from the end, that neither draws. Where that is less than PITH_CALIB_JUDGE_LEAST windows,
 * they are of its last eighth, which both then do without. There are none where the text is too
 * short even for that, where o->judge is 0, and when it fails. The one draw and the other, with
 * each other's tokens and lengths, find the same. `judge` may be NULL. */
enum { PITH_CALIB_JUDGE_LEAST = 4 };
enum pith_status pith_calib_load_apart(const struct pith_calib_options *o,
                                       const struct pith_tokenizer *t, struct pith_calib_set *out,
                                       struct pith_calib_set *judge, struct pith_error *err);
void pith_calib_free(struct pith_calib_set *set);

/* The text that ships with pith, NUL-terminated. */
extern const char pith_builtin_text[];
extern const size_t pith_builtin_text_size;

#endif
