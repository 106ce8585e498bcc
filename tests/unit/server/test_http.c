/* The HTTP layer over a service without a model (fake.h): shapes, errors, keys, limits, streams,
 * clients that leave, stall or send rubbish, the end. */
#include "server/http/exchange.h"
#include "server/server.h"
#include "test.h"
#include "unit/server/fake.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct server *server;
static struct pith_service *service;
static struct server_settings settings;
static struct pith_reply_format *format;

static void open_server(void)
{
    struct pith_error err = {0};
    fake_wish = (struct fake_wish){0};
    assert_ok(server_open(&settings, &server, &err), err);
}

static void begin(void)
{
    struct pith_error err = {0};
    open_server();
    assert_ok(pith_service_open(NULL, NULL, &service, &err), err);
    server_begin(server, service, format);
}

static int setup(void **state)
{
    (void)state;
    server_defaults(&settings);
    settings.port = 0;
    settings.name = "fake";
    settings.model = "models/probe";
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (server) server_stop(server);
    pith_service_close(&service);
    server_free(&server);
    pith_reply_format_close(&format);
    return 0;
}

/* --- a client --------------------------------------------------------------------------------- */

static int dial(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    a.sin_port = htons((uint16_t)atoi(strrchr(server_address(server), ':') + 1));
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(s >= 0 && connect(s, (struct sockaddr *)&a, sizeof a) == 0);
    return s;
}

static void send_all(int s, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t n = send(s, bytes, size, MSG_NOSIGNAL);
        if (n <= 0) return; /* refused already */
        bytes += n;
        size -= (size_t)n;
    }
}

/* Everything until the other side closes, within ten seconds. */
static char *read_all(int s)
{
    size_t size = 0, room = 1 << 16;
    char *text = malloc(room);
    ssize_t n = 1;
    while (n > 0) {
        struct pollfd p = {.fd = s, .events = POLLIN};
        if (poll(&p, 1, 10000) <= 0) fail_msg("no answer within ten seconds");
        if (size + 1 == room) text = realloc(text, room *= 2);
        n = recv(s, text + size, room - size - 1, 0);
        if (n > 0) size += (size_t)n;
    }
    text[size] = '\0';
    close(s);
    return text;
}

static void request(int s, const char *method, const char *path, const char *headers,
                    const char *body)
{
    char head[1024];
    const int n = snprintf(head, sizeof head,
                           "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                           "Content-Length: %zu\r\n%s\r\n",
                           method, path, strlen(body), headers);
    send_all(s, head, (size_t)n);
    send_all(s, body, strlen(body));
}

static char *ask(const char *method, const char *path, const char *headers, const char *body)
{
    const int s = dial();
    request(s, method, path, headers, body);
    return read_all(s);
}

static int status_of(const char *answer)
{
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
}

/* The JSON of an answer, which must have that status. */
static json_t *json_of(char *answer, int status)
{
    const char *body = strstr(answer, "\r\n\r\n");
    if (status_of(answer) != status) fail_msg("wanted %d: %s", status, answer);
    assert_non_null(body);
    json_t *j = json_loads(body + 4, 0, NULL);
    if (!j) fail_msg("no JSON: %s", body);
    free(answer);
    return j;
}

static json_t *post(const char *path, const char *body, int status)
{
    return json_of(ask("POST", path, "", body), status);
}

static const char *text_at(const json_t *j, const char *name)
{
    const char *t = json_string_value(json_object_get(j, name));
    return t ? t : "";
}

static bool awaited(bool (*what)(void))
{
    const struct timespec t = {.tv_nsec = 10000000};
    for (int i = 0; i < 500; i++) {
        if (what()) return true;
        nanosleep(&t, NULL);
    }
    return false;
}

static bool nothing_runs(void)
{
    return fake_running() == 0;
}

/* --- shapes ----------------------------------------------------------------------------------- */

static void test_loading(void **state)
{
    (void)state;
    open_server();
    json_decref(json_of(ask("GET", "/health", "", ""), 503));
    char *answer = ask("POST", "/v1/completions", "", "{\"prompt\": \"a\"}");
    assert_non_null(strstr(answer, "Retry-After: "));
    json_t *j = json_of(answer, 503);
    assert_string_equal(text_at(json_object_get(j, "error"), "code"), "loading");
    json_decref(j);
    server_begin(server, NULL, NULL);
    json_decref(json_of(ask("GET", "/health", "", ""), 200));
}

static void test_completion(void **state)
{
    (void)state;
    begin();
    json_t *j = post("/v1/completions",
                     "{\"prompt\": \"xy\", \"max_tokens\": 2, \"echo\": true, \"logprobs\": 2}",
                     200);
    const json_t *c = json_array_get(json_object_get(j, "choices"), 0);
    const json_t *l = json_object_get(c, "logprobs");
    assert_string_equal(text_at(j, "object"), "text_completion");
    assert_string_equal(text_at(c, "text"), "xyab");
    assert_string_equal(text_at(c, "finish_reason"), "length");
    assert_int_equal(json_array_size(json_object_get(l, "tokens")), 4);
    assert_true(json_is_null(json_array_get(json_object_get(l, "token_logprobs"), 0)));
    assert_int_equal(json_object_size(json_array_get(json_object_get(l, "top_logprobs"), 2)), 2);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(l, "text_offset"), 3)), 3);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(j, "usage"), "prompt_tokens")), 2);
    json_decref(j);
    j = post("/v1/completions",
             "{\"prompt\": [\"p\", \"qq\", \"rrr\"], \"n\": 2, \"max_tokens\": 0, "
             "\"echo\": true, \"logprobs\": 1}",
             400); /* n without new tokens */
    json_decref(j);
    j = post("/v1/completions",
             "{\"prompt\": [\"p\", \"qq\", \"rrr\"], \"max_tokens\": 0, \"echo\": true}", 200);
    const json_t *list = json_object_get(j, "choices");
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(text_at(json_array_get(list, 1), "text"), "qq");
    json_decref(j);
    j = post("/v1/completions",
             "{\"prompt\": [[65, 66], [67]], \"n\": 2, \"max_tokens\": 9, "
             "\"echo\": true, \"stop\": [\"d\"]}",
             200);
    list = json_object_get(j, "choices");
    assert_int_equal(json_array_size(list), 4);
    assert_string_equal(text_at(json_array_get(list, 1), "text"), "ABabc");
    assert_string_equal(text_at(json_array_get(list, 2), "text"), "Cabc");
    assert_string_equal(text_at(json_array_get(list, 3), "finish_reason"), "stop");
    json_decref(j);
}

static void test_chat(void **state)
{
    (void)state;
    begin();
    json_t *j = post("/v1/chat/completions",
                     "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
                     "\"text\": \"a\"}, {\"type\": \"text\", \"text\": \"b\"}]}, {\"role\": "
                     "\"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": "
                     "\"f\", \"arguments\": \"{\\\"x\\\": 1}\"}}]}], \"tools\": [{\"type\": "
                     "\"function\"}], \"chat_template_kwargs\": {\"enable_thinking\": false}, "
                     "\"max_completion_tokens\": 3, \"logprobs\": true, \"top_logprobs\": 3}",
                     200);
    const json_t *c = json_array_get(json_object_get(j, "choices"), 0);
    const json_t *one =
        json_array_get(json_object_get(json_object_get(c, "logprobs"), "content"), 1);
    assert_string_equal(text_at(j, "object"), "chat.completion");
    assert_string_equal(text_at(json_object_get(c, "message"), "content"), "abc");
    assert_string_equal(text_at(one, "token"), "b");
    assert_int_equal(json_array_size(json_object_get(one, "top_logprobs")), 3);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(one, "bytes"), 0)), 'b');
    json_decref(j);
    j = json_loads(fake_conversation(), 0, NULL);
    assert_true(json_is_false(json_object_get(j, "enable_thinking")));
    assert_int_equal(json_array_size(json_object_get(j, "tools")), 1);
    const json_t *m = json_object_get(j, "messages");
    assert_string_equal(text_at(json_array_get(m, 0), "content"), "a\nb");
    const json_t *f = json_object_get(
        json_array_get(json_object_get(json_array_get(m, 1), "tool_calls"), 0), "function");
    assert_true(json_is_object(json_object_get(f, "arguments")));
    json_decref(j);
}

/* The n-th event of a stream as JSON, NULL when it is not there or is no JSON. */
static json_t *event_at(const char *answer, int n)
{
    const char *at = answer;
    for (int i = 0; at && i <= n; i++) at = strstr(i ? at + 6 : at, "data: ");
    return at ? json_loads(at + 6, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
}

static void test_stream(void **state)
{
    (void)state;
    begin();
    char *answer = ask("POST", "/v1/chat/completions", "",
                       "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"max_tokens\": "
                       "2, \"stream\": true, \"stream_options\": {\"include_usage\": true}}");
    static const char *const wanted[] = {
        "\"role\":\"assistant\"",       "{\"content\":\"a\"}",        "{\"content\":\"b\"}",
        "\"finish_reason\":\"length\"", "\"choices\":[],\"usage\":{", "data: [DONE]"};
    const char *at = answer;
    assert_non_null(strstr(answer, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(answer, "Cache-Control: no-cache\r\n"));
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        at = strstr(at, wanted[i]);
        if (!at) fail_msg("%s is missing, or too early: %s", wanted[i], answer);
    }
    json_t *first = event_at(answer, 0), *last = event_at(answer, 4);
    assert_string_equal(text_at(first, "object"), "chat.completion.chunk");
    assert_string_equal(text_at(first, "id"), text_at(last, "id"));
    json_decref(first);
    json_decref(last);
    free(answer);
    answer = ask("POST", "/v1/completions", "",
                 "{\"prompt\": [\"a\", \"b\"], \"max_tokens\": 3, \"stream\": true}");
    int done = 0, chunks = 0;
    for (at = answer; (at = strstr(at, "data: ")) != NULL; at++) chunks++;
    for (at = answer; (at = strstr(at, "[DONE]")) != NULL; at++) done++;
    assert_int_equal(chunks, 2 * (3 + 1) + 1);
    assert_int_equal(done, 1);
    free(answer);
}

/* A token without text has a chunk without text: clients see when it came. */
static void test_stream_of_silence(void **state)
{
    (void)state;
    begin();
    fake_wish.mute = 1;
    char *answer = ask("POST", "/v1/completions", "",
                       "{\"prompt\": \"a\", \"max_tokens\": 3, \"stream\": true}");
    int chunks = 0;
    for (const char *at = answer; (at = strstr(at, "\"text\":\"\"")) != NULL; at++) chunks++;
    assert_int_equal(chunks, 3 + 1);
    free(answer);
    answer = ask("POST", "/v1/chat/completions", "",
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"max_tokens\": 3, "
                 "\"stream\": true}");
    chunks = 0;
    for (const char *at = answer; (at = strstr(at, "{\"content\":\"\"}")) != NULL; at++) chunks++;
    assert_int_equal(chunks, 3);
    free(answer);
}

/* A call that must be made: what is asked of the engine is its schema, and what comes is the call.
 */
static void check_forced(const char *head)
{
    static const char *const choices[] = {
        "\"required\"", "{\"type\": \"function\", \"function\": {\"name\": \"f\"}}"};
    for (size_t i = 0; i < 2; i++) {
        char body[512];
        fake_wish.say = "{\"name\":\"f\",\"arguments\":{\"a\":[1],\"b\":2,\"b\":3}}";
        snprintf(body, sizeof body, "%s, \"tool_choice\": %s}", head, choices[i]);
        json_t *j = post("/v1/chat/completions", body, 200);
        const json_t *c = json_array_get(json_object_get(j, "choices"), 0);
        const json_t *m = json_object_get(c, "message");
        const json_t *call = json_array_get(json_object_get(m, "tool_calls"), 0);
        const json_t *function = json_object_get(call, "function");
        assert_string_equal(text_at(function, "name"), "f");
        assert_string_equal(text_at(function, "arguments"), "{\"a\":[1],\"b\":2,\"b\":3}");
        assert_string_equal(text_at(c, "finish_reason"), "tool_calls");
        assert_true(json_is_null(json_object_get(m, "content")));
        json_decref(j);
    }
}

static void test_tools(void **state)
{
    (void)state;
    static const char head[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"max_tokens\": 3, \"tools\": "
        "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}]";
    static const char marks[] = "{{ tools }}{{ '<tool_call></tool_call><think></think>' }}";
    char file[] = "/tmp/pith-template-XXXXXX", body[512];
    struct pith_error err = {0};
    const int f = mkstemp(file);
    assert_true(f >= 0 && write(f, marks, strlen(marks)) == (ssize_t)strlen(marks));
    assert_ok(pith_reply_format_open("models/probe", file, &format, &err), err);
    assert_string_equal(pith_reply_format_name(format), "hermes");
    begin();
    fake_wish.say = "<think>hm</think>Well<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}"
                    "</tool_call>";
    snprintf(body, sizeof body, "%s}", head);
    json_t *j = post("/v1/chat/completions", body, 200);
    const json_t *c = json_array_get(json_object_get(j, "choices"), 0);
    const json_t *m = json_object_get(c, "message");
    const json_t *call = json_array_get(json_object_get(m, "tool_calls"), 0);
    const json_t *function = json_object_get(call, "function");
    assert_string_equal(text_at(m, "content"), "Well");
    assert_string_equal(text_at(m, "reasoning_content"), "hm");
    assert_string_equal(text_at(call, "type"), "function");
    assert_string_equal(text_at(function, "name"), "f");
    json_t *arguments = json_loads(text_at(function, "arguments"), 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(arguments, "a")), 1);
    assert_string_equal(text_at(c, "finish_reason"), "tool_calls");
    json_decref(arguments);
    json_decref(j);
    snprintf(body, sizeof body, "%s, \"stream\": true}", head);
    char *answer = ask("POST", "/v1/chat/completions", "", body);
    static const char *const wanted[] = {"{\"reasoning_content\":\"h", "{\"content\":\"W",
                                         "{\"tool_calls\":[{\"index\":0,\"id\":\"",
                                         "\"finish_reason\":\"tool_calls\"", "[DONE]"};
    const char *at = answer;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        at = strstr(at, wanted[i]);
        if (!at) fail_msg("%s is missing, or too early: %s", wanted[i], answer);
    }
    free(answer);
    check_forced(head);
    close(f);
    unlink(file);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void test_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body, *param;
    } rows[] = {
        {"/v1/completions", "", ""},
        {"/v1/completions", "{", ""},
        {"/v1/completions", "[]", ""},
        {"/v1/completions", "{}", "prompt"},
        {"/v1/completions", "{\"prompt\": []}", "prompt"},
        {"/v1/completions", "{\"prompt\": [[]]}", "prompt"},
        {"/v1/completions", "{\"prompt\": [1, \"a\"]}", "prompt"},
        {"/v1/completions", "{\"prompt\": [-1]}", "prompt"},
        {"/v1/completions", "{\"prompt\": \"a\", \"temperature\": -1}", "temperature"},
        {"/v1/completions", "{\"prompt\": \"a\", \"temperature\": \"1\"}", "temperature"},
        {"/v1/completions", "{\"prompt\": \"a\", \"top_p\": -0.5}", "top_p"},
        {"/v1/completions", "{\"prompt\": \"a\", \"n\": 0}", "n"},
        {"/v1/completions", "{\"prompt\": \"a\", \"n\": 1.5}", "n"},
        {"/v1/completions", "{\"prompt\": \"a\", \"n\": 2, \"best_of\": 1}", "best_of"},
        {"/v1/completions", "{\"prompt\": \"a\", \"best_of\": 2, \"stream\": true}", "best_of"},
        {"/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 0}", "max_tokens"},
        {"/v1/completions", "{\"prompt\": \"a\", \"logprobs\": 21}", "logprobs"},
        {"/v1/completions", "{\"prompt\": \"a\", \"suffix\": \"b\"}", "suffix"},
        {"/v1/completions", "{\"prompt\": \"a\", \"stop\": \"\"}", "stop"},
        {"/v1/completions", "{\"prompt\": \"a\", \"logit_bias\": {\"x\": 1}}", "logit_bias"},
        {"/v1/completions", "{\"prompt\": \"a\", \"logit_bias\": {\"1\": 101}}", "logit_bias"},
        {"/v1/completions", "{\"prompt\": \"a\", \"stream_options\": {}}", "stream_options"},
        {"/v1/completions", "{\"prompt\": \"a\", \"response_format\": {}}", "response_format"},
        {"/v1/completions", "{\"prompt\": \"a\", \"use_beam_search\": true}", "use_beam_search"},
        {"/v1/chat/completions", "{}", "messages"},
        {"/v1/chat/completions", "{\"messages\": []}", "messages"},
        {"/v1/chat/completions", "{\"messages\": [{\"content\": \"a\"}]}", "messages"},
        {"/v1/chat/completions",
         "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}",
         "messages"},
        {"/v1/chat/completions", "{\"messages\": [{\"role\": \"user\"}], \"top_logprobs\": 2}",
         "top_logprobs"},
        {"/v1/chat/completions",
         "{\"messages\": [{\"role\": \"user\"}], \"tool_choice\": \"required\"}", "tool_choice"},
        {"/v1/chat/completions", "{\"messages\": [{\"role\": \"user\"}], \"tool_choice\": 1}",
         "tool_choice"},
        {"/v1/chat/completions",
         "{\"messages\": [{\"role\": \"user\"}], \"tools\": [{\"function\": {\"name\": \"f\"}}], "
         "\"tool_choice\": {\"function\": {\"name\": \"g\"}}}",
         "tool_choice"},
        {"/v1/embeddings", "{\"input\": \"a\", \"dimensions\": 7}", "dimensions"},
        {"/v1/embeddings", "{\"input\": \"a\", \"encoding_format\": \"x\"}", "encoding_format"},
        {"/tokenize", "{}", "prompt"},
        {"/detokenize", "{\"tokens\": [\"a\"]}", "tokens"},
        {"/apply-template", "{\"messages\": 1}", "messages"},
    };
    begin();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *j = post(rows[i].path, rows[i].body, 400);
        const json_t *e = json_object_get(j, "error");
        if (strcmp(text_at(e, "param"), rows[i].param) != 0)
            fail_msg("%s: param %s", rows[i].body, text_at(e, "param"));
        assert_string_equal(text_at(e, "type"), "invalid_request_error");
        assert_true(text_at(e, "message")[0] != '\0');
        json_decref(j);
    }
}

static void test_statuses(void **state)
{
    (void)state;
    static const struct {
        enum pith_status refuse;
        int status;
        const char *code;
    } rows[] = {{PITH_BUSY, 429, "queue_full"},
                {PITH_CLOSED, 503, "draining"},
                {PITH_LENGTH, 400, "context_length_exceeded"},
                {PITH_LIMIT, 400, "too_large"},
                {PITH_UNSUPPORTED, 400, "unsupported"},
                {PITH_NUMERIC, 500, ""}};
    begin();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake_wish.refuse = rows[i].refuse;
        char *answer = ask("POST", "/v1/completions", "", "{\"prompt\": \"a\", \"stream\": true}");
        if (rows[i].status == 429) assert_non_null(strstr(answer, "Retry-After: "));
        json_t *j = json_of(answer, rows[i].status);
        assert_string_equal(text_at(json_object_get(j, "error"), "code"), rows[i].code);
        json_decref(j);
    }
    json_decref(json_of(ask("GET", "/nowhere", "", ""), 404));
    json_decref(json_of(ask("GET", "/v1/completions", "", ""), 405));
    fake_wish.refuse = PITH_OK;
    json_t *j = post("/v1/completions", "{\"prompt\": \"a\", \"model\": \"other\"}", 404);
    assert_string_equal(text_at(json_object_get(j, "error"), "code"), "model_not_found");
    json_decref(j);
}

static void test_failing(void **state)
{
    (void)state;
    begin();
    fake_wish.fail_after = 2;
    json_decref(post("/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 9}", 500));
    char *answer = ask("POST", "/v1/completions", "",
                       "{\"prompt\": \"a\", \"max_tokens\": 9, \"stream\": true}");
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(answer, "data: {\"error\":{\"message\":\"numbers went wrong\""));
    assert_null(strstr(answer, "[DONE]"));
    free(answer);
}

static void test_limits(void **state)
{
    (void)state;
    settings.body = 4096;
    begin();
    char *large = malloc(20001), deep[301];
    memset(large, 'x', 20000);
    large[20000] = '\0';
    json_decref(post("/v1/completions", large, 413));
    const int s = dial(); /* without a length that tells */
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: "
                               "close\r\nTransfer-Encoding: chunked\r\n\r\n4e20\r\n";
    send_all(s, head, strlen(head));
    send_all(s, large, 20000);
    send_all(s, "\r\n0\r\n\r\n", 7);
    json_decref(json_of(read_all(s), 413));
    memset(deep, '[', 300);
    deep[300] = '\0';
    json_decref(post("/v1/completions", deep, 400));
    const int t = dial(); /* headers without end */
    memset(large + 5, 'x', 19995);
    memcpy(large, "GET /", 5);
    for (int i = 0; i < 4; i++) send_all(t, large + (i ? 5 : 0), 19995);
    send_all(t, " HTTP/1.1\r\n\r\n", 13);
    char *answer = read_all(t);
    assert_true(status_of(answer) >= 400 || answer[0] == '\0');
    free(answer);
    free(large);
    json_decref(post("/v1/completions", "{\"prompt\": \"a\"}", 200));
}

/* --- who may ask ------------------------------------------------------------------------------ */

static void test_keys(void **state)
{
    (void)state;
    char file[] = "/tmp/pith-keys-XXXXXX";
    const int f = mkstemp(file);
    struct pith_error err = {0};
    assert_true(f >= 0 && write(f, "# nothing\n\n", 11) == 11);
    settings.key_file = file;
    assert_int_equal(server_open(&settings, &server, &err), PITH_FORMAT);
    assert_null(server);
    assert_true(write(f, "one\n two \n", 10) == 10);
    settings.key = "three";
    begin();
    static const struct {
        const char *header;
        int status;
    } rows[] = {{"", 401},
                {"Authorization: Bearer four\r\n", 401},
                {"Authorization: Bearer on\r\n", 401},
                {"Authorization: Bearer \r\n", 401},
                {"Authorization: Basic one\r\n", 401},
                {"Authorization: Bearer # nothing\r\n", 401},
                {"Authorization: Bearer one\r\n", 200},
                {"Authorization: bearer two\r\n", 200},
                {"Authorization: Bearer three\r\n", 200},
                {"x-api-key: four\r\n", 401},
                {"x-api-key: one\r\n", 200},
                {"API-Key: two\r\n", 200},
                {"Authorization: Basic eA==\r\nx-api-key: one\r\n", 200}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        json_decref(json_of(ask("GET", "/v1/models", rows[i].header, ""), rows[i].status));
    json_decref(json_of(ask("GET", "/health", "", ""), 200));
    close(f);
    unlink(file);
}

static void test_origins(void **state)
{
    (void)state;
    settings.cors = "https://friend.example";
    begin();
    static const struct {
        const char *header;
        int status;
    } rows[] = {{"Origin: https://foe.example\r\n", 403},
                {"Origin: null\r\n", 403},
                {"Origin: http://localhost\r\n", 200}, /* the server's own page */
                {"Origin: https://friend.example\r\n", 200}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        json_decref(json_of(ask("GET", "/v1/models", rows[i].header, ""), rows[i].status));
    char *answer = ask("OPTIONS", "/v1/completions",
                       "Origin: https://friend.example\r\nAccess-Control-Request-Headers: "
                       "authorization,x-stainless-os\r\n",
                       "");
    assert_int_equal(status_of(answer), 204);
    assert_non_null(
        strstr(answer, "Access-Control-Allow-Headers: authorization,x-stainless-os\r\n"));
    assert_non_null(strstr(answer, "Access-Control-Allow-Origin: https://friend.example\r\n"));
    free(answer);
}

/* --- clients that leave or stall -------------------------------------------------------------- */

static void leave(const char *body)
{
    const size_t before = fake_cancelled();
    const int s = dial();
    fake_wish.pause = 0.02;
    request(s, "POST", "/v1/completions", "", body);
    const struct timespec t = {.tv_nsec = 200000000};
    nanosleep(&t, NULL);
    assert_int_equal(fake_running(), 1);
    json_t *load = json_of(ask("GET", "/load", "", ""), 200);
    assert_int_equal(json_integer_value(json_object_get(load, "server_load")), 1);
    json_decref(load);
    close(s);
    assert_true(awaited(nothing_runs));
    assert_int_equal(fake_cancelled(), before + 1);
}

static void test_leaving(void **state)
{
    (void)state;
    begin();
    leave("{\"prompt\": \"a\", \"max_tokens\": 5000}");
    leave("{\"prompt\": \"a\", \"max_tokens\": 5000, \"stream\": true}");
}

static size_t descriptors(void)
{
    size_t n = 0;
    for (int i = 0; i < 1024; i++) n += fcntl(i, F_GETFD) >= 0;
    return n;
}
static size_t wanted_descriptors;
static bool all_closed(void)
{
    return descriptors() <= wanted_descriptors;
}

/* Clients that go with the last byte of their request, some just before it is begun: their
 * connections are closed, and the end does not wait for them. */
static void test_leaving_at_once(void **state)
{
    (void)state;
    static const char head[] =
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\n\r\n";
    static const char body[] = "{\"prompt\": \"a\", \"max_tokens\": 1000000}";
    const struct timespec pause = {.tv_nsec = 500000};
    begin();
    fake_wish.pause = 0.001;
    wanted_descriptors = descriptors();
    for (int i = 0; i < 300; i++) {
        const int s = dial();
        send_all(s, head, sizeof head - 1);
        nanosleep(&pause, NULL);
        send_all(s, body, sizeof body - 1);
        close(s);
    }
    assert_true(awaited(nothing_runs));
    assert_true(awaited(all_closed));
}

/* A reader that takes nothing: what it has not read stays within the limit, and it is cut. */
static void test_slow_reader(void **state)
{
    (void)state;
    settings.unread = 1 << 20;
    settings.patience = 600;
    begin();
    fake_wish.fat = 1 << 16;
    fake_wish.pause = 0.0005;
    const size_t before = fake_cancelled();
    const int s = dial();
    request(s, "POST", "/v1/completions", "",
            "{\"prompt\": \"a\", \"max_tokens\": 100000, \"stream\": true}");
    const struct timespec t = {.tv_nsec = 300000000};
    nanosleep(&t, NULL);
    assert_true(awaited(nothing_runs));
    assert_int_equal(fake_cancelled(), before + 1);
    close(s);
}

/* A stream that has waited for its next token for long is no slow reader when the token comes. */
static void test_late_token(void **state)
{
    (void)state;
    struct exchange e = {.suspended = true, .streaming = true, .progressed = 1};
    const double before = server_clock();
    exchange_wake(&e);
    assert_false(e.suspended);
    assert_true(e.progressed >= before);
    e.progressed = 1;
    exchange_wake(&e); /* it did not wait: its reader is as late as before */
    assert_true(e.progressed < 2);
}

static void test_slow_sender(void **state)
{
    (void)state;
    settings.patience = 1;
    begin();
    const int s = dial(), idle = dial();
    static const char half[] =
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{";
    send_all(s, half, strlen(half));
    free(read_all(s)); /* ends by itself */
    free(read_all(idle));
}

static void test_end(void **state)
{
    (void)state;
    begin();
    fake_wish.pause = 0.01;
    const int a = dial(), b = dial();
    request(a, "POST", "/v1/completions", "",
            "{\"prompt\": \"a\", \"max_tokens\": 30, \"stream\": true}");
    request(b, "POST", "/v1/completions", "",
            "{\"prompt\": \"a\", \"max_tokens\": 5000, \"stream\": true}");
    const struct timespec t = {.tv_nsec = 100000000};
    nanosleep(&t, NULL);
    pith_service_drain(service);
    server_drain(server, 1.0);
    char *whole = read_all(a), *cut = read_all(b);
    assert_non_null(strstr(whole, "[DONE]"));
    assert_null(strstr(cut, "[DONE]"));
    assert_non_null(strstr(cut, "data: {\"error\":"));
    free(whole);
    free(cut);
    json_decref(json_of(ask("GET", "/health", "", ""), 503));
    json_decref(post("/v1/completions", "{\"prompt\": \"a\"}", 503));
}

static void test_rest(void **state)
{
    (void)state;
    begin();
    char *page = ask("GET", "/", "", ""), *head = ask("HEAD", "/", "", "");
    assert_non_null(strstr(page, "Content-Security-Policy: default-src 'none';"));
    assert_non_null(strstr(page, "X-Content-Type-Options: nosniff"));
    assert_non_null(strstr(page, "<!DOCTYPE html>"));
    assert_non_null(strstr(page, "script-src 'sha256-"));
    assert_non_null(strstr(page, "style-src 'sha256-"));
    assert_non_null(strstr(page, "<textarea id=\"input\""));
    assert_null(strstr(page, "innerHTML"));
    assert_non_null(strstr(page, "</script>\n</body>\n</html>\n"));
    assert_null(strstr(head, "<!DOCTYPE html>"));
    free(page);
    free(head);
    json_decref(post("/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 3}", 200));
    char *metrics = ask("GET", "/metrics", "", "");
    static const char *const wanted[] = {
        "vllm:request_success_total{finished_reason=\"length\",model_name=\"fake\"",
        "vllm:time_to_first_token_seconds_bucket{le=\"0.01\",model_name=\"fake\",engine=\"0\"} 1\n",
        "vllm:inter_token_latency_seconds_count{model_name=\"fake\",engine=\"0\"} 2\n"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!strstr(metrics, wanted[i])) fail_msg("no %s in %s", wanted[i], metrics);
    free(metrics);
    json_t *j = post("/tokenize", "{\"prompt\": \"ab\"}", 200);
    assert_int_equal(json_integer_value(json_object_get(j, "count")), 3);
    json_decref(j);
    j = post("/tokenize", "{\"content\": \"ab\", \"with_pieces\": true}", 200);
    assert_string_equal(text_at(json_array_get(json_object_get(j, "tokens"), 1), "piece"), "b");
    json_decref(j);
    j = post("/detokenize", "{\"tokens\": [97, 98]}", 200);
    assert_string_equal(text_at(j, "prompt"), "ab");
    json_decref(j);
    j = post("/v1/embeddings", "{\"input\": [\"a\", [5]], \"encoding_format\": \"base64\"}", 200);
    assert_string_equal(text_at(json_array_get(json_object_get(j, "data"), 1), "embedding"),
                        "AACgQAAAwEAAAOBA");
    json_decref(j);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(test_loading),
                                       TEST(test_completion),
                                       TEST(test_chat),
                                       TEST(test_stream),
                                       TEST(test_stream_of_silence),
                                       TEST(test_wrong),
                                       TEST(test_statuses),
                                       TEST(test_failing),
                                       TEST(test_limits),
                                       TEST(test_keys),
                                       TEST(test_origins),
                                       TEST(test_leaving),
                                       TEST(test_leaving_at_once),
                                       TEST(test_slow_reader),
                                       TEST(test_late_token),
                                       TEST(test_tools),
                                       TEST(test_slow_sender),
                                       TEST(test_end),
                                       TEST(test_rest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
