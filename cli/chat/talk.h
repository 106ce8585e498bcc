/* cli/chat/talk.h: a conversation at the terminal: its messages, the service that answers, what is
 * shown of an answer, and the commands that begin with a slash. */
#ifndef PITH_CLI_TALK_H
#define PITH_CLI_TALK_H

#include "cli/command.h"

#include <pith/chat.h>
#include <pith/engine.h>

/* How tokens are chosen: as in struct pith_request. */
struct sampling {
    size_t tokens, top_k;
    double temperature, top_p, min_p, typical, repetition, frequency, presence;
};

/* An answer, as it came. Owned texts, NUL-terminated; NULL: none. */
struct spoken {
    char *content, *reasoning;
    size_t content_size, reasoning_size;
    char finish[16];
    struct pith_usage usage;
};
void spoken_free(struct spoken *s);

struct talk {
    const struct common *common;
    struct sampling sampling;
    const char *kv; /* as it was given, or NULL */
    struct pith_service *service;
    struct pith_reply_format *format;
    json_t *messages; /* a list; owned */
    uint64_t requests; /* answers so far: each has a separate seed */
    struct spoken last;
};

/* --- answers ---------------------------------------------------------------------------------- */

enum answered {
    ANSWERED,
    ANSWER_STOPPED, /* by Ctrl-C: the answer until then is there */
    ANSWER_FAILED   /* *err says why */
};
/* Requests an answer to the messages, shows it while it comes (to a terminal all of it, else
 * content alone; nothing with --json) and puts it into t->last. */
enum answered talk_ask(struct talk *t, struct pith_error *err);
/* Puts t->last behind the messages; false when there is nothing of it, or no memory. */
bool talk_keep(struct talk *t);
/* Puts a message behind the others; false when memory is out or the text is not UTF-8. */
bool talk_add(struct talk *t, const char *role, const char *text);
/* Removes the messages from a place on. */
void talk_cut(struct talk *t, size_t from);
/* Whether the last message is of that role. */
bool talk_last_is(const struct talk *t, const char *role);

/* What is shown of an answer. */
struct show {
    bool terminal, colour;
    enum pith_reply_kind kind; /* of what was shown last */
    bool any;
};
void show_start(struct show *s);
void show_text(struct show *s, enum pith_reply_kind kind, const char *text, size_t size);
void show_end(struct show *s);
/* A text from elsewhere to a terminal: control characters, but for line breaks and tabs, and bytes
 * that are no UTF-8, are written out (\x1b), so that none reaches the terminal. */
void put_safe(const char *text, size_t size);

/* --- commands --------------------------------------------------------------------------------- */

enum talk_next {
    TALK_GOES_ON,
    TALK_ASKS, /* an answer is to be made */
    TALK_ENDS
};
/* A line that begins with a slash. */
enum talk_next talk_command(struct talk *t, const char *line);
/* Sets the first message, of role "system"; an empty text removes it. */
bool talk_system(struct talk *t, const char *text);

/* --- files ------------------------------------------------------------------------------------ */

/* Reads {"messages": [...]}, or the list alone, in place of what there is; on failure that stays.
 */
bool talk_load(struct talk *t, const char *path, struct pith_error *err);
/* Writes it: to a temporary file, then renamed. */
bool talk_save(const struct talk *t, const char *path, struct pith_error *err);
/* Where lines that were typed are saved: in $XDG_STATE_HOME/pith, or ~/.local/state/pith, which is
 * made; NULL when there is no such place. free() it. */
char *history_path(void);

#endif
