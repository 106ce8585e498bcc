/* tok/decoder.h: from token texts back to text: the "decoder" of a tokenizer.json, as a chain of
 * steps that work while tokens still arrive. Decoding at once is the same chain fed to its end, so
 * streaming and batch agree by construction. The components that exist are a table
 * in decoder.c. */
#ifndef PITH_TOK_DECODER_H
#define PITH_TOK_DECODER_H

#include "base/json.h"
#include "base/str.h"
#include "tok/regex/regex.h"

#include <stdbool.h>
#include <stdint.h>

/* What a decoder may make of its tokens: this many bytes for each of theirs and one more for each
 * token, all texts that its steps hold included. One step that replaces every byte by the longest
 * text that is allowed does that; a chain of such steps would grow without end. */
#define PITH_DECODE_GROWTH 256

struct pith_decode_step;
struct pith_decoding;

/* Start with {0}. */
struct pith_decoder {
    struct pith_decode_step *step;
    size_t count;
};

/* Reads the component. None (NULL or JSON null) puts a space between tokens, as the reference does.
 */
enum pith_status pith_decoder_read(struct pith_decoder *d, const json_t *json,
                                   struct pith_error *err);
void pith_decoder_free(struct pith_decoder *d);

/* One text being decoded; the decoder must outlive it. `continued`: something stands before it, so
 * the space that a decoder drops at the start of a text stays. */
enum pith_status pith_decoding_new(const struct pith_decoder *d, bool continued,
                                   struct pith_decoding **out, struct pith_error *err);
/* Feeds the text of one more token; what is certain is appended to out. PITH_LIMIT when the decoder
 * makes too much of it; so for pith_decoding_end(). */
enum pith_status pith_decoding_push(struct pith_decoding *g, const char *text, size_t len,
                                    struct pith_str *out, struct pith_error *err);
/* Appends what was still waiting. */
enum pith_status pith_decoding_end(struct pith_decoding *g, struct pith_str *out,
                                   struct pith_error *err);
void pith_decoding_free(struct pith_decoding *g);

/* Appends the bytes that one token adds to a text in whose middle it stands; they may be a part of
 * a character. PITH_UNSUPPORTED when they depend on its neighbours. */
enum pith_status pith_decoder_bytes(const struct pith_decoder *d, const char *text, size_t len,
                                    struct pith_str *out, struct pith_error *err);

#endif
