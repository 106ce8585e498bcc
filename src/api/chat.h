/* api/chat.h: the chat template of a model that must have one. */
#ifndef PITH_API_CHAT_H
#define PITH_API_CHAT_H

#include "tok/chat/chat.h"

/* As pith_chat_open(); PITH_UNSUPPORTED when the model has none. */
enum pith_status pith_chat_need(const char *model, const char *file, struct pith_chat **out,
                                struct pith_error *err);

#endif
