/* Any JSON as a conversation, for templates of several kinds: rendered, or refused by the template;
 * what is changed for it never fails by itself, and gives the same text each time. */
#include "tok/chat/chat.h"
#include "tok/unicode/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EACH(body) "{% for m in messages %}" body "{% endfor %}"
#define CALLS                                                                                      \
    "{% for t in m.tool_calls or [] %}!{{ t.function.name }}{{ t.function.arguments | tojson }}"   \
    "{% endfor %}"
static const char *const templates[] = {
    EACH("{{ m['role'] + ':' + m['content'] }}"),
    "{% if tools %}{{ tools | tojson }}{% endif %}" EACH("{{ m.role + ':' + m.content }}" CALLS),
    "{% if tools %}{{ tools | tojson }}{% endif %}" EACH(
        "{{ m.role }}:{% if m.content is none %}{% for t in m.tool_calls %}!{{ t.function.name + "
        "t.function.arguments }}{% endfor %}{% else %}{{ m.content + '' }}{% endif %}"),
    EACH("{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
         "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles') }}"
         "{% endif %}{{ m.role + ':' + m.content }}"),
    "{% if tools %}{{ tools | tojson }}{% endif %}" EACH(
        "{% if m.tool_calls and m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}"
        "{% for t in m.tool_calls or [] %}{% if t.id | length != 9 %}{{ raise_exception('ids') }}"
        "{% endif %}{% endfor %}{{ m.role }}:{{ m.content }}" CALLS),
    EACH("{{ m.role }}:{% for p in m.content %}{{ p.text }}{% endfor %}"),
    "{% for t in tools %}{{ t.name + t.description }}{% endfor %}" EACH(
        "{{ m.role }}:{{ m.name + m.content }}"),
};
enum { COUNT = sizeof templates / sizeof templates[0] };

/* Opened once, for good. */
static struct pith_chat *chat[COUNT];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *j = NULL;
    if (size < 1) return 0;
    const size_t at = data[0] % COUNT;
    if (!chat[at] &&
        pith_chat_from(templates[at], strlen(templates[at]), NULL, &chat[at], NULL) != PITH_OK)
        abort();
    if (pith_json_parse((const char *)data + 1, size - 1, "it", &j, NULL) != PITH_OK) return 0;
    struct pith_rendered a = {0}, b = {0};
    struct pith_error err = {0};
    const enum pith_status s = pith_chat_render(chat[at], j, 1753700000, &a, &err);
    if (s == PITH_NOMEM || (s != PITH_OK && !err.text[0])) abort();
    if (s != pith_chat_render(chat[at], j, 1753700000, &b, NULL)) abort();
    if (s == PITH_OK && (a.size != b.size || memcmp(a.text, b.text, a.size) != 0)) abort();
    if (s == PITH_OK && !pith_utf8_valid(a.text, a.size)) abort();
    (void)pith_chat_roles(chat[at], j, NULL);
    pith_rendered_free(&a);
    pith_rendered_free(&b);
    json_decref(j);
    return 0;
}
