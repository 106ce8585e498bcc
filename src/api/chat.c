#include <pith/chat.h>

#include "api/chat.h"
#include "api/options.h"
#include "base/mem.h"
#include "tok/reply/reply.h"

#include <string.h>

enum pith_status pith_chat_need(const char *model, const char *file, struct pith_chat **out,
                                struct pith_error *err)
{
    PITH_TRY(pith_chat_open(model, file, out, err));
    if (*out) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: has no chat template (chat_template.jinja, \"chat_template\" in "
                     "tokenizer_config.json, or the key tokenizer.chat_template of a GGUF file); "
                     "`chat_template` FILE names one; 'pith run' continues a text without any",
                     model);
}

enum pith_status pith_chat_prompt(const char *model, const char *template_file,
                                  const char *conversation, char **prompt, size_t *size,
                                  struct pith_error *err)
{
    struct pith_chat *chat = NULL;
    struct pith_rendered r = {0};
    json_t *j = NULL;
    enum pith_status s =
        pith_json_parse(conversation, strlen(conversation), "the conversation", &j, err);
    if (s == PITH_OK) s = pith_chat_need(model, template_file, &chat, err);
    if (s == PITH_OK) s = pith_chat_render(chat, j, 0, &r, err);
    if (s == PITH_OK) {
        *prompt = r.text;
        *size = r.size;
        r.text = NULL;
    }
    pith_rendered_free(&r);
    pith_chat_close(chat);
    json_decref(j);
    return s;
}

/* ---- answers ---- */

enum pith_status pith_reply_format_open(const char *model, const char *template_file,
                                        struct pith_reply_format **out, struct pith_error *err)
{
    struct pith_chat *chat = NULL;
    PITH_TRY(pith_chat_open(model, template_file, &chat, err));
    const enum pith_status s = pith_reply_format_of_chat(chat, out, err);
    pith_chat_close(chat);
    return s;
}

void pith_reply_format_close(struct pith_reply_format **format)
{
    if (!format) return;
    pith_reply_format_free(*format);
    *format = NULL;
}

const char *pith_reply_format_name(const struct pith_reply_format *format)
{
    return pith_reply_format_row(format);
}

const char *pith_reply_format_reasoning(const struct pith_reply_format *format, const char **close)
{
    return pith_reply_format_marks(format, close);
}

const char *pith_reply_format_calls(const struct pith_reply_format *format, const char **close)
{
    const char *end;
    return pith_reply_call_marks_of(format, close ? close : &end);
}

int pith_reply_format_special(const struct pith_reply_format *format)
{
    return pith_reply_format_marked(format);
}

static const struct pith_reply_options reply_defaults = {.prompt = NULL};

void pith_reply_defaults_sized(struct pith_reply_options *options, size_t size)
{
    pith_options_give(options, size, &reply_defaults, sizeof reply_defaults);
}

enum pith_status pith_reply_open(const struct pith_reply_format *format,
                                 const struct pith_reply_options *options, struct pith_reply **out,
                                 struct pith_error *err)
{
    struct pith_reply_options o;
    PITH_TRY(pith_options_take(&o, sizeof o, options, err));
    return pith_reply_new(format, &o, out, err);
}

enum pith_status pith_reply_push(struct pith_reply *reply, const char *text, size_t size,
                                 struct pith_error *err)
{
    return pith_reply_add(reply, text, size, err);
}

enum pith_status pith_reply_end(struct pith_reply *reply, struct pith_error *err)
{
    return pith_reply_finish(reply, err);
}

size_t pith_reply_calls(const struct pith_reply *reply)
{
    return pith_reply_reported(reply);
}

void pith_reply_close(struct pith_reply **reply)
{
    if (!reply) return;
    pith_reply_free(*reply);
    *reply = NULL;
}
