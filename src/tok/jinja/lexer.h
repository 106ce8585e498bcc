/* tok/jinja/lexer.h: a template as tokens, with the line breaks and blanks around tags gone as
 * trim_blocks and lstrip_blocks (both on, as transformers sets them) and the signs '-' and '+' say.
 * Source: the rules of jinja2 3.1's lexer. */
#ifndef PITH_TOK_JINJA_LEXER_H
#define PITH_TOK_JINJA_LEXER_H

#include "tok/jinja/value.h"

enum pith_jtoken_type {
    PITH_JT_END,
    PITH_JT_DATA,
    PITH_JT_PRINT, /* {{ */
    PITH_JT_PRINT_END,
    PITH_JT_BLOCK, /* {% */
    PITH_JT_BLOCK_END,
    PITH_JT_NAME,
    PITH_JT_STRING,
    PITH_JT_INT,
    PITH_JT_FLOAT,
    PITH_JT_OP
};
/* An operator's code: its character, or both. */
#define PITH_JOP(a, b) ((a) << 8 | (b))

struct pith_jtoken {
    enum pith_jtoken_type type;
    int line, op;
    struct pith_jv value; /* of DATA, NAME, STRING: text; of numbers: the number */
};

/* All tokens of a template, the last END, in r's pool; NULL and a failure when it has none. */
struct pith_jtoken *pith_jlex(struct pith_jrun *r, const char *text, size_t size, size_t *count);

#endif
