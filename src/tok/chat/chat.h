/* tok/chat/chat.h: a conversation as the prompt that the model was trained on: the chat template
 * that the checkpoint ships, with its special tokens, over the messages. */
#ifndef PITH_TOK_CHAT_CHAT_H
#define PITH_TOK_CHAT_CHAT_H

#include "tok/jinja/jinja.h"

#include <stdbool.h>

struct pith_chat;

/* The template of a model: the content of `file`, or, where that is NULL, its "default" one and for
 * conversations with tools "tool_use" (tok/chat/templates.h). PITH_OK and *out NULL when it has
 * none. */
enum pith_status pith_chat_open(const char *model, const char *file, struct pith_chat **out,
                                struct pith_error *err);
/* The template in memory, with a model's special tokens as {"bos_token": "<s>", ...} or NULL. */
enum pith_status pith_chat_from(const char *text, size_t size, const json_t *special,
                                struct pith_chat **out, struct pith_error *err);
void pith_chat_close(struct pith_chat *c);

/* The text of the template, of that for conversations with tools; NULL: it is the same one. */
const char *pith_chat_text(const struct pith_chat *c, bool tools);
/* A special token by the name that templates know it by ("eos_token"), or NULL. */
const char *pith_chat_token(const struct pith_chat *c, const char *name);

/* Whether its template for conversations with tools writes them. Where it does not, they are
 * described in the system message, and calls and results stand in messages as text
 * (tok/chat/tools.h). */
bool pith_chat_knows_tools(const struct pith_chat *c);
/* PITH_FORMAT, with its name, for a role that is none of the usual ones and that the template has
 * no word of. */
enum pith_status pith_chat_roles(const struct pith_chat *c, const json_t *conversation,
                                 struct pith_error *err);

/* Renders {"messages": [...], "tools", "documents", "add_generation_prompt", other variables}, or
 * the list of messages alone, as apply_chat_template() of transformers does: members of a message
 * that are null are omitted, and reasoning is there under each of its names. The last three of the
 * first four default to null, null and false. What the template would leave out without a word
 * (tools, calls, results, a system message) is written in another way, and where it fails, what
 * agents send and it cannot take is changed (tok/chat/mend.c): docs/chat.md says how. now: seconds
 * since 1970, 0: the clock's. PITH_FORMAT for what is no conversation, and for all that the
 * template says against it.
 *
 * "continue_final_message": true leaves the last message open: the text ends with its content. A
 * prompt for an answer cannot follow it (PITH_FORMAT). */
enum pith_status pith_chat_render(const struct pith_chat *c, const json_t *conversation,
                                  int64_t now, struct pith_rendered *out, struct pith_error *err);

#endif
