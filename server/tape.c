/* Copies of events, one allocation each: the note, its tokens, their alternatives, its texts. */
#include "server/tape.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

static size_t alternatives(const struct pith_event *e)
{
    size_t n = 0;
    for (size_t i = 0; i < e->tokens; i++) n += e->token[i].tops;
    return n;
}

static const char *put_text(char **at, const char *text, size_t size)
{
    char *to = *at;
    if (size > 0) memcpy(to, text, size);
    to[size] = '\0';
    *at += size + 1;
    return to;
}

bool tape_record(struct tape *tape, uint32_t part, const struct pith_event *event)
{
    const char *finish = event->finish ? event->finish : "";
    const size_t tops = alternatives(event), stop = event->stop ? strlen(event->stop) : 0;
    const size_t bytes = sizeof(struct tape_note) +
                         event->tokens * (sizeof(struct pith_event_token) + sizeof(size_t)) +
                         tops * sizeof(struct pith_alternative) + event->text_size + 1 +
                         strlen(finish) + 1 + stop + 1;
    struct tape_note *n = malloc(bytes);
    if (!n) return false;
    static_assert(sizeof(struct tape_note) % alignof(struct pith_event_token) == 0,
                  "tokens lie behind");
    static_assert(sizeof(struct pith_alternative) % alignof(size_t) == 0, "so do offsets");
    struct pith_event_token *token = (void *)(n + 1);
    struct pith_alternative *top = (void *)(token + event->tokens);
    size_t *offset = (size_t *)(void *)(top + tops);
    char *text = (char *)(offset + event->tokens);
    *n = (struct tape_note){.bytes = bytes, .part = part, .event = *event};
    for (size_t i = 0; i < event->tokens; i++) {
        token[i] = event->token[i];
        offset[i] = event->offset[i];
        if (token[i].tops > 0) memcpy(top, token[i].top, token[i].tops * sizeof *top);
        token[i].top = top;
        top += token[i].tops;
    }
    n->event.token = token;
    n->event.offset = offset;
    n->event.text = put_text(&text, event->text, event->text_size);
    n->event.finish = put_text(&text, finish, strlen(finish));
    n->event.stop = event->stop ? put_text(&text, event->stop, stop) : NULL;
    n->event.error = NULL;
    if (tape->last) tape->last->next = n;
    else tape->first = n;
    tape->last = n;
    tape->bytes += bytes;
    return true;
}

struct tape_note *tape_take(struct tape *tape)
{
    struct tape_note *n = tape->first;
    if (!n) return NULL;
    tape->first = n->next;
    if (!n->next) tape->last = NULL;
    tape->bytes -= n->bytes;
    return n;
}

void tape_free(struct tape *tape)
{
    struct tape_note *n;
    while ((n = tape_take(tape)) != NULL) free(n);
}
