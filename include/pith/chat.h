/* pith/chat.h: conversations as prompts, by the chat template that a checkpoint ships. */
#ifndef PITH_CHAT_H
#define PITH_CHAT_H

#include <pith/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The prompt that a conversation becomes, as transformers' apply_chat_template() makes it.
 *
 * model         a checkpoint folder (its tokenizer's files are enough) or a GGUF file
 * template_file a chat template (Jinja) in place of the model's; NULL: the model's
 * conversation  JSON: {"messages": [{"role", "content", ...}], "tools", "documents",
 *               "add_generation_prompt", other variables of the template}, or the messages alone
 * *prompt       UTF-8 with a NUL behind its *size bytes; free it with pith_text_free()
 *
 * PITH_FORMAT: no conversation, no template, or what the template says against it, with its line;
 * PITH_UNSUPPORTED: the model has no chat template; PITH_LIMIT: it takes too much work or memory.
 */
PITH_API enum pith_status pith_chat_prompt(const char *model, const char *template_file,
                                           const char *conversation, char **prompt, size_t *size,
                                           struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
