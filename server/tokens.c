/* /tokenize, /detokenize and /apply-template, in the forms of vLLM and of llama-server. */
#include "server/routes.h"

#include <stdlib.h>
#include <string.h>

static struct pith_service *service_of(const struct exchange *e)
{
    return atomic_load(&e->server->service);
}

/* Sends the answer, or the refusal where it is NULL. */
static void answer(struct exchange *e, json_t *value, struct refusal *r)
{
    if (!value && r->status) exchange_refuse(e, r);
    else exchange_json(e, 200, value);
}

/* A list of ids as JSON. */
static json_t *ids_of(struct exchange *e, const char *text, size_t size, bool special,
                      struct refusal *r)
{
    struct pith_error err = {0};
    char *ids = NULL;
    const struct pith_input_text input = {.text = text, .size = size, .special = special};
    const enum pith_status s = pith_service_encode(service_of(e), &input, &ids, &err);
    json_t *list = s == PITH_OK ? json_loads(ids, 0, NULL) : NULL;
    pith_text_free(ids);
    if (s != PITH_OK) (void)refuse_failure(r, s, &err);
    else if (!json_is_array(list)) (void)refuse_failure(r, PITH_NOMEM, NULL);
    return list;
}

static json_t *text_of_ids(struct exchange *e, const int32_t *ids, size_t count, bool skip,
                           struct refusal *r)
{
    struct pith_error err = {0};
    char *text = NULL;
    size_t size = 0;
    const struct pith_input_text input = {.ids = ids, .count = count, .special = !skip};
    const enum pith_status s = pith_service_decode(service_of(e), &input, &text, &size, &err);
    json_t *j = s == PITH_OK ? json_any_text(text, size) : NULL;
    if (s != PITH_OK) (void)refuse_failure(r, s, &err);
    pith_text_free(text);
    return j;
}

/* What each id adds to a text: llama-server's pieces, a text or bytes; vLLM's token_strs. */
static json_t *pieces_of(struct exchange *e, const json_t *list, bool with_ids, struct refusal *r)
{
    json_t *pieces = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const int32_t id = (int32_t)json_integer_value(json_array_get(list, i));
        struct pith_error err = {0};
        char *bytes = NULL;
        size_t size = 0;
        const enum pith_status s = pith_service_token(service_of(e), id, &bytes, &size, &err);
        json_t *text = s != PITH_OK ? NULL
                       : with_ids   ? json_stringn(bytes, size)
                                    : json_token(bytes, size);
        if (s == PITH_OK && !text) text = json_bytes(bytes, size);
        if (s != PITH_OK) (void)refuse_failure(r, s, &err);
        pith_text_free(bytes);
        if (with_ids) text = json_pack("{s:i, s:o}", "id", (int)id, "piece", text);
        json_array_append_new(pieces, text);
    }
    return pieces;
}

/* The prompt of a conversation in the body. */
static bool render(struct exchange *e, const json_t *body, char **prompt, size_t *size,
                   struct refusal *r)
{
    struct pith_error err = {0};
    bool tools;
    char *conversation = conversation_of(body, &tools, r);
    if (!conversation) return false;
    const enum pith_status s = pith_service_render(service_of(e), conversation, prompt, size, &err);
    free(conversation);
    return s == PITH_OK || refuse_failure(r, s, &err);
}

/* {"tokens"} of the text, with vLLM's count and context. */
static json_t *encode(struct exchange *e, const json_t *body, struct refusal *r)
{
    const json_t *content = body_get(body, "content"), *prompt = body_get(body, "prompt");
    const bool chat = body_get(body, "messages") != NULL;
    const json_t *given = prompt ? prompt : content;
    struct pith_service_state state = {.size = sizeof state};
    bool special, own, pieces, strings;
    char *text = NULL;
    size_t size = 0;
    if (!body_flag(body, "add_special_tokens", prompt != NULL, &special, r) ||
        !body_flag(body, "add_special", special, &own, r) ||
        !body_flag(body, "with_pieces", false, &pieces, r) ||
        !body_flag(body, "return_token_strs", false, &strings, r))
        return NULL;
    if (chat && !render(e, body, &text, &size, r)) return NULL;
    if (!chat && !json_is_string(given)) {
        (void)refuse(r, 400, "prompt", "give 'prompt', 'content' or 'messages'");
        return NULL;
    }
    json_t *list = chat ? ids_of(e, text, size, false, r)
                        : ids_of(e, json_string_value(given), json_string_length(given), own, r);
    pith_text_free(text);
    if (!list) return NULL;
    pith_service_state(service_of(e), &state);
    json_t *j = json_pack("{s:i, s:I, s:O}", "count", (int)json_array_size(list), "max_model_len",
                          (json_int_t)state.context, "tokens", list);
    if (pieces) json_object_set_new(j, "tokens", pieces_of(e, list, true, r));
    if (strings) json_object_set_new(j, "token_strs", pieces_of(e, list, false, r));
    json_decref(list);
    return j;
}

void tokens_encode(struct exchange *e)
{
    struct refusal r = {0};
    json_t *body = exchange_body(e, FIELD_ENCODE, &r);
    json_t *j = body ? encode(e, body, &r) : NULL;
    json_decref(body);
    answer(e, j, &r);
}

void tokens_decode(struct exchange *e)
{
    struct refusal r = {0};
    json_t *body = exchange_body(e, FIELD_DECODE, &r), *text = NULL;
    int32_t *ids = NULL;
    size_t count = 0;
    bool skip;
    if (body && body_flag(body, "skip_special_tokens", false, &skip, &r) &&
        body_ids(body_get(body, "tokens"), "tokens", &ids, &count, &r))
        text = count ? text_of_ids(e, ids, count, skip, &r) : json_string("");
    free(ids);
    json_decref(body);
    answer(e, text ? json_pack("{s:O, s:o}", "prompt", text, "content", text) : NULL, &r);
}

void tokens_render(struct exchange *e)
{
    struct refusal r = {0};
    json_t *body = exchange_body(e, FIELD_RENDER, &r), *j = NULL;
    char *prompt = NULL;
    size_t size = 0;
    if (body && render(e, body, &prompt, &size, &r))
        j = json_pack("{s:o}", "prompt", json_any_text(prompt, size));
    pith_text_free(prompt);
    json_decref(body);
    answer(e, j, &r);
}
