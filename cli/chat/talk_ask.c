/* An answer: requested from the service, split, shown, stored. Events come from the service's
 * thread; all else is done by the one that waits for them. */
#include "cli/chat/talk.h"
#include "cli/interrupt.h"

#include <pith/json.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What came since it was looked at last. */
struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    char *text;
    size_t size, capacity;
    bool over, nomem;
    char finish[16];
    struct pith_usage usage;
    enum pith_status status;
    struct pith_error error;
};

static void put(struct mailbox *m, const char *text, size_t size)
{
    if (m->size + size > m->capacity) {
        const size_t capacity = 2 * (m->size + size);
        char *more = realloc(m->text, capacity);
        if (!more) {
            m->nomem = true;
            return;
        }
        m->text = more;
        m->capacity = capacity;
    }
    if (size) memcpy(m->text + m->size, text, size);
    m->size += size;
}

static void on_event(void *ctx, const struct pith_event *e)
{
    struct mailbox *m = ctx;
    pthread_mutex_lock(&m->lock);
    if (e->kind == PITH_EVENT_TEXT || e->kind == PITH_EVENT_CHOICE) put(m, e->text, e->text_size);
    if (e->kind == PITH_EVENT_CHOICE && e->finish)
        snprintf(m->finish, sizeof m->finish, "%s", e->finish);
    if (e->kind == PITH_EVENT_END) m->usage = e->usage;
    if (e->kind == PITH_EVENT_FAILED) {
        m->status = e->status;
        if (e->error) m->error = *e->error;
    }
    m->over |= e->kind == PITH_EVENT_END || e->kind == PITH_EVENT_FAILED;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
}

/* Waits until something came, or a twentieth of a second, in which somebody may have pressed
 * Ctrl-C; takes the text over. */
static bool take(struct mailbox *m, char **text, size_t *size)
{
    struct timespec until;
    pthread_mutex_lock(&m->lock);
    if (m->size == 0 && !m->over) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        (void)pthread_cond_timedwait(&m->wake, &m->lock, &until);
    }
    *text = m->text;
    *size = m->size;
    m->text = NULL;
    m->size = m->capacity = 0;
    const bool over = m->over;
    pthread_mutex_unlock(&m->lock);
    return over;
}

/* --- what is heard ---------------------------------------------------------------------------- */

struct ear {
    struct talk *talk;
    struct show show;
    bool nomem;
};

static void append(struct ear *e, char **text, size_t *size, const struct pith_reply_delta *d)
{
    char *more = realloc(*text, *size + d->size + 1);
    if (!more) {
        e->nomem = true;
        return;
    }
    memcpy(more + *size, d->text, d->size);
    *text = more;
    *size += d->size;
    more[*size] = '\0';
}

static void hear(void *ctx, const struct pith_reply_delta *d)
{
    struct ear *e = ctx;
    struct spoken *s = &e->talk->last;
    if (d->kind == PITH_REPLY_REASONING) append(e, &s->reasoning, &s->reasoning_size, d);
    else append(e, &s->content, &s->content_size, d);
    if (!e->talk->common->json) show_text(&e->show, d->kind, d->text, d->size);
}

void spoken_free(struct spoken *s)
{
    free(s->content);
    free(s->reasoning);
    *s = (struct spoken){.content = NULL};
}

/* --- an answer -------------------------------------------------------------------------------- */

static char *conversation_of(const struct talk *t)
{
    json_t *all = json_pack("{s:O}", "messages", t->messages);
    char *text = all ? pith_tree_text(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}

static enum pith_status fail_nomem(struct pith_error *err)
{
    *err = (struct pith_error){.status = PITH_NOMEM, .text = "out of memory"};
    return PITH_NOMEM;
}

static enum pith_status open_reply(struct talk *t, const char *conversation, struct ear *ear,
                                   struct pith_reply **reply, struct pith_error *err)
{
    struct pith_reply_options o;
    char *prompt = NULL;
    pith_reply_defaults(&o);
    o.delta = hear;
    o.ctx = ear;
    enum pith_status s =
        pith_service_render(t->service, conversation, &prompt, &o.prompt_size, err);
    o.prompt = prompt;
    if (s == PITH_OK) s = pith_reply_open(t->format, &o, reply, err);
    pith_text_free(prompt);
    return s;
}

static enum pith_status submit(struct talk *t, const char *conversation, struct mailbox *m,
                               uint64_t *id, struct pith_error *err)
{
    const struct sampling *s = &t->sampling;
    struct pith_request r;
    pith_request_defaults(&r);
    r.conversation = conversation;
    r.max_tokens = s->tokens;
    r.temperature = (float)s->temperature;
    r.top_k = (uint32_t)s->top_k;
    r.top_p = (float)s->top_p;
    r.min_p = (float)s->min_p;
    r.typical = (float)s->typical;
    r.repetition = (float)s->repetition;
    r.frequency = (float)s->frequency;
    r.presence = (float)s->presence;
    r.seed = t->common->seed + t->requests++;
    r.special = pith_reply_format_special(t->format);
    r.event = on_event;
    r.ctx = m;
    return pith_submit(t->service, &r, id, err);
}

/* Hears the answer out; `stopped` when somebody pressed Ctrl-C. */
static enum pith_status hear_out(struct talk *t, struct mailbox *m, uint64_t id,
                                 struct pith_reply *reply, bool *stopped, struct pith_error *err)
{
    enum pith_status s = PITH_OK;
    bool over = false, cancelled = false;
    while (!over) {
        char *text;
        size_t size;
        over = take(m, &text, &size);
        if (s == PITH_OK && size) s = pith_reply_push(reply, text, size, err);
        free(text);
        if (interrupted()) *stopped = true;
        if ((*stopped || s != PITH_OK) && !cancelled) {
            pith_cancel(t->service, id);
            cancelled = true;
        }
    }
    if (s == PITH_OK) s = pith_reply_end(reply, err);
    if (s == PITH_OK && m->nomem) s = fail_nomem(err);
    if (s == PITH_OK && m->status != PITH_OK) {
        *err = m->error;
        s = m->status;
    }
    return s;
}

enum answered talk_ask(struct talk *t, struct pith_error *err)
{
    struct mailbox m = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
    struct ear ear = {.talk = t};
    struct pith_reply *reply = NULL;
    uint64_t id = 0;
    bool stopped = false;
    char *conversation = conversation_of(t);
    spoken_free(&t->last);
    show_start(&ear.show);
    enum pith_status s = conversation ? PITH_OK : fail_nomem(err);
    if (s == PITH_OK) s = open_reply(t, conversation, &ear, &reply, err);
    if (s == PITH_OK) s = submit(t, conversation, &m, &id, err);
    if (s == PITH_OK) s = hear_out(t, &m, id, reply, &stopped, err);
    if (s == PITH_OK && ear.nomem) s = fail_nomem(err);
    if (!t->common->json && (ear.show.any || s == PITH_OK)) show_end(&ear.show);
    t->last.usage = m.usage;
    memcpy(t->last.finish, m.finish, sizeof m.finish);
    pith_reply_close(&reply);
    pith_text_free(conversation);
    free(m.text);
    pthread_mutex_destroy(&m.lock);
    pthread_cond_destroy(&m.wake);
    if (s == PITH_INTERRUPTED && stopped) s = PITH_OK; /* whichever noticed first */
    return s != PITH_OK ? ANSWER_FAILED : stopped ? ANSWER_STOPPED : ANSWERED;
}

/* --- messages --------------------------------------------------------------------------------- */

bool talk_add(struct talk *t, const char *role, const char *text)
{
    return json_array_append_new(t->messages,
                                 json_pack("{s:s, s:s}", "role", role, "content", text)) == 0;
}

void talk_cut(struct talk *t, size_t from)
{
    while (json_array_size(t->messages) > from)
        json_array_remove(t->messages, json_array_size(t->messages) - 1);
}

bool talk_last_is(const struct talk *t, const char *role)
{
    const size_t n = json_array_size(t->messages);
    const json_t *last = n ? json_array_get(t->messages, n - 1) : NULL;
    const char *is = json_string_value(json_object_get(last, "role"));
    return is && strcmp(is, role) == 0;
}

bool talk_keep(struct talk *t)
{
    const struct spoken *s = &t->last;
    if (!s->content && !s->reasoning) return false;
    json_t *m =
        json_pack("{s:s, s:s}", "role", "assistant", "content", s->content ? s->content : "");
    if (m && s->reasoning) json_object_set_new(m, "reasoning_content", json_string(s->reasoning));
    return m && json_array_append_new(t->messages, m) == 0;
}
