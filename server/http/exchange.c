/* What all routes do with an exchange. */
#include "server/http/exchange.h"

#include "server/completion.h"

#include <stdio.h>
#include <stdlib.h>

double server_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void exchange_wake(struct exchange *e)
{
    if (!e->suspended) return;
    e->suspended = false;
    e->progressed = server_clock();
    if (e->connection) MHD_resume_connection(e->connection);
}

void exchange_ignore(struct exchange *e, json_t *names)
{
    pthread_mutex_lock(&e->lock);
    json_decref(e->ignored);
    e->ignored = names;
    pthread_mutex_unlock(&e->lock);
}

json_t *exchange_body(struct exchange *e, enum field_route route, struct refusal *r)
{
    const struct server_settings *s = &e->server->settings;
    json_t *body = body_read(e->body.text ? e->body.text : "", e->body.size, r), *ignored = NULL;
    if (body && body_model(body, s->name, s->model, r) && fields_check(body, route, &ignored, r)) {
        exchange_ignore(e, ignored);
        if (choose_tools(body, r)) return body;
    }
    json_decref(body);
    return NULL;
}

void exchange_answer(struct exchange *e, unsigned status, const char *type, struct buffer *text)
{
    pthread_mutex_lock(&e->lock);
    if (!e->answered) {
        e->answered = true;
        e->status = text->failed ? 503 : status;
        e->type = type;
        e->text = text->text;
        e->size = text->size;
        *text = (struct buffer){0};
        exchange_wake(e);
    }
    pthread_mutex_unlock(&e->lock);
    buffer_free(text);
}

void exchange_json(struct exchange *e, unsigned status, json_t *value)
{
    struct buffer b = {0};
    buffer_json(&b, value);
    json_decref(value);
    if (b.failed) {
        buffer_free(&b);
        buffer_text(&b, "{\"error\":{\"message\":\"out of memory\",\"type\":\"unavailable_error\","
                        "\"param\":null,\"code\":\"out_of_memory\"}}");
        status = 503;
    }
    exchange_answer(e, status, "application/json", &b);
}

void exchange_refuse(struct exchange *e, const struct refusal *r)
{
    static const struct {
        unsigned status, again;
    } rows[] = {
#define REFUSAL(status, type, code, again) {status, again},
#include "server/refusals.def"
#undef REFUSAL
    };
    pthread_mutex_lock(&e->lock);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !e->answered; i++)
        if (rows[i].status == r->status && rows[i].again > 0)
            snprintf(e->retry, sizeof e->retry, "%u", rows[i].again);
    pthread_mutex_unlock(&e->lock);
    exchange_json(e, r->status, refusal_json(r));
}

void exchange_stream(struct exchange *e)
{
    pthread_mutex_lock(&e->lock);
    if (!e->answered) {
        e->answered = e->streaming = true;
        e->status = 200;
        e->type = "text/event-stream";
        e->progressed = server_clock();
        exchange_wake(e);
    }
    pthread_mutex_unlock(&e->lock);
}

void exchange_hold(struct exchange *e)
{
    pthread_mutex_lock(&e->lock);
    e->references++;
    pthread_mutex_unlock(&e->lock);
}

void exchange_drop(struct exchange *e)
{
    pthread_mutex_lock(&e->lock);
    const unsigned left = --e->references;
    pthread_mutex_unlock(&e->lock);
    if (left > 0) return;
    completion_free(e->completion);
    buffer_free(&e->body);
    free(e->text);
    free(e->rest);
    json_decref(e->ignored);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

void exchange_abandon(struct exchange *e)
{
    pthread_mutex_lock(&e->lock);
    struct completion *g = e->completion;
    pthread_mutex_unlock(&e->lock);
    if (g) completion_cancel(g);
}
