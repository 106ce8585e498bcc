/* tok/tokenizer.h: text to ids and back, as the model's own tokenizer files say. Reads
 * tokenizer.json (BPE and Unigram, with or without bytes) or, failing that, tekken.json (Mistral),
 * tokenizer.model (SentencePiece, BPE and unigram), tiktoken.model (Kimi, Moonlight), or vocab.json
 * with merges.txt (GPT-2, Qwen2, OPT); or the keys of a GGUF file. Results equal those of Hugging
 * Face tokenizers, mistral-common, SentencePiece, tiktoken and llama.cpp. */
#ifndef PITH_TOK_TOKENIZER_H
#define PITH_TOK_TOKENIZER_H

#include "base/json.h"
#include "base/progress.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pith_tokenizer;
struct pith_decoding;

/* A growing list of ids; start with {0}. */
struct pith_ids {
    int32_t *id;
    size_t count, cap;
};
void pith_ids_free(struct pith_ids *ids);
/* Adds an id at the end; false when memory is out. */
bool pith_ids_push(struct pith_ids *ids, int32_t id);
bool pith_ids_has(const struct pith_ids *ids, int32_t id);

/* Opens the tokenizer of a checkpoint folder or a GGUF file. Which ids
 * begin and end a text comes in a folder from several files: tok/special.h. */
enum pith_status pith_tokenizer_open(const char *dir, struct pith_tokenizer **out,
                                     struct pith_error *err);
struct pith_checkpoint;
/* The tokenizer.json of a checkpoint that is one file and has its tokenizer inside; *out is a new
 * reference. PITH_UNSUPPORTED for one that has none of the kind. */
enum pith_status pith_tokenizer_json(const struct pith_checkpoint *c, json_t **out,
                                     struct pith_error *err);
/* About what it takes to make it, write it and digest what was written; 0 when there is none. */
uint64_t pith_tokenizer_json_bytes(const struct pith_checkpoint *c);

/* Whether a checkpoint folder has a file of one, readable or not; of a GGUF file it is assumed. */
enum pith_status pith_tokenizer_present(const char *dir, bool *present, struct pith_error *err);
/* From memory, for tests and fuzzing: a tokenizer.json / a SentencePiece model. */
enum pith_status pith_tokenizer_from_json(const char *text, size_t size,
                                          struct pith_tokenizer **out, struct pith_error *err);
enum pith_status pith_tokenizer_from_spm(const uint8_t *data, size_t size,
                                         struct pith_tokenizer **out, struct pith_error *err);
void pith_tokenizer_close(struct pith_tokenizer *t);

size_t pith_tokenizer_vocab(const struct pith_tokenizer *t); /* largest id + 1 */
int32_t pith_tokenizer_bos(const struct pith_tokenizer *t);  /* -1: none */
int32_t pith_tokenizer_eos(const struct pith_tokenizer *t);  /* -1: none */
/* True when encoding with `special` puts BOS in front; EOS behind. */
bool pith_tokenizer_adds_bos(const struct pith_tokenizer *t);
bool pith_tokenizer_adds_eos(const struct pith_tokenizer *t);
/* Id of exactly this token (special or not), -1 when there is none. */
int32_t pith_tokenizer_find(const struct pith_tokenizer *t, const char *token);

/* Appends the ids that end an answer, each once, as far as the vocabulary has them: eos, those of a
 * folder's generation_config.json and config.json, or a GGUF file's keys, and special tokens whose
 * name says so ("<|im_end|>"). */
enum pith_status pith_tokenizer_ends(const struct pith_tokenizer *t, const char *model,
                                     struct pith_ids *out, struct pith_error *err);

/* Whom encoding asks now and then whether to stop, from the thread that encodes; borrowed for the
 * tokenizer's life. NULL, as at first: nobody. */
void pith_tokenizer_listen(struct pith_tokenizer *t, const struct pith_progress *listener);

/* Appends the ids of text (any bytes; invalid UTF-8 is replaced by U+FFFD as the reference does).
 * `special`: apply the post-processor (BOS, EOS), as add_special_tokens=True does. Thread-safe. */
enum pith_status pith_tokenizer_encode(const struct pith_tokenizer *t, const char *text,
                                       size_t size, bool special, struct pith_ids *out,
                                       struct pith_error *err);

/* Appends the ids of a prompt that a chat template made: its special tokens are such, but none of
 * which a byte came from the conversation. Nothing is put around it: the template says what is. */
struct pith_rendered;
enum pith_status pith_tokenizer_encode_prompt(const struct pith_tokenizer *t,
                                              const struct pith_rendered *prompt,
                                              struct pith_ids *out, struct pith_error *err);

/* Appends the text of ids. `skip_special` leaves special tokens out. Ids outside the vocabulary are
 * skipped. */
enum pith_status pith_tokenizer_decode(const struct pith_tokenizer *t, const int32_t *ids,
                                       size_t count, bool skip_special, struct pith_str *out,
                                       struct pith_error *err);

/* The tokenizer.json of a folder, or one put together of the files of another kind that says the
 * same (its model may be "tiktoken": tok/files/tiktoken.h); *out is a new reference, NULL for a
 * tokenizer.model and a folder without a tokenizer. */
enum pith_status pith_tokenizer_folder_json(const char *dir, json_t **out, struct pith_error *err);

/* Appends the bytes that an id adds to a text in whose middle it stands, which may be a part of a
 * character; nothing for special tokens and ids outside the vocabulary. PITH_UNSUPPORTED when they
 * depend on its neighbours. */
enum pith_status pith_tokenizer_bytes(const struct pith_tokenizer *t, int32_t id,
                                      struct pith_str *out, struct pith_error *err);

/* Streaming: appends to out what is certain after one more id (whole characters only; what may
 * still change waits in s). Start with {0}; special tokens are omitted. pith_stream_end() appends
 * what is still waiting and frees s: it must be called, also after a failure, whose error stays.
 * The concatenation equals pith_tokenizer_decode(..., true, ...). */
struct pith_stream {
    bool started; /* set it before the first id when the ids continue a text: then the space that
                     some decoders drop at the start of a text stays */
    bool special; /* special tokens are not omitted */
    struct pith_decoding *decoding; /* owned; NULL before the first id */
};
enum pith_status pith_stream_push(const struct pith_tokenizer *t, struct pith_stream *s, int32_t id,
                                  struct pith_str *out, struct pith_error *err);
enum pith_status pith_stream_end(struct pith_stream *s, struct pith_str *out,
                                 struct pith_error *err);

#endif
