/* tok/reply/reply.h: the answer of a model, as it comes, split into content, reasoning and calls.
 * What is reported and what is lost: <pith/chat.h>. */
#ifndef PITH_TOK_REPLY_REPLY_H
#define PITH_TOK_REPLY_REPLY_H

#include "base/json.h"
#include "tok/chat/chat.h"

#include <pith/chat.h>

/* The format of a template's text (UTF-8), with the text that ends one or NULL; tool_text: the
 * template for conversations with tools, or NULL when there is no other. Freed by
 * pith_reply_format_free(). */
enum pith_status pith_reply_format_of(const char *text, const char *tool_text, const char *end,
                                      struct pith_reply_format **out, struct pith_error *err);
/* Of an opened chat template; NULL: "plain". */
enum pith_status pith_reply_format_of_chat(const struct pith_chat *chat,
                                           struct pith_reply_format **out, struct pith_error *err);
const char *pith_reply_format_row(const struct pith_reply_format *f);
/* The mark that opens reasoning, or NULL; *close: the one that ends it. */
const char *pith_reply_format_marks(const struct pith_reply_format *f, const char **close);
/* The marks of calls that a constraint makes; *close may be NULL. */
const char *pith_reply_call_marks_of(const struct pith_reply_format *f, const char **close);
/* Whether it has any marks. */
bool pith_reply_format_marked(const struct pith_reply_format *f);
void pith_reply_format_free(struct pith_reply_format *f);
/* The marks of a call in the format of a template's text, where it is JSON between marks (*close
 * NULL: a list of them behind the one mark); else those of the format "described". */
void pith_reply_call_marks(const char *text, const char **open, const char **close);

/* As pith_reply_open(), of options that are whole. */
enum pith_status pith_reply_new(const struct pith_reply_format *f,
                                const struct pith_reply_options *o, struct pith_reply **out,
                                struct pith_error *err);
/* As pith_reply_push(), _end() and _calls(). */
enum pith_status pith_reply_add(struct pith_reply *r, const char *text, size_t size,
                                struct pith_error *err);
enum pith_status pith_reply_finish(struct pith_reply *r, struct pith_error *err);
size_t pith_reply_reported(const struct pith_reply *r);
void pith_reply_free(struct pith_reply *r);

#endif
