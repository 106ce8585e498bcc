/* Any bytes as the body of a completion and of a chat: refused with a reason, or what the engine is
 * asked for is in range and the conversation is JSON with messages. */
#include "server/ask.h"

#include <pith/json.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good) abort();
}

static void check_refusal(const struct refusal *r)
{
    json_t *j = refusal_json(r);
    must(r->status >= 400 && r->status < 600 && r->message[0]);
    must(json_is_string(json_object_get(json_object_get(j, "error"), "message")));
    json_decref(j);
}

static void check_request(const struct ask *ask, size_t i)
{
    const struct pith_request q = ask_request(ask, i);
    must(q.n >= 1 && q.n <= 8 && (!q.best_of || (q.best_of >= q.n && q.best_of <= 8)));
    must(q.temperature >= 0 && q.temperature <= 100 && q.top_p >= 0 && q.top_p <= 1);
    must(q.logprobs >= -1 && q.logprobs <= 20 && q.lookup <= 32);
    must(!(ask->stream && q.best_of > q.n) && (ask->stream || !ask->usage));
    must((q.ids != NULL && q.id_count > 0) + (q.text != NULL) + (q.conversation != NULL) == 1);
    for (size_t k = 0; k < q.id_count; k++) must(q.ids[k] >= 0);
    for (size_t k = 0; k < q.bias_count; k++) must(q.bias[k] >= 0 && q.bias_value[k] <= 100);
    for (size_t k = 0; k < q.stop.count; k++) must(q.stop.item[k][0] != '\0');
    must(q.constraint < PITH_SCHEMA || q.constraint_text);
    if (!q.conversation) return;
    json_t *j = NULL;
    must(pith_tree_read(q.conversation, strlen(q.conversation), "it", &j, NULL) == PITH_OK);
    must(json_array_size(json_object_get(j, "messages")) > 0);
    must(ask->tools == (json_array_size(json_object_get(j, "tools")) > 0));
    json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ask_limits limits = {.name = "m", .model = "folder/m", .prompts = 4, .choices = 8};
    for (int kind = ASK_COMPLETION; kind <= ASK_CHAT; kind++) {
        struct refusal r = {0};
        struct ask ask;
        if (ask_read(&ask, (enum ask_kind)kind, (const char *)data, size, &limits, &r)) {
            must(ask.prompts >= 1 && ask.prompts <= 4);
            for (size_t i = 0; i < ask.prompts; i++) check_request(&ask, i);
            ask_free(&ask);
        } else {
            check_refusal(&r);
        }
    }
    return 0;
}
