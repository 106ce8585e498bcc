#include "traffic/chunk.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* --- texts ------------------------------------------------------------------------------------ */

/* Where the text of a delta may stand. An empty one counts as a token only in the first. */
static const char *const texts[] = {"content", "reasoning_content", "reasoning", "refusal"};

static bool is_filled(const json_t *text)
{
    return json_is_string(text) && json_string_length(text) > 0;
}

/* A call's name and arguments come in pieces, too. */
static bool has_call(const json_t *delta)
{
    const json_t *calls = json_object_get(delta, "tool_calls"), *call;
    size_t i;
    json_array_foreach (calls, i, call) {
        const json_t *f = json_object_get(call, "function");
        if (is_filled(json_object_get(f, "name")) || is_filled(json_object_get(f, "arguments")))
            return true;
    }
    return false;
}

/* An empty content with a role opens a chat and is no token. */
static void read_delta(const json_t *delta, struct pith_chunk *out)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        out->text |= is_filled(json_object_get(delta, texts[i]));
    out->text |= has_call(delta);
    out->token |= out->text;
    if (json_is_string(json_object_get(delta, texts[0])) && !json_object_get(delta, "role"))
        out->token = true;
}

/* An empty text with the finish_reason is only the end. */
static void read_choice(const json_t *choice, struct pith_chunk *out)
{
    const json_t *text = json_object_get(choice, "text");
    const bool finished = json_is_string(json_object_get(choice, "finish_reason"));
    struct pith_chunk one = {0};
    read_delta(json_object_get(choice, "delta"), &one);
    one.text |= is_filled(text);
    one.token |= json_is_string(text) || one.text;
    if (finished && !one.text) one.token = false;
    out->text |= one.text;
    out->token |= one.token;
    out->finished |= finished;
}

/* --- the rest --------------------------------------------------------------------------------- */

static int64_t count_of(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_integer(v) && json_integer_value(v) >= 0 ? json_integer_value(v) : -1;
}

static void read_usage(const json_t *j, struct pith_used *u)
{
    const json_t *usage = json_object_get(j, "usage");
    const json_t *details = json_object_get(usage, "prompt_tokens_details");
    *u = (struct pith_used){.prompt = count_of(usage, "prompt_tokens"),
                            .answer = count_of(usage, "completion_tokens"),
                            .cached = count_of(details, "cached_tokens")};
}

/* {"error": {"message"}}, {"error": "text"}, or {"object": "error", "message"}. */
static void read_error(const json_t *j, struct pith_chunk *out)
{
    const json_t *e = json_object_get(j, "error"), *text = json_object_get(e, "message");
    const char *object = json_string_value(json_object_get(j, "object"));
    if (json_is_string(e)) text = e;
    if (object && strcmp(object, "error") == 0) text = json_object_get(j, "message");
    else if (!e || json_is_null(e)) return;
    (void)snprintf(out->error, sizeof out->error, "%s",
                   is_filled(text) ? json_string_value(text) : "an error without a message");
}

static enum pith_status parse(const char *data, size_t size, json_t **out, struct pith_error *err)
{
    json_t *j;
    PITH_TRY(pith_json_parse(data, size, "an answer", &j, err));
    if (json_is_object(j)) {
        *out = j;
        return PITH_OK;
    }
    json_decref(j);
    return pith_fail(err, PITH_FORMAT, "an answer is JSON, but no object");
}

static const struct pith_chunk nothing = {.used = {-1, -1, -1}};

enum pith_status pith_chunk_read(const char *data, size_t size, struct pith_chunk *out,
                                 struct pith_error *err)
{
    json_t *j;
    const json_t *choice;
    size_t i;
    *out = nothing;
    while (size > 0 && (data[size - 1] == ' ' || data[size - 1] == '\n')) size--;
    out->done = size == 6 && memcmp(data, "[DONE]", 6) == 0;
    if (out->done) return PITH_OK;
    PITH_TRY(parse(data, size, &j, err));
    json_array_foreach (json_object_get(j, "choices"), i, choice) read_choice(choice, out);
    read_usage(j, &out->used);
    read_error(j, out);
    json_decref(j);
    return PITH_OK;
}

enum pith_status pith_answer_read(const char *data, size_t size, struct pith_chunk *out,
                                  struct pith_error *err)
{
    json_t *j;
    *out = nothing;
    PITH_TRY(parse(data, size, &j, err));
    read_usage(j, &out->used);
    read_error(j, out);
    json_decref(j);
    return PITH_OK;
}
