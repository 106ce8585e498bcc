/* constraint [MODEL]: what a constraint takes and writes, for scripts that hold it against others
 * (tests/golden/serve). A line of JSON in, one out:
 *
 *   {"kind": "schema" | "expression" | "json", "text", "texts": [...], "walks": n, "seed": n}
 *   {"status", "error", "compile_us", "took": [...], "walks": [[text, ended], ...],
 *    "masks", "mask_us", "mask_most_us", "bytes"}
 *
 * took: whether each of the texts is one that the constraint takes. walks: texts of tokens drawn at
 * random from the masks; ended: it came to its end, within 4,000 tokens. Tokens are those of a
 * model's tokenizer, or single bytes. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "serve/grammar/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, MOST_TOKENS = 4000, CALM = 60 };

struct bench {
    struct pith_vocab_bytes *vocab;
    int32_t end;
    struct pith_rng rng;
    int32_t *allowed; /* [vocab] */
    bool *closes;     /* [vocab]: a token begins with what ends a value */
    size_t masks;
    double seconds, most; /* that masks took, all and the slowest */
};

static void open_bytes(struct bench *b, struct pith_error *err)
{
    char text[BYTES];
    uint32_t at[BYTES + 2];
    for (int i = 0; i < BYTES; i++) text[i] = (char)i;
    for (uint32_t i = 0; i <= BYTES; i++) at[i] = i;
    at[BYTES + 1] = BYTES;
    const struct pith_spelling tokens = {text, at, BYTES + 1};
    b->end = BYTES;
    (void)pith_vocab_bytes_make(&tokens, &b->end, 1, &b->vocab, err);
}

/* The end is an id of its own behind the tokenizer's. */
static void open_model(struct bench *b, const char *model, struct pith_error *err)
{
    struct pith_tokenizer *t = NULL;
    if (pith_tokenizer_open(model, &t, err) != PITH_OK) return;
    const double start = pith_clock();
    b->end = (int32_t)pith_tokenizer_vocab(t);
    (void)pith_vocab_bytes_open(t, (size_t)b->end + 1, &b->end, 1, &b->vocab, err);
    if (b->vocab)
        fprintf(stderr, "%d tokens, %zu bytes, %.1f ms\n", (int)b->end,
                pith_vocab_bytes_size(b->vocab), (pith_clock() - start) * 1e3);
    pith_tokenizer_close(t);
}

static const uint64_t *mask(struct bench *b, struct pith_grammar_matcher *m)
{
    const uint64_t *bits;
    struct pith_error err = {0};
    const double start = pith_clock();
    if (pith_matcher_mask(m, &bits, &err) != PITH_OK) {
        fprintf(stderr, "mask: %s\n", err.text);
        return NULL;
    }
    const double took = pith_clock() - start;
    b->masks++;
    b->seconds += took;
    if (took > b->most) b->most = took;
    return bits;
}

static bool allows(const uint64_t *bits, int32_t id)
{
    return bits[id / 64] >> (id % 64) & 1;
}

/* One of the allowed ids; after a while rather those that bring it to its end. */
static int32_t draw(struct bench *b, const uint64_t *bits, size_t taken)
{
    size_t n = 0, ends = 0;
    const bool tired = taken > CALM || pith_rng_below(&b->rng, 8) == 0;
    if (tired && allows(bits, b->end)) return b->end;
    for (int32_t i = 0; i <= b->end; i++) {
        if (bits[i / 64] == 0) i |= 63;
        if (i > b->end || !allows(bits, i)) continue;
        if (tired && b->closes[i] && i != b->end) {
            b->allowed[n++] = b->allowed[ends];
            b->allowed[ends++] = i;
        } else {
            b->allowed[n++] = i;
        }
    }
    if (n == 0) return -1;
    return b->allowed[pith_rng_below(&b->rng, ends ? ends : n)];
}

static json_t *walk(struct bench *b, struct pith_grammar *g)
{
    struct pith_grammar_matcher *m = NULL;
    struct pith_str text = {0};
    bool ended = false;
    if (pith_matcher_open(g, &m, NULL) != PITH_OK) return NULL;
    for (size_t i = 0; i < MOST_TOKENS && !ended; i++) {
        const uint64_t *bits = mask(b, m);
        const int32_t id = bits ? draw(b, bits, i) : -1;
        if (id < 0 || !pith_matcher_accept(m, id)) break;
        ended = id == b->end;
        pith_str_append(&text, b->vocab->text + b->vocab->at[id],
                        b->vocab->at[id + 1] - b->vocab->at[id]);
    }
    json_t *j = json_pack("[o, b]", json_stringn_nocheck(pith_str_text(&text), text.len), ended);
    pith_str_free(&text);
    pith_matcher_close(m);
    return j;
}

/* The longest token that the rest of the text begins with and that is allowed. */
static bool takes(struct bench *b, struct pith_grammar *g, const char *text)
{
    struct pith_grammar_matcher *m = NULL;
    bool good = pith_matcher_open(g, &m, NULL) == PITH_OK;
    while (good && *text) {
        const uint64_t *bits = mask(b, m);
        int32_t best = -1;
        uint32_t longest = 0;
        for (int32_t i = 0; bits && i < b->end; i++) {
            const uint32_t len = b->vocab->at[i + 1] - b->vocab->at[i];
            if (len <= longest || !allows(bits, i)) continue;
            if (strncmp(b->vocab->text + b->vocab->at[i], text, len) != 0) continue;
            best = i;
            longest = len;
        }
        good = best >= 0 && pith_matcher_accept(m, best);
        text += longest;
    }
    good = good && pith_matcher_may_end(m);
    pith_matcher_close(m);
    return good;
}

static void use(struct bench *b, struct pith_grammar *g, const json_t *job, json_t *out)
{
    const json_t *texts = json_object_get(job, "texts");
    json_t *took = json_array(), *walks = json_array();
    for (size_t i = 0; i < json_array_size(texts); i++)
        json_array_append_new(
            took, json_boolean(takes(b, g, json_string_value(json_array_get(texts, i)))));
    for (json_int_t n = json_integer_value(json_object_get(job, "walks")); n > 0; n--)
        json_array_append_new(walks, walk(b, g));
    json_object_set_new(out, "took", took);
    json_object_set_new(out, "walks", walks);
    json_object_set_new(out, "masks", json_integer((json_int_t)b->masks));
    json_object_set_new(out, "mask_us",
                        json_real(b->masks ? b->seconds * 1e6 / (double)b->masks : 0));
    json_object_set_new(out, "mask_most_us", json_real(b->most * 1e6));
    json_object_set_new(out, "bytes", json_integer((json_int_t)pith_grammar_size(g)));
}

static json_t *run(struct bench *b, const json_t *job)
{
    static const char *const names[] = {"", "json", "schema", "expression"};
    const char *kind = json_string_value(json_object_get(job, "kind"));
    struct pith_error err = {0};
    struct pith_grammar *g = NULL;
    size_t k = 1;
    while (k < 3 && kind && strcmp(kind, names[k]) != 0) k++;
    b->masks = 0;
    b->seconds = b->most = 0;
    pith_rng_seed(&b->rng, (uint64_t)json_integer_value(json_object_get(job, "seed")));
    const double start = pith_clock();
    const enum pith_status s = pith_grammar_open(b->vocab, (enum pith_constraint)k,
                                                 json_string_value(json_object_get(job, "text")),
                                                 &g, &err);
    json_t *out = json_pack("{s:i, s:s, s:f}", "status", (int)s, "error",
                            s == PITH_OK ? "" : err.text, "compile_us",
                            (pith_clock() - start) * 1e6);
    if (s == PITH_OK) use(b, g, job, out);
    pith_grammar_close(g);
    return out;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct pith_error err = {0};
    char *line = NULL;
    size_t size = 0;
    if (argc > 1) open_model(&b, argv[1], &err);
    else open_bytes(&b, &err);
    b.allowed = calloc((size_t)b.end + 1, sizeof *b.allowed);
    b.closes = calloc((size_t)b.end + 1, sizeof *b.closes);
    if (!b.vocab || !b.allowed || !b.closes) {
        fprintf(stderr, "constraint: %s\n", err.text);
        return 1;
    }
    for (int32_t id = 0; id < b.end; id++) {
        const uint32_t at = b.vocab->at[id];
        b.closes[id] = at < b.vocab->at[id + 1] && strchr("\"}]", b.vocab->text[at]);
    }
    while (getline(&line, &size, stdin) > 0) {
        json_t *job = json_loads(line, JSON_ALLOW_NUL, NULL);
        json_t *out = job ? run(&b, job) : json_pack("{s:s}", "error", "no JSON");
        char *text = json_dumps(out, JSON_COMPACT);
        puts(text ? text : "{\"error\": \"a text that is no UTF-8\"}");
        fflush(stdout);
        free(text);
        json_decref(out);
        json_decref(job);
    }
    free(line);
    free(b.allowed);
    free(b.closes);
    pith_vocab_bytes_close(b.vocab);
    return 0;
}
