/* The parser's statements: a row of a table each. */
#include "tok/jinja/tree.h"

#include <string.h>

typedef struct pith_jnode node;

static node *parse_body(struct pith_jparser *p, const char *const *ends);

/* Ends a tag. */
static void close_tag(struct pith_jparser *p)
{
    if (p->r->status != PITH_OK) return;
    if (pith_jpeek(p)->type == PITH_JT_BLOCK_END) pith_jnext(p);
    else pith_junexpected(p);
}

/* Statements up to {% word %}, whose tag stays at the word. */
static node *body(struct pith_jparser *p, const char *a, const char *b, const char *c)
{
    const char *const ends[] = {a, b, c, NULL};
    close_tag(p);
    return parse_body(p, ends);
}

/* The same up to {% word %}, which goes too. */
static node *whole(struct pith_jparser *p, const char *word)
{
    node *n = body(p, word, NULL, NULL);
    (void)pith_jtake_word(p, word);
    return n;
}

static node *parse_for(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_FOR);
    if (!n) return NULL;
    n->a = pith_jtarget(p, false);
    if (!pith_jtake_word(p, "in")) pith_junexpected(p);
    n->b = pith_jtuple(p, false, false);
    if (pith_jtake_word(p, "if")) n->c = pith_jexpression(p, true);
    if (pith_jat_word(p, "recursive"))
        (void)pith_jfail(p->r, "recursive loops are not supported in chat templates");
    p->loops++;
    n->d = body(p, "endfor", "else", NULL);
    p->loops--;
    if (pith_jtake_word(p, "else")) n->e = body(p, "endfor", NULL, NULL);
    (void)pith_jtake_word(p, "endfor");
    return n;
}

static node *parse_if(struct pith_jparser *p)
{
    node *first = NULL, *n, **end = &first;
    do {
        *end = n = pith_jnew(p, PITH_JN_IF);
        if (!n) return NULL;
        n->a = pith_jtuple(p, false, false);
        n->b = body(p, "elif", "else", "endif");
        end = &n->c;
    } while (pith_jtake_word(p, "elif"));
    if (pith_jtake_word(p, "else")) n->d = body(p, "endif", NULL, NULL);
    (void)pith_jtake_word(p, "endif");
    return first;
}

static node *parse_set(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_SET);
    if (!n) return NULL;
    n->a = pith_jtarget(p, true);
    if (pith_jtake_op(p, '=')) {
        n->b = pith_jtuple(p, true, false);
        return n;
    }
    n->type = PITH_JN_SET_BLOCK;
    n->b = pith_jfilters(p, NULL, false);
    n->c = whole(p, "endset");
    return n;
}

/* A loop around a macro is none of its body's. */
static node *own_body(struct pith_jparser *p, const char *end)
{
    const unsigned loops = p->loops;
    p->loops = 0;
    node *n = whole(p, end);
    p->loops = loops;
    return n;
}

static node *parse_macro(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_MACRO);
    if (!n) return NULL;
    n->name = pith_jname(p);
    n->a = pith_jparams(p);
    n->b = own_body(p, "endmacro");
    return n;
}

static node *parse_call(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_CALL_BLOCK);
    if (!n) return NULL;
    if (pith_jat(p, '(')) n->a = pith_jparams(p);
    n->b = pith_jexpression(p, true);
    if (n->b && n->b->type != PITH_JN_CALL) (void)pith_jfail(p->r, "expected call");
    n->c = own_body(p, "endcall");
    return n;
}

static node *parse_filter(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_FILTER_BLOCK);
    if (!n) return NULL;
    n->a = pith_jfilters(p, NULL, true);
    n->b = whole(p, "endfilter");
    return n;
}

static node *parse_with(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_WITH), **end = n ? &n->a : NULL;
    while (n && p->r->status == PITH_OK && pith_jpeek(p)->type != PITH_JT_BLOCK_END) {
        node *set = pith_jnew(p, PITH_JN_SET);
        if (!set) return NULL;
        set->a = pith_jtarget(p, false);
        pith_jexpect(p, '=');
        set->b = pith_jexpression(p, true);
        *end = set;
        end = &set->next;
        if (pith_jpeek(p)->type != PITH_JT_BLOCK_END) pith_jexpect(p, ',');
    }
    if (n) n->b = whole(p, "endwith");
    return n;
}

static node *parse_generation(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_SCOPED);
    if (n) n->b = own_body(p, "endgeneration");
    return n;
}

static node *parse_print(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_PRINT);
    if (n) n->a = pith_jtuple(p, true, false);
    return n;
}

static node *parse_prints(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_PRINT), *all = pith_jnew(p, PITH_JN_CONCAT);
    node **end = all ? &all->a : NULL;
    do {
        node *one = pith_jexpression(p, true);
        if (!n || !all || !one) return NULL;
        *end = one;
        end = &one->next;
    } while (pith_jtake_op(p, ','));
    n->a = all;
    return n;
}

static node *parse_break(struct pith_jparser *p)
{
    if (!p->loops) (void)pith_jfail(p->r, "'break' outside loop");
    return pith_jnew(p, PITH_JN_BREAK);
}

static node *parse_continue(struct pith_jparser *p)
{
    if (!p->loops) (void)pith_jfail(p->r, "'continue' outside loop");
    return pith_jnew(p, PITH_JN_CONTINUE);
}

/* What a tag's first word begins. */
static const struct {
    const char *name;
    node *(*parse)(struct pith_jparser *);
} statements[] = {
    {"for", parse_for},
    {"if", parse_if},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call},
    {"filter", parse_filter},
    {"with", parse_with},
    {"print", parse_prints},
    {"generation", parse_generation},
    {"break", parse_break},
    {"continue", parse_continue},
};

static node *parse_statement(struct pith_jparser *p)
{
    const struct pith_jtoken *t = pith_jpeek(p);
    for (size_t i = 0; t->type == PITH_JT_NAME && i < sizeof statements / sizeof *statements; i++) {
        if (!pith_jis(t->value.u.s, statements[i].name)) continue;
        if (!pith_jdeeper(p->r)) return NULL;
        pith_jnext(p);
        node *n = statements[i].parse(p);
        if (n) n->line = t->line;
        p->r->depth--;
        close_tag(p);
        return n;
    }
    if (t->type == PITH_JT_NAME)
        (void)pith_jfail(p->r, "Encountered unknown tag '%.*s'.",
                         (int)(t->value.u.s->len < 80 ? t->value.u.s->len : 80), t->value.u.s->s);
    else (void)pith_jfail(p->r, "tag name expected");
    return NULL;
}

static bool at_end(const struct pith_jparser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (pith_jat_word(p, *ends)) return true;
    return false;
}

static node *parse_body(struct pith_jparser *p, const char *const *ends)
{
    node *first = NULL, **end = &first;
    while (p->r->status == PITH_OK) {
        const struct pith_jtoken *t = pith_jpeek(p);
        node *n = NULL;
        if (t->type == PITH_JT_END) {
            if (ends)
                (void)pith_jfail(p->r, "Unexpected end of template: looking for '%s'", ends[0]);
            break;
        }
        pith_jnext(p);
        if (t->type == PITH_JT_DATA) {
            n = pith_jnew(p, PITH_JN_TEXT);
            if (n) n->value = t->value;
        } else if (t->type == PITH_JT_PRINT) {
            n = parse_print(p);
            if (p->r->status == PITH_OK && pith_jpeek(p)->type != PITH_JT_PRINT_END)
                pith_junexpected(p);
            pith_jnext(p);
        } else {
            if (at_end(p, ends)) break;
            n = parse_statement(p);
        }
        *end = n;
        if (n) end = &n->next;
    }
    return first;
}

node *pith_jparse(struct pith_jrun *r, const char *text, size_t size)
{
    size_t count;
    struct pith_jparser p = {.r = r, .token = pith_jlex(r, text, size, &count)};
    return p.token ? parse_body(&p, NULL) : NULL;
}
