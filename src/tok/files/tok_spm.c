/* tokenizer.model: SentencePiece. Text is normalized (spaces become U+2581). BPE: it is cut into
 * characters, and neighbours are joined to pieces of the vocabulary, the best score first. Unigram:
 * it is cut into the pieces whose scores have the largest sum. */
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "tok/component.h"
#include "tok/files/added_files.h"
#include "tok/files/spm_model.h"
#include "tok/kind.h"
#include "tok/merge.h"
#include "tok/normalizer.h"
#include "tok/unicode/utf8.h"

#include <string.h>

/* The largest tokenizer files known have 33 MB. */
#define MAX_FILE ((size_t)512 << 20)
#define SPACE_MARK "\xe2\x96\x81"

/* Ids of symbols that are not looked up yet. */
enum { OPEN = -1, FROZEN = -2 };

static void free_model(void *model)
{
    if (!model) return;
    pith_spm_model_free(model);
    pith_free(model);
}

/* The tokenizer of Llama 3 has this file name too but is a list of base64 texts with their ranks.
 */
static bool is_tiktoken(const char *data, size_t size)
{
    size_t i = 0;
    while (i < size && i < 64 && data[i] > ' ' && data[i] < 0x7f) i++;
    return i > 0 && i + 1 < size && data[i] == ' ' && data[i + 1] >= '0' && data[i + 1] <= '9';
}

enum pith_status pith_tok_spm_decoder(struct pith_tokenizer *t, const struct pith_spm_model *m,
                                      struct pith_error *err)
{
    json_t *json = json_pack("{s:s, s:b, s:b, s:b}", "type", "SentencePiece", "strip",
                             m->dummy_prefix || m->collapse_spaces, "all", m->collapse_spaces,
                             "spaces", m->controls);
    if (!json) return pith_fail_nomem(err, "tokenizer");
    const enum pith_status s = pith_decoder_read(&t->decoder, json, err);
    json_decref(json);
    return s;
}

/* `dir`: the folder, whose other files may add tokens; NULL: there is none. */
static enum pith_status fill_model(struct pith_spm_model *m, const char *dir, const char *data,
                                   size_t size, struct pith_error *err)
{
    struct pith_spm_ends ends;
    m->controls = dir != NULL;
    PITH_TRY(pith_spm_parse(m, (const uint8_t *)data, size, &ends, err));
    if (dir) PITH_TRY(pith_added_files(m, dir, err));
    return pith_spm_finish(m, ends.bos, ends.eos, err);
}

static enum pith_status read_with(struct pith_tokenizer *t, const char *dir, const char *data,
                                  size_t size, struct pith_error *err)
{
    if (is_tiktoken(data, size))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "tiktoken files are not supported; the folder needs a tokenizer.json");
    struct pith_spm_model *m = pith_zalloc(1, sizeof *m);
    if (!m) return pith_fail_nomem(err, "tokenizer");
    t->model = m;
    PITH_TRY(fill_model(m, dir, data, size, err));
    t->bos = m->bos;
    t->eos = m->eos;
    if (m->bos >= 0 && !pith_ids_push(&t->before, m->bos)) return pith_fail_nomem(err, "tokenizer");
    return pith_tok_spm_decoder(t, m, err);
}

static enum pith_status read_model(struct pith_tokenizer *t, const char *data, size_t size,
                                   struct pith_error *err)
{
    return read_with(t, NULL, data, size, err);
}

static enum pith_status read_folder(struct pith_tokenizer *t, const char *dir,
                                    struct pith_error *err)
{
    char *path = pith_path_join(dir, "tokenizer.model"), *data = NULL;
    size_t size = 0;
    enum pith_status s = path ? pith_file_read(path, MAX_FILE, &data, &size, err)
                              : pith_fail_nomem(err, "path");
    if (s == PITH_OK) {
        s = read_with(t, dir, data, size, err);
        if (s != PITH_OK) s = pith_fail_in(err, s, "tokenizer.model");
    }
    pith_free(data);
    pith_free(path);
    return s;
}

/* ---- normalization ---- */

/* The next stretch of the text and what it becomes. */
static size_t normalize_prefix(const struct pith_spm_model *m, struct pith_match_run *user,
                               size_t at, const char **to, size_t *to_len)
{
    int32_t id;
    const char *text = user->text + at;
    size_t n = pith_match_at(user, at, &id);
    *to = text;
    if (n == 0) {
        n = pith_charsmap_longest(&m->rules, text, user->len - at, to);
        if (n) {
            *to_len = strlen(*to);
            return n;
        }
        n = pith_utf8_len(text[0]);
    }
    *to_len = n;
    return n;
}

static void put_normal(const struct pith_spm_model *m, const char *text, size_t len,
                       struct pith_str *out)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == ' ' && m->escape_spaces) pith_str_puts(out, SPACE_MARK);
        else pith_str_putc(out, text[i]);
    }
}

/* `prefix`: it begins as a whole text does. */
static void normalize(const struct pith_spm_model *m, struct pith_match_run *user, bool prefix,
                      struct pith_str *out)
{
    const char *to;
    const size_t len = user->len;
    size_t to_len, at = 0;
    while (m->collapse_spaces && at < len) {
        const size_t n = normalize_prefix(m, user, at, &to, &to_len);
        if (to_len != 1 || to[0] != ' ') break;
        at += n;
    }
    if (at == len) return;
    if (m->dummy_prefix && prefix && !m->space_at_end) put_normal(m, " ", 1, out);
    bool after_space = m->collapse_spaces;
    const size_t limit = pith_text_limit(len);
    while (at < len && out->len <= limit) {
        at += normalize_prefix(m, user, at, &to, &to_len);
        while (after_space && to_len && to[0] == ' ') {
            to++;
            to_len--;
        }
        put_normal(m, to, to_len, out);
        if (to_len) after_space = to[to_len - 1] == ' ';
        if (!m->collapse_spaces) after_space = false;
    }
    const char *space = m->escape_spaces ? SPACE_MARK : " ";
    const size_t space_len = strlen(space);
    while (m->collapse_spaces && !out->failed && out->len >= space_len &&
           memcmp(out->data + out->len - space_len, space, space_len) == 0)
        out->len -= space_len;
    if (m->dummy_prefix && m->space_at_end) put_normal(m, " ", 1, out);
}

/* ---- encoding ---- */

struct encoding {
    const struct pith_spm_model *m;
    struct pith_str text; /* normalized */
    struct pith_word word;
    struct pith_unigram_run path;
    uint32_t
        *unused_left; /* for each unused piece: bytes of its left part when it was last formed */
    struct pith_ids *out;
    bool after_unknown;
    bool follows; /* a control piece, within a text */
};

/* Higher scores first: the bits of a float, made to sort as unsigned numbers, upside down. */
static uint32_t score_key(float score)
{
    if (score == 0) score = 0; /* -0 and 0 are equal */
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    const uint32_t rising = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~rising;
}

static bool rate(const void *rule, const struct pith_symbol *left, const struct pith_symbol *right,
                 struct pith_joint *joint)
{
    const struct encoding *e = rule;
    if (left->id == FROZEN || right->id == FROZEN) return false;
    const size_t len = (size_t)left->len + right->len;
    if (len > e->m->mergeable) return false;
    const int32_t id = pith_vocab_find(&e->m->vocab, e->text.data + left->at, len);
    if (id < 0) return false;
    const uint8_t type = e->m->type[id];
    if (type != PITH_SPM_NORMAL && type != PITH_SPM_USER && type != PITH_SPM_UNUSED) return false;
    if (type == PITH_SPM_UNUSED) e->unused_left[id] = left->len;
    *joint = (struct pith_joint){score_key(e->m->score[id]), id};
    return true;
}

static bool first_symbols(struct encoding *e)
{
    struct pith_match_run run = {.m = &e->m->user, .text = e->text.data, .len = e->text.len};
    bool ok = true;
    for (size_t at = 0; ok && at < e->text.len;) {
        int32_t id;
        const size_t user = pith_match_at(&run, at, &id);
        const size_t n = user ? user : pith_utf8_len(e->text.data[at]);
        ok = pith_word_add(&e->word, user ? FROZEN : OPEN, at, n) && !run.failed;
        at += n;
    }
    pith_match_run_free(&run);
    return ok;
}

/* The id of a piece that is final; unknown ones become bytes, or one unknown token for a run of
 * them. */
static bool emit(struct encoding *e, int32_t id, size_t at, size_t len)
{
    const struct pith_spm_model *m = e->m;
    const bool unknown = id < 0 || id == m->unk;
    bool ok = true;
    if (unknown && m->byte_fallback) {
        for (size_t i = 0; ok && i < len; i++)
            ok = pith_ids_push(e->out, m->byte[(unsigned char)e->text.data[at + i]]);
    } else if (!unknown || !e->after_unknown) {
        ok = pith_ids_push(e->out, unknown ? m->unk : id);
    }
    e->after_unknown = unknown;
    return ok;
}

/* Takes unused pieces apart again, the way they were put together. `todo` is a stack of what is
 * right of the current part. */
static bool emit_parts(struct encoding *e, struct pith_word *todo, size_t at, size_t len)
{
    pith_word_clear(todo);
    for (;;) {
        const int32_t id = pith_vocab_find(&e->m->vocab, e->text.data + at, len);
        const size_t left = id >= 0 && e->m->type[id] == PITH_SPM_UNUSED ? e->unused_left[id] : 0;
        if (left > 0 && left < len) {
            if (!pith_word_add(todo, OPEN, at + left, len - left)) return false;
            len = left;
            continue;
        }
        if (!emit(e, id, at, len)) return false;
        if (todo->count == 0) return true;
        const struct pith_symbol *s = &todo->symbol[--todo->count];
        at = s->at;
        len = s->len;
    }
}

static enum pith_status encode_normalized(struct encoding *e, struct pith_error *err)
{
    struct pith_word todo = {0};
    bool ok = first_symbols(e);
    enum pith_status s = ok ? pith_word_merge(&e->word, rate, e, err) : PITH_OK;
    for (size_t i = 0; s == PITH_OK && ok && i < e->word.count; i++) {
        const struct pith_symbol *symbol = &e->word.symbol[i];
        if (symbol->len) ok = emit_parts(e, &todo, symbol->at, symbol->len);
    }
    pith_word_free(&todo);
    return ok ? s : pith_fail_nomem(err, "token ids");
}

static enum pith_status emit_piece(void *ctx, int32_t id, size_t at, size_t len,
                                   struct pith_error *err)
{
    return emit(ctx, id, at, len) ? PITH_OK : pith_fail_nomem(err, "token ids");
}

static enum pith_status encode_text(struct encoding *e, const char *text, size_t size,
                                    struct pith_error *err)
{
    struct pith_match_run user = {.m = &e->m->user, .text = text, .len = size};
    normalize(e->m, &user, !(e->follows && e->m->prefix_once), &e->text);
    pith_match_run_free(&user);
    if (user.failed || e->text.failed) return pith_fail_nomem(err, "text");
    if (e->text.len > pith_text_limit(size) || e->text.len > INT32_MAX)
        return pith_fail(err, PITH_LIMIT, "the tokenizer's rules make this text too long");
    if (e->m->is_unigram)
        return pith_unigram_cut(&e->m->unigram, &e->path, pith_str_text(&e->text), e->text.len,
                                emit_piece, e, err);
    if (e->m->has_unused) {
        e->unused_left = pith_zalloc(e->m->vocab.count, sizeof *e->unused_left);
        if (!e->unused_left) return pith_fail_nomem(err, "token ids");
    }
    return encode_normalized(e, err);
}

/* The part of a text between control pieces, [from, to). */
static enum pith_status encode_plain(const struct pith_spm_model *m, const struct pith_tok_text *in,
                                     size_t from, size_t to, struct pith_ids *out,
                                     struct pith_error *err)
{
    struct encoding e = {.m = m,
                         .out = out,
                         .follows = from > 0,
                         .word.beat.progress = in->listener,
                         .path.beat.progress = in->listener};
    if (from == to) return PITH_OK;
    const enum pith_status s = encode_text(&e, in->text + from, to - from, err);
    pith_str_free(&e.text);
    pith_word_free(&e.word);
    pith_unigram_run_free(&e.path);
    pith_free(e.unused_left);
    return s;
}

/* Special pieces of a text stand for themselves, with texts between them, as Hugging Face's
 * tokenizers and llama.cpp have it, in a model's folder or file. What a user typed in a
 * conversation is cut within a user-defined piece. A whole text keeps user-defined pieces for the
 * normalizer. */
static enum pith_status encode(const void *model, const struct pith_tok_text *in,
                               struct pith_ids *out, struct pith_error *err)
{
    const struct pith_spm_model *m = model;
    struct pith_match_run run = {.m = &m->markup, .text = in->text, .len = in->size};
    enum pith_status s = PITH_OK;
    size_t from = 0;
    for (size_t at = 0; m->markup.count && at < in->size && s == PITH_OK; at++) {
        int32_t id = -1;
        const size_t n = pith_match_at(&run, at, &id);
        const bool apart = n && m->controls && m->type[id] != PITH_SPM_USER;
        if (n == 0 || (!apart && !in->prompt)) continue;
        const bool special = pith_spm_is_special(m, id),
                   markup = special || pith_spm_is_markup(in->text + at, n);
        const bool typed = markup && in->marks && memchr(in->marks + at, 1, n);
        if (typed && special) continue;
        const size_t to = typed ? at + 1 : at;
        s = encode_plain(m, in, from, to, out, err);
        from = typed ? to : at + n;
        at = from - 1;
        if (s == PITH_OK && !typed && !pith_ids_push(out, id))
            s = pith_fail_nomem(err, "token ids");
    }
    if (s == PITH_OK && run.failed) s = pith_fail_nomem(err, "a prompt");
    pith_match_run_free(&run);
    if (s != PITH_OK) return s;
    return encode_plain(m, in, from, in->size, out, err);
}

static const char *token(const void *model, int32_t id, bool skip_special, size_t *len)
{
    const struct pith_spm_model *m = model;
    const char *text = pith_vocab_text(&m->vocab, id, len);
    if (!text) return NULL;
    const bool special = pith_spm_is_special(m, id);
    if (special && skip_special) text = "";
    else if (m->type[id] == PITH_SPM_UNKNOWN && !special)
        text = m->unk_surface ? m->unk_surface : " \xe2\x81\x87 ";
    else return text;
    *len = strlen(text);
    return text;
}

static int32_t find(const void *model, const char *text, size_t len)
{
    const struct pith_spm_model *m = model;
    return pith_vocab_find(&m->vocab, text, len);
}

static size_t vocab(const void *model)
{
    const struct pith_spm_model *m = model;
    return m->vocab.ids;
}

static uint64_t rules(const void *model)
{
    const struct pith_spm_model *m = model;
    uint64_t mix = m->is_unigram;
    for (uint32_t id = 0; id < m->vocab.ids; id++) {
        uint32_t entry[] = {id, 0};
        memcpy(&entry[1], &m->score[id], sizeof entry[1]);
        if (m->type[id] == PITH_SPM_NORMAL) mix += pith_hash64(entry, sizeof entry);
    }
    return mix;
}

const struct pith_tok_kind pith_tok_spm = {
    .read = read_model,
    .read_dir = read_folder,
    .free = free_model,
    .encode = encode,
    .token = token,
    .find = find,
    .vocab = vocab,
    .rules = rules,
    .surrounds = true,
    .add_bos = true, /* as Llama's tokenizers do unless their config says otherwise */
};
