/* Text that grows. */
#include "server/buffer.h"

#include <pith/json.h>

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_add(struct buffer *b, const void *bytes, size_t size)
{
    if (b->failed) return;
    if (size >= b->room - b->size || !b->text) {
        const size_t least = b->size + size + 1, twice = b->room * 2;
        const size_t room = least > twice ? least : twice;
        char *more = size > SIZE_MAX / 4 || b->size > SIZE_MAX / 4 ? NULL : realloc(b->text, room);
        if (!more) {
            b->failed = true;
            return;
        }
        b->text = more;
        b->room = room;
    }
    if (size > 0) memcpy(b->text + b->size, bytes, size);
    b->size += size;
    b->text[b->size] = '\0';
}

void buffer_text(struct buffer *b, const char *text)
{
    buffer_add(b, text, strlen(text));
}

void buffer_print(struct buffer *b, const char *format, ...)
{
    char text[2048];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= sizeof text) b->failed = true;
    else buffer_add(b, text, (size_t)n);
}

void buffer_json(struct buffer *b, const json_t *value)
{
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9);
    char *text = pith_tree_text(value, flags);
    if (text) buffer_text(b, text);
    else b->failed = true;
    pith_text_free(text);
}

char *json_written(const json_t *value, size_t flags)
{
    char *text = pith_tree_text(value, flags), *out = text ? strdup(text) : NULL;
    pith_text_free(text);
    return out;
}

void buffer_free(struct buffer *b)
{
    free(b->text);
    *b = (struct buffer){0};
}
