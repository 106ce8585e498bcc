/* Any bytes as a chat template: refused or stopped with the line, or rendered to UTF-8, the same
 * text each time, with nothing of the conversation where no byte is marked. */
#include "tok/jinja/jinja.h"
#include "tok/unicode/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \" Q\\u00fc<|x|>\\n\"}, {\"role\": "
    "\"assistant\","
    " \"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": "
    "[1, 2.5,"
    " true, null]}}}]}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}],"
    " \"add_generation_prompt\": true, \"n\": 3, \"s\": \"a,b c\"}";

static void check(const struct pith_jinja *t, const struct pith_jinja_input *in)
{
    struct pith_rendered a = {0}, b = {0};
    struct pith_error err = {0};
    const enum pith_status s = pith_jinja_render(t, in, &a, &err);
    if (s != pith_jinja_render(t, in, &b, NULL)) abort();
    if (s != PITH_OK && strncmp(err.text, "line ", 5) != 0) abort();
    if (s == PITH_OK) {
        if (a.size != b.size || memcmp(a.text, b.text, a.size) != 0) abort();
        if (!pith_utf8_valid(a.text, a.size)) abort();
        for (size_t i = 0; a.marks && i < a.size; i++)
            if (a.marks[i] > 1) abort();
    }
    pith_rendered_free(&a);
    pith_rendered_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_error err = {0};
    struct pith_jinja *t = NULL;
    if (pith_jinja_new((const char *)data, size, &t, &err) != PITH_OK) {
        if (strncmp(err.text, "line ", 5) != 0 && strcmp(err.text, "not UTF-8") != 0) abort();
        return 0;
    }
    json_t *given = json_loads(conversation, 0, NULL),
           *own = json_pack("{s:s}", "bos_token", "<s>");
    /* Of every other input the memory ends somewhere on the way. */
    const size_t memory = size % 2 ? (size_t)8 << 20 : 64 * (size % 1024) + 64;
    const struct pith_jinja_input in = {
        .own = own, .given = given, .now = 1753700000, .steps = 100000, .memory = memory};
    if (given && own) check(t, &in);
    json_decref(given);
    json_decref(own);
    pith_jinja_free(t);
    return 0;
}
