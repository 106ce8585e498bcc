#include <pith/chat.h>

#include "api/chat.h"
#include "base/mem.h"

#include <string.h>

enum pith_status pith_chat_need(const char *model, const char *file, struct pith_chat **out,
                                struct pith_error *err)
{
    PITH_TRY(pith_chat_open(model, file, out, err));
    if (*out) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: has no chat template (chat_template.jinja, \"chat_template\" in "
                     "tokenizer_config.json, or the key tokenizer.chat_template of a GGUF file); "
                     "--chat-template FILE names one",
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
