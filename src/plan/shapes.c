/* shapes.json, made part of the program by the assembler. */
#include "plan/shapes.h"

#include <strings.h>

__asm__(".section .rodata\n"
        ".global pith_shapes_text\n"
        ".hidden pith_shapes_text\n"
        ".balign 16\n"
        "pith_shapes_text:\n"
        ".incbin \"src/plan/shapes.json\"\n"
        "pith_shapes_text_end:\n"
        ".byte 0\n"
        ".balign 8\n"
        ".global pith_shapes_text_size\n"
        ".hidden pith_shapes_text_size\n"
        "pith_shapes_text_size:\n"
        ".quad pith_shapes_text_end - pith_shapes_text\n"
        ".previous\n");
extern const char pith_shapes_text[];
extern const uint64_t pith_shapes_text_size;

enum pith_status pith_shapes_read(json_t **out, struct pith_error *err)
{
    return pith_json_parse(pith_shapes_text, (size_t)pith_shapes_text_size, "shapes.json", out,
                           err);
}

const json_t *pith_shapes_find(const json_t *shapes, const char *name)
{
    const json_t *s;
    size_t i;
    json_array_foreach (shapes, i, s)
        if (strcasecmp(json_string_value(json_object_get(s, "name")), name) == 0) return s;
    return NULL;
}
