/* tok/chat/tools.h: tools, calls and results in words, for templates that know none: the form that
 * docs/chat.md calls "described". What is made here is a JSON string, NULL when memory is out. */
#ifndef PITH_TOK_CHAT_TOOLS_H
#define PITH_TOK_CHAT_TOOLS_H

#include "tok/chat/traits.h"

/* What a call begins and ends with. */
#define PITH_DESCRIBED_OPEN "<tool_call>"
#define PITH_DESCRIBED_CLOSE "</tool_call>"

/* Sets what a template that knows tools is given: a list of them, or NULL. False: memory is out. */
bool pith_chat_give_tools(json_t *given, json_t *tools, const struct pith_chat_traits *t,
                          int64_t now);
/* The part of a system message that describes tools and how they are called. */
json_t *pith_chat_describe(const json_t *tools);
/* The content of a message with its calls behind it, each between the marks; where close is NULL
 * all of them in one list behind `open`. */
json_t *pith_chat_call_text(const json_t *message, const char *open, const char *close);
/* What a function gave back. */
json_t *pith_chat_result_text(const json_t *message);

/* Whether a content says nothing: missing, null, an empty string or list. */
bool pith_chat_is_nothing(const json_t *content);
/* A content as text: a string as it is, of a list its parts of text, a line each; anything else as
 * JSON. */
json_t *pith_chat_text_of(const json_t *content);
/* Contents of which each may be missing (null), a string or a list of parts, with a text between
 * those that have something: a string, or a list of parts where one of them is. */
json_t *pith_chat_joined(const json_t *contents, const char *between);

#endif
