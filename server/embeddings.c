/* /v1/embeddings: the mean of the last hidden rows of each input, of length 1. */
#include "server/routes.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INPUTS = 256 };

/* The request. */
struct wish {
    struct body_input *input;
    size_t inputs, tokens;
    json_int_t dimensions; /* 0: all */
    bool base64;
    bool special; /* BOS in front of texts where the tokenizer says so */
};

static bool read_wish(const json_t *body, struct wish *w, struct refusal *r)
{
    const json_t *format = body_get(body, "encoding_format"), *d = body_get(body, "dimensions");
    const char *name = json_string_value(format);
    if (format && (!name || (strcmp(name, "float") != 0 && strcmp(name, "base64") != 0)))
        return refuse(r, 400, "encoding_format", "'encoding_format' is 'float' or 'base64'");
    if (!body_flag(body, "add_special_tokens", true, &w->special, r)) return false;
    w->base64 = name && strcmp(name, "base64") == 0;
    if (d && (!json_is_integer(d) || json_integer_value(d) <= 0))
        return refuse(r, 400, "dimensions", "'dimensions' must be a whole number above 0");
    w->dimensions = json_integer_value(d);
    return body_inputs(body, "input", MOST_INPUTS, &w->input, &w->inputs, r);
}

/* Ids in place of a text. */
static bool encode(struct exchange *e, struct body_input *in, bool special, struct refusal *r)
{
    struct pith_error err = {0};
    char *ids = NULL;
    const struct pith_input_text input = {
        .text = in->text, .size = in->text_size, .special = special};
    const enum pith_status s =
        pith_service_encode(atomic_load(&e->server->service), &input, &ids, &err);
    if (s != PITH_OK) return refuse_failure(r, s, &err);
    json_t *list = json_loads(ids, 0, NULL);
    pith_text_free(ids);
    const bool good = body_ids(list, "input", &in->ids, &in->id_count, r);
    json_decref(list);
    return good;
}

/* Little-endian floats, as OpenAI's client reads them. */
static json_t *as_base64(const float *x, size_t n)
{
    unsigned char *text = malloc(n * sizeof *x * 4 / 3 + 8);
    json_t *j = NULL;
    if (text) {
        const int size = EVP_EncodeBlock(text, (const unsigned char *)x, (int)(n * sizeof *x));
        j = json_stringn((const char *)text, (size_t)size);
    }
    free(text);
    return j;
}

static json_t *as_list(const float *x, size_t n)
{
    json_t *j = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(j, json_real((double)x[i]));
    return j;
}

static json_t *embed(struct exchange *e, struct wish *w, size_t i, struct refusal *r)
{
    struct body_input *in = &w->input[i];
    struct pith_error err = {0};
    float *x = NULL;
    size_t width = 0;
    if (in->text && !encode(e, in, w->special, r)) return NULL;
    const struct pith_input_text input = {.ids = in->ids, .count = in->id_count, .normal = 1};
    const enum pith_status s =
        pith_service_embed(atomic_load(&e->server->service), &input, &x, &width, &err);
    json_t *j = NULL;
    if (s != PITH_OK) {
        (void)refuse_prompt(r, s, &err, "input");
    } else if (w->dimensions > 0 && (size_t)w->dimensions != width) {
        (void)refuse(r, 400, "dimensions", "the model's embeddings have %zu dimensions", width);
    } else {
        w->tokens += in->id_count;
        j = json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", (int)i, "embedding",
                      w->base64 ? as_base64(x, width) : as_list(x, width));
        if (!j) (void)refuse_failure(r, PITH_NOMEM, NULL);
    }
    pith_text_free((char *)x);
    return j;
}

void embeddings_answer(struct exchange *e)
{
    struct refusal r = {0};
    struct wish w = {0};
    json_t *body = exchange_body(e, FIELD_EMBED, &r);
    json_t *list = json_array();
    bool good = body && read_wish(body, &w, &r);
    for (size_t i = 0; good && i < w.inputs && !e->gone; i++) {
        json_t *one = embed(e, &w, i, &r);
        good = one && json_array_append_new(list, one) == 0;
    }
    if (!good && r.status == 0) (void)refuse_failure(&r, PITH_NOMEM, NULL);
    if (r.status) {
        json_decref(list);
        exchange_refuse(e, &r);
    } else {
        exchange_json(e, 200,
                      json_pack("{s:s, s:o, s:s, s:{s:I, s:I}}", "object", "list", "data", list,
                                "model", e->server->settings.name, "usage", "prompt_tokens",
                                (json_int_t)w.tokens, "total_tokens", (json_int_t)w.tokens));
    }
    body_inputs_free(w.input, w.inputs);
    json_decref(body);
}
