/* tok/chat/templates.h: the chat templates that a model has, by name. */
#ifndef PITH_TOK_CHAT_TEMPLATES_H
#define PITH_TOK_CHAT_TEMPLATES_H

#include "base/json.h"
#include "io/gguf/gguf.h"

struct pith_templates {
    json_t *text;  /* {"default": text, "tool_use": text, ...}; empty: there are none */
    json_t *where; /* {"default": the file or key that it is of, ...}, for messages */
};
/* Of a folder: chat_template.jinja, with additional_chat_templates/NAME.jinja next to it, else
 * "chat_template" of chat_template.json, else of tokenizer_config.json: a text, a list of {"name",
 * "template"} or an object of texts. Of a GGUF file tokenizer.chat_template, which is "default",
 * and tokenizer.chat_template.NAME. The first of two that share a name holds. After success free
 * with pith_templates_free(); after a failure there is nothing to free. PITH_FORMAT for what is no
 * text, or one of more than 4 MB. */
enum pith_status pith_templates_read(const char *model, struct pith_templates *out,
                                     struct pith_error *err);
/* Those of an open GGUF file. */
enum pith_status pith_templates_of(const struct pith_gguf *g, struct pith_templates *out,
                                   struct pith_error *err);
void pith_templates_free(struct pith_templates *t);

/* A name as the key of a GGUF file spells it: letters, digits and _ alone, of those that are longer
 * the first 95. */
enum { PITH_TEMPLATE_NAME = 96 };
void pith_template_key(const char *name, char key[PITH_TEMPLATE_NAME]);

#endif
