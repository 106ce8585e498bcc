/* Fields that messages name, in the words of a program. Public: <pith/names.h>. */
#include "base/str.h"

#include <pith/names.h>

#include <string.h>

enum { FIELD_ROOM = 64, SHOWN_ROOM = 256 };

/* A mark that begins at a text's first character. */
struct mark {
    char field[FIELD_ROOM], value[SHOWN_ROOM];
    bool has_value;
    size_t size; /* with both quotes; 0: there is none */
};

static bool copied(char *out, size_t room, const char *from, size_t n)
{
    if (n >= room) return false;
    memcpy(out, from, n);
    out[n] = '\0';
    return true;
}

static struct mark mark_at(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    struct mark m = {.size = 0};
    const size_t field = text[0] == '`' ? strspn(text + 1, letters) : 0;
    const char *behind = text + 1 + field;
    if (field == 0 || !copied(m.field, sizeof m.field, text + 1, field)) return m;
    m.has_value = *behind == '=';
    if (m.has_value) {
        const size_t n = strcspn(++behind, "`");
        if (!copied(m.value, sizeof m.value, behind, n)) return m;
        behind += n;
    }
    if (*behind == '`') m.size = (size_t)(behind - text) + 1;
    return m;
}

char *pith_fields_show(const char *text, pith_field_fn *show, void *ctx)
{
    struct pith_str out = {0};
    char shown[SHOWN_ROOM];
    while (*text) {
        const struct mark m = mark_at(text);
        const bool known = m.size &&
                           show(ctx, m.field, m.has_value ? m.value : NULL, shown, sizeof shown);
        if (known) pith_str_puts(&out, shown);
        else pith_str_putc(&out, *text);
        text += known ? m.size : 1;
    }
    return pith_str_take(&out);
}
