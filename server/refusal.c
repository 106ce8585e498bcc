/* Errors as bodies of answers. */
#include "server/refusal.h"

#include "server/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kind {
    unsigned status;
    const char *type, *code;
} kinds[] = {
#define REFUSAL(status, type, code, again) {status, type, code},
#include "server/refusals.def"
#undef REFUSAL
};

static const struct kind *kind_of(unsigned status)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].status == status) return &kinds[i];
    return &kinds[0];
}

bool refuse(struct refusal *r, unsigned status, const char *param, const char *format, ...)
{
    va_list list;
    r->status = status;
    snprintf(r->code, sizeof r->code, "%s", kind_of(status)->code);
    snprintf(r->param, sizeof r->param, "%s", param ? param : "");
    va_start(list, format);
    vsnprintf(r->message, sizeof r->message, format, list);
    va_end(list);
    return false;
}

bool refuse_model(struct refusal *r, const char *name, const char *own)
{
    (void)refuse(r, 404, "model", "the model '%.200s' does not exist; this server has '%.200s'",
                 name, own);
    snprintf(r->code, sizeof r->code, "model_not_found");
    return false;
}

bool refuse_failure(struct refusal *r, enum pith_status status, const struct pith_error *err)
{
    static const struct {
        enum pith_status status;
        unsigned http;
        const char *code;
    } map[] = {
        {PITH_ARG, 400, ""},
        {PITH_FORMAT, 400, ""},
        {PITH_UNSUPPORTED, 400, "unsupported"},
        {PITH_LENGTH, 400, "context_length_exceeded"},
        {PITH_LIMIT, 400, "too_large"},
        {PITH_BUSY, 429, "queue_full"},
        {PITH_CLOSED, 503, "draining"},
        {PITH_INTERRUPTED, 503, "draining"},
        {PITH_NOMEM, 503, "out_of_memory"},
    };
    const char *text = err && err->text[0] ? err->text : pith_status_text(status);
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (map[i].status != status) continue;
        (void)refuse(r, map[i].http, NULL, "%s", text);
        snprintf(r->code, sizeof r->code, "%s", map[i].code);
        return false;
    }
    return refuse(r, 500, NULL, "%s", text);
}

bool refuse_prompt(struct refusal *r, enum pith_status status, const struct pith_error *err,
                   const char *field)
{
    (void)refuse_failure(r, status, err);
    if (status != PITH_LENGTH) return false;
    snprintf(r->param, sizeof r->param, "%s", field);
    /* openai 3 shows only the message, and LangChain looks for the code in what it shows. */
    const size_t end = strlen(r->message);
    snprintf(r->message + end, sizeof r->message - end, " (%s)", r->code);
    return false;
}

bool refuse_constraint(struct refusal *r, enum pith_status status, const char *param,
                       const struct pith_error *err)
{
    (void)refuse_failure(r, status, err);
    if (status == PITH_LIMIT) snprintf(r->code, sizeof r->code, "schema_too_large");
    snprintf(r->param, sizeof r->param, "%s", param);
    return false;
}

json_t *json_any_text(const char *text, size_t size)
{
    json_t *j = json_stringn(text, size);
    if (j) return j;
    char *plain = malloc(size + 1);
    if (!plain) return NULL;
    for (size_t i = 0; i < size; i++) plain[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    j = json_stringn(plain, size);
    free(plain);
    return j;
}

json_t *json_bytes(const char *bytes, size_t size)
{
    json_t *list = json_array();
    for (size_t i = 0; i < size; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    return list;
}

json_t *json_token(const char *bytes, size_t size)
{
    json_t *j = json_stringn(bytes, size);
    struct buffer b = {0};
    if (j) return j;
    buffer_text(&b, "bytes:");
    for (size_t i = 0; i < size; i++) buffer_print(&b, "\\x%02x", (unsigned char)bytes[i]);
    j = b.failed ? NULL : json_string(b.text);
    buffer_free(&b);
    return j;
}

json_t *refusal_json(const struct refusal *r)
{
    return json_pack("{s:{s:o, s:s, s:o, s:o}}", "error", "message",
                     json_any_text(r->message, strlen(r->message)), "type",
                     kind_of(r->status)->type, "param",
                     r->param[0] ? json_any_text(r->param, strlen(r->param)) : json_null(), "code",
                     r->code[0] ? json_string(r->code) : json_null());
}
