/* The table of fields: each published one is known, what would change an answer is refused by its
 * name, what asks for nothing is not, and names that are nearly right are told so. */
#include "server/fields.h"
#include "test.h"

#include <string.h>

static bool passes(const char *text, enum field_route route, struct refusal *r, json_t **ignored)
{
    json_t *body = json_loads(text, 0, NULL);
    if (!body) fail_msg("no JSON: %s", text);
    *r = (struct refusal){0};
    const bool good = fields_check(body, route, ignored, r);
    json_decref(body);
    return good;
}

static void taken(const char *text, enum field_route route)
{
    struct refusal r;
    json_t *ignored;
    if (!passes(text, route, &r, &ignored)) fail_msg("%s: %s", text, r.message);
    if (ignored) fail_msg("%s: not known", text);
}

static void refused(const char *text, enum field_route route, const char *param)
{
    struct refusal r;
    json_t *ignored;
    if (passes(text, route, &r, &ignored)) fail_msg("taken: %s", text);
    assert_null(ignored);
    assert_int_equal(r.status, 400);
    assert_string_equal(r.param, param);
    assert_non_null(strstr(r.message, param));
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *param;
        unsigned routes;
    } cases[] = {
        {"{\"grammar\": \"root ::= x\"}", "grammar", FIELD_CHAT | FIELD_TEXT},
        {"{\"functions\": [{\"name\": \"f\"}]}", "functions", FIELD_CHAT | FIELD_TEXT},
        {"{\"function_call\": \"auto\"}", "function_call", FIELD_CHAT},
        {"{\"bad_words\": [\"a\"]}", "bad_words", FIELD_CHAT | FIELD_TEXT},
        {"{\"allowed_token_ids\": [5]}", "allowed_token_ids", FIELD_CHAT | FIELD_TEXT},
        {"{\"n_predict\": 1}", "n_predict", FIELD_CHAT | FIELD_TEXT},
        {"{\"mirostat\": 2}", "mirostat", FIELD_CHAT},
        {"{\"mirostat_tau\": 3}", "mirostat_tau", FIELD_CHAT},
        {"{\"dry_multiplier\": 0.8}", "dry_multiplier", FIELD_TEXT},
        {"{\"xtc_probability\": 0.5}", "xtc_probability", FIELD_CHAT},
        {"{\"tfs_z\": 0.9}", "tfs_z", FIELD_CHAT},
        {"{\"top_a\": 0.2}", "top_a", FIELD_CHAT},
        {"{\"logits_processors\": [\"a\"]}", "logits_processors", FIELD_CHAT},
        {"{\"truncate_prompt_tokens\": 1}", "truncate_prompt_tokens", FIELD_CHAT | FIELD_EMBED},
        {"{\"prompt_logprobs\": 0}", "prompt_logprobs", FIELD_TEXT},
        {"{\"return_token_ids\": true}", "return_token_ids", FIELD_CHAT},
        {"{\"chat_template\": \"x\"}", "chat_template", FIELD_CHAT | FIELD_RENDER | FIELD_ENCODE},
        {"{\"length_penalty\": 2.0}", "length_penalty", FIELD_CHAT},
        {"{\"modalities\": [\"text\", \"audio\"]}", "modalities", FIELD_CHAT},
        {"{\"web_search_options\": {}}", "web_search_options", FIELD_CHAT},
        {"{\"suffix\": \"x\"}", "suffix", FIELD_CHAT | FIELD_TEXT},
        {"{\"best_of\": 2}", "best_of", FIELD_CHAT},
        {"{\"echo\": true}", "echo", FIELD_CHAT},
        {"{\"messages\": [{}]}", "messages", FIELD_TEXT | FIELD_EMBED},
        {"{\"prompt\": \"a\"}", "prompt", FIELD_CHAT},
        {"{\"include_reasoning\": false}", "include_reasoning", FIELD_CHAT},
        {"{\"normalize\": false}", "normalize", FIELD_EMBED},
        {"{\"extra_body\": {\"top_k\": 1}}", "extra_body", FIELD_CHAT | FIELD_DECODE},
        {"{\"regex\": \"z\"}", "regex", FIELD_TEXT},
        {"{\"num_beams\": 4}", "num_beams", FIELD_TEXT},
        {"{\"stop_sequence\": [\"a\"]}", "stop_sequence", FIELD_TEXT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (unsigned route = 1; route <= FIELD_RENDER; route *= 2)
            if (cases[i].routes & route)
                refused(cases[i].text, (enum field_route)route, cases[i].param);
}

static void test_neutral(void **state)
{
    static const char *const chat[] = {
        "{\"suffix\": null, \"grammar\": null, \"functions\": null}",
        "{\"mirostat\": 0, \"mirostat_tau\": 3, \"mirostat_eta\": 9}",
        "{\"best_of\": 1, \"n_predict\": -1, \"length_penalty\": 1.0}",
        "{\"dry_multiplier\": 0.0, \"dry_base\": 9, \"dry_sequence_breakers\": [\"a\"]}",
        "{\"dry_base\": 1.75, \"xtc_threshold\": 0.1, \"repeat_last_n\": -1}",
        "{\"repeat_penalty\": 1.0, \"repeat_last_n\": 64}",
        "{\"xtc_probability\": 0, \"tfs_z\": 1, \"top_a\": 0, \"typical_p\": 1}",
        "{\"modalities\": [\"text\"], \"verbosity\": \"medium\"}",
        "{\"use_beam_search\": false, \"echo\": false, \"bad_words\": []}",
        "{\"user\": \"a\", \"metadata\": {\"a\": \"b\"}, \"store\": true}",
        "{\"prediction\": {\"type\": \"content\"}, \"prompt_cache_key\": \"a\"}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof chat / sizeof chat[0]; i++) taken(chat[i], FIELD_CHAT);
    taken("{\"suffix\": \"\", \"best_of\": 4, \"echo\": true}", FIELD_TEXT);
    taken("{\"messages\": [], \"temperature\": 1, \"tools\": [{}]}", FIELD_RENDER);
    taken("{\"input\": \"a\", \"normalize\": true, \"dimensions\": 4}", FIELD_EMBED);
    refused("{\"repeat_penalty\": 1.1, \"repeat_last_n\": 64}", FIELD_CHAT, "repeat_last_n");
    refused("{\"mirostat\": 1, \"mirostat_tau\": 5}", FIELD_CHAT, "mirostat");
}

static void test_meant(void **state)
{
    static const struct {
        const char *text, *meant;
    } cases[] = {
        {"{\"temprature\": 1}", "'temperature'"},
        {"{\"maxTokens\": 1}", "'max_tokens'"},
        {"{\"max-tokens\": 1}", "'max_tokens'"},
        {"{\"topP\": 1}", "'top_p'"},
        {"{\"top_q\": 1}", "'top_p'"},
        {"{\"stops\": []}", "'stop'"},
        {"{\"stop_token_id\": []}", "'stop_token_ids'"},
        {"{\"respones_format\": {}}", "'response_format'"},
        {"{\"Temperature\": null}", "'temperature'"},
        {"{\"gramar\": \"\"}", "'grammar'"},
        {"{\"tool\": []}", "'tools'"},
        {"{\"frequency_penality\": 0}", "'frequency_penalty'"},
    };
    struct refusal r;
    json_t *ignored;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (passes(cases[i].text, FIELD_CHAT, &r, &ignored)) fail_msg("taken: %s", cases[i].text);
        assert_int_equal(r.status, 400);
        if (!strstr(r.message, cases[i].meant)) fail_msg("%s: %s", cases[i].text, r.message);
    }
}

static void test_unknown(void **state)
{
    struct refusal r;
    json_t *ignored;
    (void)state;
    static const char text[] =
        "{\"x_trace\": 1, \"caching\": false, \"\": 0, \"k\": 1, \"temperature\": 0}";
    assert_true(passes(text, FIELD_CHAT, &r, &ignored));
    assert_int_equal(json_array_size(ignored), 4);
    assert_string_equal(json_string_value(json_array_get(ignored, 0)), "x_trace");
    json_decref(ignored);
    /* Bytes that are cut within a character are no text: shown as '?'. */
    json_t *body = json_object();
    char name[64];
    memset(name, 'q', 39);
    memcpy(name + 39, "\xc3\xa4", 3);
    json_object_set_new(body, name, json_null());
    assert_true(fields_check(body, FIELD_CHAT, &ignored, &r));
    assert_int_equal(json_string_length(json_array_get(ignored, 0)), 40);
    json_decref(ignored);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "field%d", i);
        json_object_set_new(body, name, json_null());
    }
    assert_false(fields_check(body, FIELD_CHAT, &ignored, &r));
    assert_null(ignored);
    json_decref(body);
}

/* Names as the schemas publish them. */
static void test_published(void **state)
{
    static const char *const names[] = {
        /* OpenAI, chat, completions and embeddings */
        "messages", "model", "audio", "frequency_penalty", "function_call", "functions",
        "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "metadata", "modalities",
        "moderation", "n", "parallel_tool_calls", "prediction", "presence_penalty",
        "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort",
        "response_format", "safety_identifier", "seed", "service_tier", "stop", "store",
        "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user",
        "verbosity", "web_search_options", "stream", "prompt", "best_of", "echo", "suffix", "input",
        "dimensions", "encoding_format",
        /* vLLM */
        "thinking_token_budget", "include_reasoning", "use_beam_search", "top_k", "min_p",
        "repetition_penalty", "watermarking", "length_penalty", "stop_token_ids",
        "include_stop_str_in_output", "ignore_eos", "min_tokens", "skip_special_tokens",
        "spaces_between_special_tokens", "truncate_prompt_tokens", "truncation_side",
        "prompt_logprobs", "logprob_token_ids", "allowed_token_ids", "bad_words",
        "add_generation_prompt", "continue_final_message", "add_special_tokens", "documents",
        "chat_template", "chat_template_kwargs", "media_io_kwargs", "mm_processor_kwargs",
        "structured_outputs", "priority", "request_id", "session_id", "return_tokens_as_token_ids",
        "return_token_ids", "routed_experts_prompt_start", "return_token_offsets",
        "return_prompt_text", "return_mm_kwargs", "cache_salt", "kv_transfer_params",
        "ec_transfer_params", "vllm_xargs", "repetition_detection", "stream_interval",
        "prompt_embeds", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
        "guided_decoding_backend", "guided_whitespace_pattern", "logits_processors", "normalize",
        "embed_dtype", "endianness", "use_activation", "return_token_strs",
        /* llama-server */
        "dynatemp_range", "dynatemp_exponent", "n_predict", "n_indent", "n_keep", "n_discard",
        "n_cmpl", "n_cache_reuse", "typical_p", "repeat_penalty", "repeat_last_n", "dry_multiplier",
        "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers",
        "xtc_probability", "xtc_threshold", "top_n_sigma", "mirostat", "mirostat_tau",
        "mirostat_eta", "adaptive_target", "adaptive_decay", "grammar", "json_schema", "n_probs",
        "min_keep", "t_max_predict_ms", "id_slot", "cache_prompt", "return_tokens", "samplers",
        "timings_per_token", "return_progress", "sse_ping_interval", "post_sampling_probs",
        "response_fields", "lora", "grammar_lazy", "grammar_triggers", "preserved_tokens",
        "reasoning_format", "parse_tool_calls", "backend_sampling", "embd_normalize", "content",
        "add_special", "parse_special", "with_pieces", "tokens", "input_prefix", "input_suffix",
        "input_extra"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[80];
        snprintf(text, sizeof text, "{\"%s\": null}", names[i]);
        taken(text, FIELD_CHAT);
        taken(text, FIELD_TEXT);
    }
}

/* Rows: neutral values are JSON, gates are fields. */
static void test_rows(void **state)
{
    static const struct {
        const char *name, *neutral, *gate;
    } rows[] = {
#define FIELD(name, taken, refused, neutral, gate, hint) {name, neutral, gate},
#include "server/fields.def"
#undef FIELD
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        char text[200];
        size_t gates = 0;
        snprintf(text, sizeof text, "[%s]", rows[i].neutral);
        json_t *list = json_loads(text, 0, NULL);
        if (!list) fail_msg("%s: %s", rows[i].name, text);
        json_decref(list);
        for (size_t j = 0; j < ROWS; j++) {
            gates += strcmp(rows[i].gate, rows[j].name) == 0;
            assert_true(i == j || strcmp(rows[i].name, rows[j].name) != 0);
        }
        assert_true(!rows[i].gate[0] || gates == 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_neutral),
        cmocka_unit_test(test_meant),     cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_published), cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
