#include "traffic/sse.h"

#include <string.h>

static enum pith_status dispatch(struct pith_sse *s, struct pith_error *err)
{
    const struct pith_sse_event e = {pith_str_text(&s->data), s->data.len, s->error};
    enum pith_status status = PITH_OK;
    if (s->has_data) status = s->take(s->ctx, &e, err);
    pith_str_clear(&s->data);
    s->has_data = s->error = false;
    return status;
}

static void add_data(struct pith_sse *s, const char *value, size_t size)
{
    if (s->has_data) pith_str_putc(&s->data, '\n');
    pith_str_append(&s->data, value, size);
    s->has_data = true;
}

static bool is(const char *text, size_t size, const char *word)
{
    return size == strlen(word) && memcmp(text, word, size) == 0;
}

/* A whole line, without its end. */
static enum pith_status take_line(struct pith_sse *s, struct pith_error *err)
{
    const char *line = pith_str_text(&s->line);
    const size_t size = s->line.len;
    if (size == 0) return dispatch(s, err);
    const char *colon = memchr(line, ':', size);
    const size_t name = colon ? (size_t)(colon - line) : size;
    size_t at = colon ? name + 1 : size;
    if (at < size && line[at] == ' ') at++;
    if (is(line, name, "data")) {
        add_data(s, line + at, size - at);
    } else if (is(line, name, "error")) {
        add_data(s, line + at, size - at);
        s->error = true;
    } else if (is(line, name, "event")) {
        s->error = is(line + at, size - at, "error");
    }
    if (s->data.failed) return pith_fail_nomem(err, "an event of a stream");
    pith_str_clear(&s->line);
    return PITH_OK;
}

static enum pith_status end_line(struct pith_sse *s, struct pith_error *err)
{
    if (!s->begun && s->line.len >= 3 && memcmp(s->line.data, "\xef\xbb\xbf", 3) == 0) {
        s->line.len -= 3;
        memmove(s->line.data, s->line.data + 3, s->line.len + 1);
    }
    s->begun = true;
    const enum pith_status status = take_line(s, err);
    pith_str_clear(&s->line);
    return status;
}

/* Bytes up to the next end of a line. */
static size_t run_of(const char *bytes, size_t size)
{
    size_t n = 0;
    while (n < size && bytes[n] != '\n' && bytes[n] != '\r') n++;
    return n;
}

enum pith_status pith_sse_push(struct pith_sse *s, const char *bytes, size_t size,
                               struct pith_error *err)
{
    for (size_t at = 0; at < size;) {
        if (s->after_cr && bytes[at] == '\n') {
            s->after_cr = false;
            at++;
            continue;
        }
        s->after_cr = false;
        const size_t n = run_of(bytes + at, size - at);
        if (n > PITH_SSE_MOST || s->line.len + s->data.len + n > PITH_SSE_MOST)
            return pith_fail(err, PITH_FORMAT, "an event of the stream is longer than %d bytes",
                             PITH_SSE_MOST);
        pith_str_append(&s->line, bytes + at, n);
        if (s->line.failed) return pith_fail_nomem(err, "an event of a stream");
        at += n;
        if (at == size) break;
        s->after_cr = bytes[at++] == '\r';
        PITH_TRY(end_line(s, err));
    }
    return PITH_OK;
}

enum pith_status pith_sse_end(struct pith_sse *s, struct pith_error *err)
{
    if (s->line.len > 0) PITH_TRY(end_line(s, err));
    return dispatch(s, err);
}

void pith_sse_reset(struct pith_sse *s)
{
    pith_str_clear(&s->line);
    pith_str_clear(&s->data);
    s->begun = s->after_cr = s->has_data = s->error = false;
}

void pith_sse_free(struct pith_sse *s)
{
    pith_str_free(&s->line);
    pith_str_free(&s->data);
}
