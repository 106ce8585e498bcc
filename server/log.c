/* A line a request, as JSON; without prompts and answers unless they are wanted. */
#include "server/completion.h"

#include <stdio.h>
#include <string.h>

static void add_completion(json_t *line, const struct completion *g)
{
    json_object_set_new(line, "id", json_string(g->id));
    json_object_set_new(line, "stream", json_boolean(g->ask.stream));
    json_object_set_new(line, "prompt_tokens", json_integer((json_int_t)g->usage.prompt));
    json_object_set_new(line, "cached_tokens", json_integer((json_int_t)g->usage.cached));
    json_object_set_new(line, "completion_tokens", json_integer((json_int_t)g->usage.generated));
    json_object_set_new(line, "queued", json_real(g->usage.queued));
    json_object_set_new(line, "first", json_real(g->usage.first));
    if (g->failure.status)
        json_object_set_new(line, "failure",
                            json_any_text(g->failure.message, strlen(g->failure.message)));
}

void log_exchange(struct exchange *e)
{
    char when[40] = "";
    struct timespec t;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &t);
    if (gmtime_r(&t.tv_sec, &parts)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts);
    const size_t n = strlen(when);
    snprintf(when + n, sizeof when - n, ".%03ldZ", t.tv_nsec / 1000000);
    const char *method = e->route ? e->route->method : e->method,
               *path = e->route ? e->route->path : e->path;
    json_t *line = json_pack("{s:s, s:s, s:o, s:o, s:i, s:b, s:f, s:s}", "time", when, "client",
                             e->peer, "method", json_any_text(method, strlen(method)), "path",
                             json_any_text(path, strlen(path)), "status", (int)e->status, "gone",
                             e->gone, "seconds", server_clock() - e->began, "request", e->name);
    struct buffer b = {0};
    pthread_mutex_lock(&e->lock);
    if (line && e->completion) add_completion(line, e->completion);
    if (line && e->ignored) json_object_set(line, "ignored", e->ignored);
    pthread_mutex_unlock(&e->lock);
    if (line && e->server->settings.log_prompts && e->body.size > 0)
        json_object_set_new(line, "body", json_any_text(e->body.text, e->body.size));
    buffer_json(&b, line);
    buffer_text(&b, "\n");
    if (!b.failed) fwrite(b.text, 1, b.size, stderr);
    buffer_free(&b);
    json_decref(line);
}
