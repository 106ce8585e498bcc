#include "tok/files/spm_model.h"

#include "base/mem.h"
#include "tok/unicode/utf8.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- protocol buffer wire format ---- */

struct reader {
    const uint8_t *p, *end;
};

/* One field: `number` counts or holds its bits (wire types 0, 1, 5); `bytes` is its content (2). */
struct field {
    uint64_t tag, number;
    unsigned wire;
    struct reader bytes;
};

static bool read_varint(struct reader *r, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && r->p < r->end; shift += 7) {
        const uint8_t b = *r->p++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *out = v;
            return true;
        }
    }
    return false;
}

static bool read_fixed(struct reader *r, unsigned size, uint64_t *out)
{
    if ((size_t)(r->end - r->p) < size) return false;
    *out = 0;
    for (unsigned i = 0; i < size; i++) *out |= (uint64_t)r->p[i] << (8 * i);
    r->p += size;
    return true;
}

/* Reads the next field; false when the data is broken. */
static bool read_field(struct reader *r, struct field *f)
{
    uint64_t key, len;
    *f = (struct field){0};
    if (!read_varint(r, &key)) return false;
    f->tag = key >> 3;
    f->wire = (unsigned)(key & 7);
    switch (f->wire) {
    case 0: return read_varint(r, &f->number);
    case 1: return read_fixed(r, 8, &f->number);
    case 5: return read_fixed(r, 4, &f->number);
    case 2:
        if (!read_varint(r, &len) || len > (uint64_t)(r->end - r->p)) return false;
        f->bytes = (struct reader){r->p, r->p + len};
        r->p += len;
        return true;
    default: return false;
    }
}

static size_t left_in(const struct reader *r)
{
    return (size_t)(r->end - r->p);
}

static enum pith_status broken(struct pith_error *err)
{
    return pith_fail(err, PITH_FORMAT, "not a SentencePiece model: broken protocol buffer");
}

/* ---- the messages ---- */

/* A field that fills a number or a flag of a message. */
struct scalar {
    uint64_t tag;
    int64_t *number;
    bool *flag;
};

static void set_scalar(const struct scalar *s, size_t count, const struct field *f)
{
    for (size_t i = 0; i < count; i++) {
        if (s[i].tag != f->tag || f->wire != 0) continue;
        /* int32 fields that are negative are written as 64-bit numbers */
        if (s[i].number) *s[i].number = (int32_t)(uint32_t)f->number;
        else *s[i].flag = f->number != 0;
    }
}

/* What TrainerSpec says, with the defaults of the .proto file. */
struct trainer {
    int64_t model_type, unk, bos, eos;
};

static enum pith_status read_trainer(struct pith_spm_model *m, struct reader r, struct trainer *t,
                                     struct pith_error *err)
{
    const struct scalar known[] = {
        {3, &t->model_type, NULL}, {24, NULL, &m->space_at_end}, {35, NULL, &m->byte_fallback},
        {40, &t->unk, NULL},       {41, &t->bos, NULL},          {42, &t->eos, NULL},
    };
    struct field f;
    while (r.p < r.end) {
        if (!read_field(&r, &f)) return broken(err);
        set_scalar(known, PITH_COUNT(known), &f);
        if (f.tag != 44 || f.wire != 2) continue;
        pith_free(m->unk_surface);
        m->unk_surface = pith_strndup((const char *)f.bytes.p, left_in(&f.bytes));
        if (!m->unk_surface) return pith_fail_nomem(err, "tokenizer");
    }
    return PITH_OK;
}

static enum pith_status read_normalizer(struct pith_spm_model *m, struct reader r,
                                        struct pith_error *err)
{
    const struct scalar known[] = {
        {3, NULL, &m->dummy_prefix}, {4, NULL, &m->collapse_spaces}, {5, NULL, &m->escape_spaces}};
    struct field f;
    while (r.p < r.end) {
        if (!read_field(&r, &f)) return broken(err);
        set_scalar(known, PITH_COUNT(known), &f);
        if (f.tag == 2 && f.wire == 2)
            PITH_TRY(pith_charsmap_read(&m->rules, f.bytes.p, left_in(&f.bytes), err));
    }
    return PITH_OK;
}

static bool grow(struct pith_spm_model *m)
{
    if (m->vocab.count < m->cap) return true;
    const size_t cap = m->cap ? m->cap * 2 : 1024;
    uint8_t *type = pith_realloc(m->type, cap, sizeof *type);
    if (type) m->type = type;
    float *score = pith_realloc(m->score, cap, sizeof *score);
    if (score) m->score = score;
    if (!type || !score) return false;
    m->cap = cap;
    return true;
}

static enum pith_status check_piece(const char *text, size_t len, int64_t type, float score,
                                    size_t id, struct pith_error *err)
{
    if (len == 0) return pith_fail(err, PITH_FORMAT, "piece %zu is empty", id);
    if (type < PITH_SPM_NORMAL || type > PITH_SPM_ADDED)
        return pith_fail(err, PITH_FORMAT, "piece %zu has the unknown type %lld", id,
                         (long long)type);
    if (isnan(score))
        return pith_fail(err, PITH_FORMAT, "the score of piece %zu is not a number", id);
    if (!pith_utf8_valid(text, len))
        return pith_fail(err, PITH_FORMAT, "piece %zu is not UTF-8", id);
    if (len > PITH_SPM_PIECE && (type == PITH_SPM_NORMAL || type == PITH_SPM_UNUSED))
        return pith_fail(err, PITH_UNSUPPORTED, "piece %zu has %zu bytes, more than %d", id, len,
                         PITH_SPM_PIECE);
    return PITH_OK;
}

bool pith_spm_is_markup(const char *text, size_t len)
{
    return len > 1 && ((text[0] == '<' && text[len - 1] == '>') ||
                       (text[0] == '[' && text[len - 1] == ']'));
}

bool pith_spm_is_special(const struct pith_spm_model *m, int32_t id)
{
    return m->type[id] == PITH_SPM_CONTROL || (m->controls && m->type[id] == PITH_SPM_UNKNOWN);
}

/* Lets a piece be found in a text by what it is: special pieces and user-defined ones. */
static enum pith_status match_piece(struct pith_spm_model *m, int32_t id, struct pith_error *err)
{
    size_t len;
    const char *text = pith_vocab_text(&m->vocab, id, &len);
    const bool special = pith_spm_is_special(m, id), user = m->type[id] == PITH_SPM_USER;
    const bool added = m->type[id] == PITH_SPM_ADDED;
    const bool markup = user && pith_spm_is_markup(text, len);
    if ((special || added || markup) && !pith_matcher_add(&m->markup, text, len, id))
        return pith_fail_nomem(err, "tokenizer");
    return !user || pith_matcher_add(&m->user, text, len, id) ? PITH_OK
                                                              : pith_fail_nomem(err, "tokenizer");
}

enum pith_status pith_spm_retype(struct pith_spm_model *m, int32_t id, int type,
                                 struct pith_error *err)
{
    const int is = m->type[id];
    if (is != PITH_SPM_NORMAL && is != PITH_SPM_UNUSED && is != PITH_SPM_USER) return PITH_OK;
    m->type[id] = (uint8_t)type;
    return match_piece(m, id, err);
}

enum pith_status pith_spm_add(struct pith_spm_model *m, const char *text, size_t len, int64_t type,
                              float score, struct pith_error *err)
{
    const size_t id = m->vocab.count;
    PITH_TRY(check_piece(text, len, type, score, id, err));
    if (!grow(m)) return pith_fail_nomem(err, "tokenizer");
    if (len <= PITH_SPM_PIECE && len > m->mergeable) m->mergeable = len;
    m->type[id] = (uint8_t)type;
    m->score[id] = score;
    PITH_TRY(pith_vocab_add(&m->vocab, text, len, (int64_t)id, err));
    if (type == PITH_SPM_UNUSED) m->has_unused = true;
    PITH_TRY(match_piece(m, (int32_t)id, err));
    if (type == PITH_SPM_UNKNOWN) {
        if (m->unk >= 0) return pith_fail(err, PITH_FORMAT, "two pieces are the unknown one");
        m->unk = (int32_t)id;
    }
    return PITH_OK;
}

static enum pith_status read_piece(struct pith_spm_model *m, struct reader r,
                                   struct pith_error *err)
{
    struct reader text = {0};
    int64_t type = PITH_SPM_NORMAL;
    float score = 0;
    const struct scalar known[] = {{3, &type, NULL}};
    struct field f;
    while (r.p < r.end) {
        if (!read_field(&r, &f)) return broken(err);
        set_scalar(known, 1, &f);
        if (f.tag == 1 && f.wire == 2) text = f.bytes;
        if (f.tag == 2 && f.wire == 5) {
            const uint32_t bits = (uint32_t)f.number;
            memcpy(&score, &bits, sizeof score);
        }
    }
    if (type == PITH_SPM_ADDED) type = 0; /* no file has it */
    return pith_spm_add(m, (const char *)text.p, left_in(&text), type, score, err);
}

/* An id of the trainer, if it is that of a control piece. */
static int32_t control_id(const struct pith_spm_model *m, int64_t id)
{
    const bool good = id >= 0 && (uint64_t)id < m->vocab.count && m->type[id] == PITH_SPM_CONTROL;
    return good ? (int32_t)id : -1;
}

/* How far below the worst score an unknown character lies (unigram_model.cc). */
#define UNKNOWN_PENALTY 10.0f

/* What keeps a user-defined piece above all others of its length, as of SentencePiece 0.2.3. */
static float user_score(size_t len)
{
    return (float)(0.1 * (double)(len - 1));
}

/* The scores by which pieces are chosen. */
static enum pith_status choose_scores(struct pith_spm_model *m, struct pith_error *err)
{
    float worst = FLT_MAX;
    m->unigram.score = pith_alloc(m->vocab.count, sizeof *m->unigram.score);
    if (!m->unigram.score) return pith_fail_nomem(err, "tokenizer");
    for (size_t id = 0; id < m->vocab.count; id++) {
        const float score = m->score[id];
        size_t len = 1;
        pith_vocab_text(&m->vocab, (int64_t)id, &len);
        if (!isfinite(score))
            return pith_fail(err, PITH_FORMAT, "the score of piece %zu is not finite", id);
        if (m->type[id] == PITH_SPM_NORMAL && score < worst) worst = score;
        m->unigram.score[id] = m->type[id] == PITH_SPM_USER ? user_score(len) : score;
    }
    m->unigram.unk_score = worst - UNKNOWN_PENALTY;
    return PITH_OK;
}

static enum pith_status build_unigram(struct pith_spm_model *m, struct pith_error *err)
{
    PITH_TRY(choose_scores(m, err));
    m->unigram.unk = m->unk;
    m->unigram.narrow = true;
    struct pith_trie_key *key = pith_alloc(m->vocab.count, sizeof *key);
    if (!key) return pith_fail_nomem(err, "tokenizer");
    size_t count = 0;
    for (size_t id = 0; id < m->vocab.count; id++) {
        size_t len;
        const char *text = pith_vocab_text(&m->vocab, (int64_t)id, &len);
        if (m->type[id] == PITH_SPM_NORMAL || m->type[id] == PITH_SPM_USER)
            key[count++] = (struct pith_trie_key){text, (uint32_t)len, (int32_t)id};
    }
    const enum pith_status s = pith_unigram_build(&m->unigram, key, count, err);
    pith_free(key);
    return s;
}

enum pith_status pith_spm_finish(struct pith_spm_model *m, int64_t bos, int64_t eos,
                                 struct pith_error *err)
{
    if (m->vocab.count == 0)
        return pith_fail(err, PITH_FORMAT, "the SentencePiece model has no pieces");
    if (m->unk < 0) return pith_fail(err, PITH_FORMAT, "no piece is the unknown one");
    for (unsigned i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        const int32_t id = pith_vocab_find(&m->vocab, name, 6);
        m->byte[i] = id >= 0 && m->type[id] == PITH_SPM_BYTE ? id : -1;
        if (m->byte_fallback && m->byte[i] < 0)
            return pith_fail(err, PITH_FORMAT, "byte fallback without the piece %s", name);
    }
    m->bos = control_id(m, bos);
    m->eos = control_id(m, eos);
    if (m->is_unigram) PITH_TRY(build_unigram(m, err));
    return pith_matcher_finish(&m->user) && pith_matcher_finish(&m->markup)
               ? PITH_OK
               : pith_fail_nomem(err, "tokenizer");
}

static enum pith_status check_kind(struct pith_spm_model *m, const struct trainer *t,
                                   struct pith_error *err)
{
    enum { UNIGRAM = 1, BPE = 2 };
    static const char *const types[] = {"", "unigram", "BPE", "word", "char"};
    m->is_unigram = t->model_type == UNIGRAM;
    if (!m->is_unigram && t->model_type != BPE) {
        const bool named = t->model_type > 0 && t->model_type < (int64_t)PITH_COUNT(types);
        return pith_fail(err, PITH_UNSUPPORTED,
                         "SentencePiece %s models are not supported, only BPE and unigram",
                         named ? types[t->model_type] : "unknown");
    }
    return PITH_OK;
}

enum pith_status pith_spm_parse(struct pith_spm_model *m, const uint8_t *data, size_t size,
                                struct pith_spm_ends *ends, struct pith_error *err)
{
    struct trainer t = {.model_type = 1, .unk = 0, .bos = 1, .eos = 2};
    m->unk = m->bos = m->eos = -1;
    m->dummy_prefix = m->collapse_spaces = m->escape_spaces = true;
    struct reader r = {data, data + size};
    struct field f;
    while (r.p < r.end) {
        if (!read_field(&r, &f)) return broken(err);
        if (f.wire != 2) continue;
        if (f.tag == 1) PITH_TRY(read_piece(m, f.bytes, err));
        else if (f.tag == 2) PITH_TRY(read_trainer(m, f.bytes, &t, err));
        else if (f.tag == 3) PITH_TRY(read_normalizer(m, f.bytes, err));
    }
    *ends = (struct pith_spm_ends){t.bos, t.eos};
    return check_kind(m, &t, err);
}

void pith_spm_model_free(struct pith_spm_model *m)
{
    pith_vocab_free(&m->vocab);
    pith_matcher_free(&m->user);
    pith_matcher_free(&m->markup);
    pith_free(m->type);
    pith_free(m->score);
    pith_free(m->unk_surface);
    pith_charsmap_free(&m->rules);
    pith_unigram_free(&m->unigram);
    *m = (struct pith_spm_model){0};
}
