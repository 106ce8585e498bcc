#include "tok/decoder.h"

#include "base/mem.h"
#include "tok/component.h"
#include "tok/unicode/bytemap.h"
#include "tok/unicode/utf8.h"

#include <string.h>

static const char what[] = "decoder";

#define MAX_STEPS 64
/* Longest text that a step may put in; real ones have one character. */
#define MAX_CONTENT PITH_DECODE_GROWTH

/* A step gets whole tokens, or, behind a step that fuses, consecutive parts of one single token.
 * Steps that can work on parts say so; for the others the parts are collected until the end. */
struct step_kind {
    enum pith_status (*read)(struct pith_decode_step *s, const json_t *json,
                             struct pith_error *err);
    enum pith_status (*push)(struct pith_decoding *g, size_t step, const char *text, size_t len,
                             struct pith_error *err);
    enum pith_status (*end)(struct pith_decoding *g, size_t step, struct pith_error *err);
    bool fuses, takes_parts;
};

struct pith_decode_step {
    const struct step_kind *kind;
    bool collect; /* tokens are parts of one, and this step wants it whole */
    bool parts;   /* tokens are parts of one, and this step takes them so */
    char *text;   /* replace: content; strip: character; suffix: the suffix; metaspace: mark */
    size_t text_len;
    struct pith_regex *pattern; /* replace */
    size_t start, stop;         /* strip; of pieces: "spaces", "all" */
    bool keep_first;            /* metaspace: the first token keeps its marks */
};

/* What a step remembers between tokens. */
struct memory {
    struct pith_str pending, whole;
    size_t count; /* suffix: tokens so far; pieces: texts sent */
    size_t cut;   /* strip: characters cut at the start */
    bool closed;  /* the start of the text is behind us */
};

struct pith_decoding {
    const struct pith_decoder *d;
    struct memory *memory;
    struct pith_regex_run regex;
    struct pith_str *out;
    size_t most; /* bytes that the tokens so far may become */
    size_t made; /* bytes that went out */
    bool bare;   /* of one token its bytes are wanted, whole characters or not */
};

static enum pith_status too_long(struct pith_error *err)
{
    return pith_fail(err, PITH_LIMIT,
                     "the tokenizer's %s makes more than %d bytes of a byte of its tokens", what,
                     PITH_DECODE_GROWTH);
}

static enum pith_status push_to(struct pith_decoding *g, size_t step, const char *text, size_t len,
                                struct pith_error *err)
{
    if (step == g->d->count) {
        g->made += len;
        if (g->made > g->most) return too_long(err);
        pith_str_append(g->out, text, len);
        return g->out->failed ? pith_fail_nomem(err, "decoded text") : PITH_OK;
    }
    const struct pith_decode_step *s = &g->d->step[step];
    if (s->collect) {
        pith_str_append(&g->memory[step].whole, text, len);
        if (g->memory[step].whole.len > g->most) return too_long(err);
        return g->memory[step].whole.failed ? pith_fail_nomem(err, "decoded text") : PITH_OK;
    }
    return s->kind->push(g, step, text, len, err);
}

/* Ends a step and those behind it. */
static enum pith_status end_from(struct pith_decoding *g, size_t step, struct pith_error *err)
{
    for (; step < g->d->count; step++) {
        const struct pith_decode_step *s = &g->d->step[step];
        const struct pith_str *whole = &g->memory[step].whole;
        if (s->collect) PITH_TRY(s->kind->push(g, step, pith_str_text(whole), whole->len, err));
        if (s->kind->end) PITH_TRY(s->kind->end(g, step, err));
    }
    return PITH_OK;
}

/* Of one token: parts of characters pass by what steps do to characters. */
static enum pith_status push_bare(struct pith_decoding *g, size_t step, const char *bytes,
                                  size_t len, struct pith_error *err)
{
    if (pith_utf8_valid(bytes, len)) return push_to(g, step, bytes, len, err);
    pith_str_append(g->out, bytes, len);
    return g->out->failed ? pith_fail_nomem(err, "decoded text") : PITH_OK;
}

/* ---- steps ---- */

/* Sends the well-formed part of the buffer; `all`: also an unfinished character, as U+FFFD. */
static enum pith_status send_utf8(struct pith_decoding *g, size_t step, bool all,
                                  struct pith_error *err)
{
    struct pith_str *pending = &g->memory[step].pending;
    if (pending->failed) return pith_fail_nomem(err, "decoded text");
    size_t at = 0, len;
    struct pith_str clean = {0};
    while (at < pending->len) {
        const enum pith_utf8 u = pith_utf8_step(pending->data + at, pending->len - at, &len);
        if (u == PITH_UTF8_PARTIAL && !all) break;
        if (u == PITH_UTF8_VALID) pith_str_append(&clean, pending->data + at, len);
        else pith_str_puts(&clean, PITH_UTF8_REPLACEMENT);
        at += len;
    }
    enum pith_status s = PITH_OK;
    if (clean.failed) s = pith_fail_nomem(err, "decoded text");
    else if (clean.len) s = push_to(g, step + 1, clean.data, clean.len, err);
    pith_str_free(&clean);
    if (at) {
        memmove(pending->data, pending->data + at, pending->len - at);
        pending->len -= at;
    }
    return s;
}

static enum pith_status push_byte_level(struct pith_decoding *g, size_t step, const char *text,
                                        size_t len, struct pith_error *err)
{
    struct pith_str *pending = &g->memory[step].pending;
    pith_bytemap_read(text, len, pending);
    if (!g->bare) return send_utf8(g, step, false, err);
    const size_t n = pending->len;
    pending->len = 0;
    return pending->failed ? pith_fail_nomem(err, "decoded text")
                           : push_bare(g, step + 1, pith_str_text(pending), n, err);
}

static enum pith_status end_byte_level(struct pith_decoding *g, size_t step, struct pith_error *err)
{
    return send_utf8(g, step, true, err);
}

static enum pith_status read_mark(struct pith_decode_step *s, const char *text, size_t len,
                                  struct pith_error *err)
{
    if (len > MAX_CONTENT)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: a text of more than %d bytes", what,
                         MAX_CONTENT);
    s->text = pith_strndup(text, len);
    s->text_len = len;
    return s->text ? PITH_OK : pith_fail_nomem(err, what);
}

static enum pith_status read_decode_metaspace(struct pith_decode_step *s, const json_t *json,
                                              struct pith_error *err)
{
    const char *mark = "\xe2\x96\x81", *scheme = "always";
    bool space = true;
    PITH_TRY(pith_json_get_str(json, "replacement", &mark, what, err));
    PITH_TRY(pith_json_get_str(json, "prepend_scheme", &scheme, what, err));
    PITH_TRY(pith_json_get_bool(json, "add_prefix_space", &space, what, err));
    if (!mark[0] || strlen(mark) != pith_utf8_len(mark[0]))
        return pith_fail(err, PITH_FORMAT, "%s: the replacement is not one character", what);
    s->keep_first = !space || strcmp(scheme, "never") == 0;
    return read_mark(s, mark, strlen(mark), err);
}

/* Marks become spaces; in the first token they vanish. */
static enum pith_status push_metaspace(struct pith_decoding *g, size_t step, const char *text,
                                       size_t len, struct pith_error *err)
{
    const struct pith_decode_step *s = &g->d->step[step];
    struct memory *m = &g->memory[step];
    const bool vanish = !m->closed && !s->keep_first;
    if (!s->parts) m->closed = true;
    struct pith_str *out = &m->pending;
    pith_str_clear(out);
    for (size_t i = 0, n; i < len; i += n) {
        n = pith_utf8_len(text[i]);
        if (n != s->text_len || memcmp(text + i, s->text, n) != 0)
            pith_str_append(out, text + i, n);
        else if (!vanish) pith_str_putc(out, ' ');
    }
    if (out->failed) return pith_fail_nomem(err, "decoded text");
    return push_to(g, step + 1, pith_str_text(out), out->len, err);
}

static enum pith_status read_replace(struct pith_decode_step *s, const json_t *json,
                                     struct pith_error *err)
{
    const char *text;
    size_t len;
    PITH_TRY(pith_component_text(json, "content", what, &text, &len, err));
    PITH_TRY(read_mark(s, text, len, err));
    return pith_component_pattern(json, what, &s->pattern, err);
}

struct replacement {
    const char *content;
    size_t content_len;
    const char *text;
    struct pith_str *out;
    size_t most;
};

static enum pith_status replace_part(void *ctx, size_t from, size_t to, bool match,
                                     struct pith_error *err)
{
    const struct replacement *r = ctx;
    if (match) pith_str_append(r->out, r->content, r->content_len);
    else pith_str_append(r->out, r->text + from, to - from);
    return r->out->len > r->most ? too_long(err) : PITH_OK;
}

static enum pith_status push_replace(struct pith_decoding *g, size_t step, const char *text,
                                     size_t len, struct pith_error *err)
{
    const struct pith_decode_step *s = &g->d->step[step];
    struct pith_str *out = &g->memory[step].pending;
    pith_str_clear(out);
    struct replacement r = {s->text, s->text_len, text, out, g->most};
    PITH_TRY(pith_regex_parts(s->pattern, &g->regex, text, len, replace_part, &r, err));
    if (out->failed) return pith_fail_nomem(err, "decoded text");
    return push_to(g, step + 1, pith_str_text(out), out->len, err);
}

/* The byte of a token such as <0x0A>, -1 for others. "+F" counts as a number there too. */
static int fallback_byte(const char *text, size_t len)
{
    if (len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    const int high = pith_hex_digit(text[3]), low = pith_hex_digit(text[4]);
    if (text[3] == '+' && low >= 0) return low;
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* A run of byte tokens is text when all of it is well-formed, else one U+FFFD for each token; so
 * nothing of a run is certain before its end. */
static enum pith_status end_byte_fallback(struct pith_decoding *g, size_t step,
                                          struct pith_error *err)
{
    struct pith_str *run = &g->memory[step].pending;
    if (run->failed) return pith_fail_nomem(err, "decoded text");
    enum pith_status s = PITH_OK;
    if (run->len && pith_utf8_valid(run->data, run->len))
        s = push_to(g, step + 1, run->data, run->len, err);
    else
        for (size_t i = 0; s == PITH_OK && i < run->len; i++)
            s = push_to(g, step + 1, PITH_UTF8_REPLACEMENT, 3, err);
    pith_str_clear(run);
    return s;
}

static enum pith_status push_byte_fallback(struct pith_decoding *g, size_t step, const char *text,
                                           size_t len, struct pith_error *err)
{
    const int byte = fallback_byte(text, len);
    if (byte >= 0 && g->bare) return push_bare(g, step + 1, &(char){(char)byte}, 1, err);
    if (byte >= 0) {
        pith_str_putc(&g->memory[step].pending, (char)byte);
        return PITH_OK;
    }
    PITH_TRY(end_byte_fallback(g, step, err));
    return push_to(g, step + 1, text, len, err);
}

static enum pith_status push_fuse(struct pith_decoding *g, size_t step, const char *text,
                                  size_t len, struct pith_error *err)
{
    return push_to(g, step + 1, text, len, err);
}

static enum pith_status read_strip(struct pith_decode_step *s, const json_t *json,
                                   struct pith_error *err)
{
    const char *text;
    size_t len;
    int64_t start = 0, stop = 0;
    PITH_TRY(pith_component_text(json, "content", what, &text, &len, err));
    if (len == 0 || len != pith_utf8_len(text[0]))
        return pith_fail(err, PITH_FORMAT, "%s: Strip wants one character", what);
    PITH_TRY(pith_json_get_int(json, "start", 0, INT32_MAX, &start, what, err));
    PITH_TRY(pith_json_get_int(json, "stop", 0, INT32_MAX, &stop, what, err));
    s->start = (size_t)start;
    s->stop = (size_t)stop;
    return read_mark(s, text, len, err);
}

/* Cuts up to `start` characters at the start of a token and up to `stop` at its end. */
static enum pith_status push_strip(struct pith_decoding *g, size_t step, const char *text,
                                   size_t len, struct pith_error *err)
{
    const struct pith_decode_step *s = &g->d->step[step];
    struct memory *m = &g->memory[step];
    if (!s->parts) {
        m->cut = 0;
        m->closed = false;
    }
    while (!m->closed && len) {
        if (m->cut == s->start || len < s->text_len || memcmp(text, s->text, s->text_len) != 0) {
            m->closed = true;
            break;
        }
        text += s->text_len;
        len -= s->text_len;
        m->cut++;
    }
    for (size_t i = 0; i < s->stop && len >= s->text_len; i++) {
        if (memcmp(text + len - s->text_len, s->text, s->text_len) != 0) break;
        len -= s->text_len;
    }
    return push_to(g, step + 1, text, len, err);
}

static enum pith_status read_suffix(struct pith_decode_step *s, const json_t *json,
                                    struct pith_error *err)
{
    const char *text;
    size_t len;
    PITH_TRY(pith_component_text(json, "suffix", what, &text, &len, err));
    PITH_TRY(read_mark(s, text, len, err));
    return pith_regex_literal(text, len, &s->pattern, err);
}

/* Sends the token that waits; its suffix becomes `instead`. */
static enum pith_status send_suffixed(struct pith_decoding *g, size_t step, const char *instead,
                                      struct pith_error *err)
{
    struct memory *m = &g->memory[step];
    if (m->count == 0) return PITH_OK;
    struct pith_str out = {0};
    struct replacement r = {instead, strlen(instead), pith_str_text(&m->pending), &out, g->most};
    enum pith_status s = pith_regex_parts(g->d->step[step].pattern, &g->regex, r.text,
                                          m->pending.len, replace_part, &r, err);
    if (s == PITH_OK && (out.failed || m->pending.failed)) s = pith_fail_nomem(err, "decoded text");
    if (s == PITH_OK) s = push_to(g, step + 1, pith_str_text(&out), out.len, err);
    pith_str_free(&out);
    return s;
}

static enum pith_status push_suffix(struct pith_decoding *g, size_t step, const char *text,
                                    size_t len, struct pith_error *err)
{
    struct memory *m = &g->memory[step];
    PITH_TRY(send_suffixed(g, step, " ", err));
    pith_str_clear(&m->pending);
    pith_str_append(&m->pending, text, len);
    m->count++;
    return PITH_OK;
}

static enum pith_status end_suffix(struct pith_decoding *g, size_t step, struct pith_error *err)
{
    return send_suffixed(g, step, "", err);
}

static enum pith_status push_spaced(struct pith_decoding *g, size_t step, const char *text,
                                    size_t len, struct pith_error *err)
{
    if (g->memory[step].closed) PITH_TRY(push_to(g, step + 1, " ", 1, err));
    g->memory[step].closed = true;
    return push_to(g, step + 1, text, len, err);
}

/* SentencePiece strips the space that its normalizer put in front of the text; "strip" says whether
 * it did, "all" whether every leading piece loses its mark, "spaces" whether that may be a space as
 * such, as Hugging Face's decoders and llama.cpp have it: in pieces of a GGUF file, in tokens
 * outside a model, as a byte. */
static enum pith_status read_pieces(struct pith_decode_step *s, const json_t *json,
                                    struct pith_error *err)
{
    bool strip_prefix = false, all = false, spaces = false;
    PITH_TRY(pith_json_get_bool(json, "strip", &strip_prefix, what, err));
    PITH_TRY(pith_json_get_bool(json, "all", &all, what, err));
    PITH_TRY(pith_json_get_bool(json, "spaces", &spaces, what, err));
    s->keep_first = !strip_prefix;
    s->start = spaces;
    s->stop = all;
    return PITH_OK;
}

/* Sends characters of a run of byte pieces; each byte that is not part of one becomes U+FFFD. */
static enum pith_status send_bytes(struct pith_decoding *g, size_t step, bool all,
                                   struct pith_error *err)
{
    struct pith_str *pending = &g->memory[step].pending;
    if (pending->failed) return pith_fail_nomem(err, "decoded text");
    size_t at = 0, len;
    enum pith_status s = PITH_OK;
    while (s == PITH_OK && at < pending->len) {
        const enum pith_utf8 u = pith_utf8_step(pending->data + at, pending->len - at, &len);
        if (u == PITH_UTF8_PARTIAL && !all) break;
        if (u != PITH_UTF8_VALID) len = 1;
        s = u == PITH_UTF8_VALID ? push_to(g, step + 1, pending->data + at, len, err)
                                 : push_to(g, step + 1, PITH_UTF8_REPLACEMENT, 3, err);
        at += len;
        g->memory[step].count++;
    }
    if (at) {
        memmove(pending->data, pending->data + at, pending->len - at);
        pending->len -= at;
    }
    return s;
}

static enum pith_status end_pieces(struct pith_decoding *g, size_t step, struct pith_error *err)
{
    return send_bytes(g, step, true, err);
}

static enum pith_status push_pieces(struct pith_decoding *g, size_t step, const char *text,
                                    size_t len, struct pith_error *err)
{
    static const char mark[] = "\xe2\x96\x81";
    struct memory *m = &g->memory[step];
    const bool spaces = g->d->step[step].start != 0;
    const int byte = fallback_byte(text, len);
    if (byte >= 0 && g->bare) return push_bare(g, step + 1, &(char){(char)byte}, 1, err);
    if (byte == ' ' && spaces) {
        text = " ";
        len = 1;
    } else if (byte >= 0) {
        pith_str_putc(&m->pending, (char)byte);
        return send_bytes(g, step, false, err);
    }
    PITH_TRY(send_bytes(g, step, true, err));
    if (m->count) m->closed = true;
    const bool plain = spaces && len > 0 && *text == ' ';
    const size_t space_bytes = len >= 3 && memcmp(text, mark, 3) == 0 ? 3 : plain;
    size_t i = 0;
    if (space_bytes && !m->closed && !g->d->step[step].keep_first) {
        i = space_bytes;
        m->closed = g->d->step[step].stop == 0;
    }
    m->count += len > i;
    while (i < len) {
        const size_t n = pith_utf8_len(text[i]);
        const bool space = n == 3 && memcmp(text + i, mark, 3) == 0;
        PITH_TRY(push_to(g, step + 1, space ? " " : text + i, space ? 1 : n, err));
        i += n;
    }
    return PITH_OK;
}

static const struct step_kind byte_level = {NULL, push_byte_level, end_byte_level, true, false},
                              metaspace = {read_decode_metaspace, push_metaspace, NULL, false,
                                           true},
                              replace = {read_replace, push_replace, NULL, false, false},
                              byte_fallback = {NULL, push_byte_fallback, end_byte_fallback, false,
                                               false},
                              fuse = {NULL, push_fuse, NULL, true, true},
                              strip = {read_strip, push_strip, NULL, false, true},
                              suffix = {read_suffix, push_suffix, end_suffix, false, false},
                              pieces = {read_pieces, push_pieces, end_pieces, false, false},
                              spaced = {NULL, push_spaced, NULL, false, true};

/* "type" in tokenizer.json, and its step. The last is not one of a file's: it is how SentencePiece
 * decodes. */
static const struct {
    const char *name;
    const struct step_kind *kind;
} components[] = {
    {"ByteLevel", &byte_level},
    {"Metaspace", &metaspace},
    {"Replace", &replace},
    {"ByteFallback", &byte_fallback},
    {"Fuse", &fuse},
    {"Strip", &strip},
    {"BPEDecoder", &suffix},
    {"SentencePiece", &pieces},
};

/* ---- reading ---- */

static enum pith_status add_decode_step(struct pith_decoder *d, const struct step_kind *kind,
                                        const json_t *json, struct pith_error *err)
{
    if (d->count == MAX_STEPS)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: more than %d steps", what, MAX_STEPS);
    struct pith_decode_step *step = pith_realloc(d->step, d->count + 1, sizeof *step);
    if (!step) return pith_fail_nomem(err, what);
    d->step = step;
    step += d->count++;
    *step = (struct pith_decode_step){.kind = kind};
    return kind->read ? kind->read(step, json, err) : PITH_OK;
}

static enum pith_status read_nested_decoder(struct pith_decoder *d, const json_t *json, int depth,
                                            struct pith_error *err)
{
    const char *type;
    PITH_TRY(pith_component_type(json, what, &type, err));
    for (size_t i = 0; i < PITH_COUNT(components); i++)
        if (strcmp(components[i].name, type) == 0)
            return add_decode_step(d, components[i].kind, json, err);
    if (strcmp(type, "Sequence") != 0) return pith_component_unsupported(what, type, err);
    const json_t *list = json_object_get(json, "decoders");
    if (!json_is_array(list) || depth == PITH_COMPONENT_DEPTH)
        return pith_fail(err, PITH_FORMAT, "%s: Sequence without a list, or nested too deep", what);
    for (size_t i = 0; i < json_array_size(list); i++)
        PITH_TRY(read_nested_decoder(d, json_array_get(list, i), depth + 1, err));
    return PITH_OK;
}

enum pith_status pith_decoder_read(struct pith_decoder *d, const json_t *json,
                                   struct pith_error *err)
{
    if (!json || json_is_null(json)) return add_decode_step(d, &spaced, NULL, err);
    PITH_TRY(read_nested_decoder(d, json, 0, err));
    bool fused = false;
    for (size_t i = 0; i < d->count; i++) {
        struct pith_decode_step *s = &d->step[i];
        s->parts = fused && s->kind->takes_parts && s->stop == 0;
        s->collect = fused && !s->parts;
        fused = fused || s->kind->fuses;
    }
    return PITH_OK;
}

void pith_decoder_free(struct pith_decoder *d)
{
    for (size_t i = 0; i < d->count; i++) {
        pith_free(d->step[i].text);
        pith_regex_free(d->step[i].pattern);
    }
    pith_free(d->step);
    *d = (struct pith_decoder){0};
}

/* ---- running ---- */

enum pith_status pith_decoding_new(const struct pith_decoder *d, bool continued,
                                   struct pith_decoding **out, struct pith_error *err)
{
    struct pith_decoding *g = pith_zalloc(1, sizeof *g);
    if (g) g->memory = pith_zalloc(d->count, sizeof *g->memory);
    if (!g || !g->memory) {
        pith_free(g);
        return pith_fail_nomem(err, what);
    }
    g->d = d;
    for (size_t i = 0; i < d->count; i++) g->memory[i].closed = continued;
    *out = g;
    return PITH_OK;
}

enum pith_status pith_decoding_push(struct pith_decoding *g, const char *text, size_t len,
                                    struct pith_str *out, struct pith_error *err)
{
    g->out = out;
    g->most += (len + 1) * PITH_DECODE_GROWTH;
    return push_to(g, 0, text, len, err);
}

enum pith_status pith_decoding_end(struct pith_decoding *g, struct pith_str *out,
                                   struct pith_error *err)
{
    g->out = out;
    return end_from(g, 0, err);
}

void pith_decoding_free(struct pith_decoding *g)
{
    if (!g) return;
    for (size_t i = 0; i < g->d->count; i++) {
        pith_str_free(&g->memory[i].pending);
        pith_str_free(&g->memory[i].whole);
    }
    pith_regex_run_free(&g->regex);
    pith_free(g->memory);
    pith_free(g);
}

enum pith_status pith_decoder_bytes(const struct pith_decoder *d, const char *text, size_t len,
                                    struct pith_str *out, struct pith_error *err)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->step[i].kind == &suffix || d->step[i].kind == &spaced)
            return pith_fail(err, PITH_UNSUPPORTED,
                             "the tokenizer puts spaces between tokens: their bytes depend on "
                             "their neighbours");
    struct pith_decoding *g;
    PITH_TRY(pith_decoding_new(d, true, &g, err));
    g->bare = true;
    enum pith_status s = pith_decoding_push(g, text, len, out, err);
    if (s == PITH_OK) s = pith_decoding_end(g, out, err);
    pith_decoding_free(g);
    return s;
}
