/* The parser's expressions, in jinja2's order of precedence. */
#include "tok/jinja/tree.h"

#include <string.h>

typedef struct pith_jnode node;
enum { MOST_HEIGHT = 500 };

static node *parse_or(struct pith_jparser *p);
static node *parse_unary(struct pith_jparser *p, bool filters);

bool pith_jat(const struct pith_jparser *p, int op)
{
    return pith_jpeek(p)->type == PITH_JT_OP && pith_jpeek(p)->op == op;
}

bool pith_jtake_op(struct pith_jparser *p, int op)
{
    if (p->r->status != PITH_OK || !pith_jat(p, op)) return false;
    pith_jnext(p);
    return true;
}

bool pith_jat_word(const struct pith_jparser *p, const char *word)
{
    return pith_jpeek(p)->type == PITH_JT_NAME && pith_jis(pith_jpeek(p)->value.u.s, word);
}

bool pith_jtake_word(struct pith_jparser *p, const char *word)
{
    if (p->r->status != PITH_OK || !pith_jat_word(p, word)) return false;
    pith_jnext(p);
    return true;
}

void pith_jnext(struct pith_jparser *p)
{
    if (pith_jpeek(p)->type != PITH_JT_END) p->at++;
    p->r->line = pith_jpeek(p)->line;
}

void pith_junexpected(struct pith_jparser *p)
{
    const struct pith_jtoken *t = pith_jpeek(p);
    if (t->type == PITH_JT_END) (void)pith_jfail(p->r, "unexpected end of template");
    else if (t->type == PITH_JT_NAME || t->type == PITH_JT_STRING)
        (void)pith_jfail(p->r, "unexpected '%.*s'",
                         (int)(t->value.u.s->len < 80 ? t->value.u.s->len : 80), t->value.u.s->s);
    else if (t->type == PITH_JT_OP && t->op > 0xff)
        (void)pith_jfail(p->r, "unexpected '%c%c'", t->op >> 8, t->op & 0xff);
    else if (t->type == PITH_JT_OP) (void)pith_jfail(p->r, "unexpected '%c'", t->op);
    else
        (void)pith_jfail(p->r, "unexpected %s",
                         t->type == PITH_JT_BLOCK_END   ? "'%}'"
                         : t->type == PITH_JT_PRINT_END ? "'}}'"
                                                        : "number");
}

void pith_jexpect(struct pith_jparser *p, int op)
{
    if (!pith_jtake_op(p, op)) pith_junexpected(p);
}

const struct pith_jstr *pith_jname(struct pith_jparser *p)
{
    const struct pith_jtoken *t = pith_jpeek(p);
    if (t->type != PITH_JT_NAME) {
        pith_junexpected(p);
        return NULL;
    }
    pith_jnext(p);
    return t->value.u.s;
}

node *pith_jnew(struct pith_jparser *p, enum pith_jnode_type type)
{
    node *n = p->r->status == PITH_OK ? pith_jtake(p->r, 1, sizeof *n) : NULL;
    if (!n) return NULL;
    n->type = type;
    n->line = pith_jpeek(p)->line;
    return n;
}

static node *with(struct pith_jparser *p, enum pith_jnode_type type, node *a, node *b)
{
    node *n = pith_jnew(p, type);
    if (!n) return NULL;
    if (a) n->line = a->line;
    n->a = a;
    n->b = b;
    n->height = 1 + (a ? a->height : 0);
    if (b && b->height >= n->height) n->height = 1 + b->height;
    if (n->height > MOST_HEIGHT)
        (void)pith_jfail(p->r, "an expression has more than %d parts", MOST_HEIGHT);
    return n;
}

/* Hangs a node at the end of a chain. */
static node **hang(node **end, node *n)
{
    *end = n;
    return n ? &n->next : end;
}

/* ---- primary expressions ---- */

static node *parse_list(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_LIST), **end = n ? &n->a : NULL;
    pith_jexpect(p, '[');
    while (p->r->status == PITH_OK && !pith_jat(p, ']')) {
        end = hang(end, pith_jexpression(p, true));
        if (!pith_jat(p, ']')) pith_jexpect(p, ',');
    }
    pith_jexpect(p, ']');
    return n;
}

static node *parse_dict(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_DICT), **end = n ? &n->a : NULL;
    pith_jexpect(p, '{');
    while (p->r->status == PITH_OK && !pith_jat(p, '}')) {
        end = hang(end, pith_jexpression(p, true));
        pith_jexpect(p, ':');
        end = hang(end, pith_jexpression(p, true));
        if (!pith_jat(p, '}')) pith_jexpect(p, ',');
    }
    pith_jexpect(p, '}');
    return n;
}

static node *parse_strings(struct pith_jparser *p)
{
    node *n = pith_jnew(p, PITH_JN_CONST);
    struct pith_jbuf b = {.r = p->r};
    while (p->r->status == PITH_OK && pith_jpeek(p)->type == PITH_JT_STRING) {
        pith_jbuf_str(&b, pith_jpeek(p)->value.u.s);
        pith_jnext(p);
    }
    if (n) n->value = pith_jbuf_value(&b);
    return n;
}

static node *parse_name(struct pith_jparser *p)
{
    static const struct {
        const char *name;
        enum pith_jkind kind;
        bool b;
    } words[] = {{"true", PITH_J_BOOL, true},   {"True", PITH_J_BOOL, true},
                 {"false", PITH_J_BOOL, false}, {"False", PITH_J_BOOL, false},
                 {"none", PITH_J_NONE, false},  {"None", PITH_J_NONE, false}};
    node *n = pith_jnew(p, PITH_JN_NAME);
    const struct pith_jstr *name = pith_jname(p);
    for (size_t i = 0; n && name && i < sizeof words / sizeof *words; i++)
        if (pith_jis(name, words[i].name)) {
            n->type = PITH_JN_CONST;
            n->value = words[i].kind == PITH_J_BOOL ? pith_jbool(words[i].b) : pith_jnone();
        }
    if (n) n->name = name;
    return n;
}

static node *parse_primary(struct pith_jparser *p)
{
    const struct pith_jtoken *t = pith_jpeek(p);
    node *n = NULL;
    if (t->type == PITH_JT_NAME) return parse_name(p);
    if (t->type == PITH_JT_STRING) return parse_strings(p);
    if (t->type == PITH_JT_INT || t->type == PITH_JT_FLOAT) {
        n = pith_jnew(p, PITH_JN_CONST);
        if (n) n->value = t->value;
        pith_jnext(p);
        return n;
    }
    if (pith_jat(p, '[')) return parse_list(p);
    if (pith_jat(p, '{')) return parse_dict(p);
    if (!pith_jat(p, '(')) {
        pith_junexpected(p);
        return NULL;
    }
    pith_jnext(p);
    n = pith_jtuple(p, true, true);
    pith_jexpect(p, ')');
    return n;
}

static bool tuple_ends(const struct pith_jparser *p)
{
    const enum pith_jtoken_type t = pith_jpeek(p)->type;
    return t == PITH_JT_PRINT_END || t == PITH_JT_BLOCK_END || t == PITH_JT_END ||
           pith_jat(p, ')') || pith_jat(p, '=') || pith_jat_word(p, "in") ||
           pith_jat_word(p, "recursive");
}

/* What is read first, and what follows behind commas. */
static node *tuple_of(struct pith_jparser *p, node *(*item)(struct pith_jparser *, bool), bool how,
                      bool bracketed)
{
    node *first = NULL, **end = &first;
    bool tuple = false;
    while (p->r->status == PITH_OK && !tuple_ends(p)) {
        end = hang(end, item(p, how));
        if (!pith_jtake_op(p, ',')) break;
        tuple = true;
    }
    if (!first && !bracketed) pith_junexpected(p);
    if (p->r->status != PITH_OK || (first && !tuple)) return first;
    return with(p, PITH_JN_TUPLE, first, NULL);
}

node *pith_jtuple(struct pith_jparser *p, bool choice, bool bracketed)
{
    return tuple_of(p, pith_jexpression, choice, bracketed);
}

static node *target(struct pith_jparser *p, bool members)
{
    if (pith_jtake_op(p, '(')) {
        node *n = tuple_of(p, target, members, false);
        pith_jexpect(p, ')');
        return n;
    }
    node *n = parse_name(p);
    if (n && n->type != PITH_JN_NAME) (void)pith_jfail(p->r, "can't assign to 'const'");
    if (n && members && pith_jtake_op(p, '.')) {
        const struct pith_jstr *name = pith_jname(p);
        n->type = PITH_JN_NSREF;
        if (name) n->value = (struct pith_jv){.kind = PITH_J_STRING, .u.s = name};
    }
    return n;
}

node *pith_jtarget(struct pith_jparser *p, bool members)
{
    return tuple_of(p, target, members, false);
}

/* ---- what follows an expression ---- */

static node *parse_slice(struct pith_jparser *p)
{
    node *part[3] = {NULL}, *n = NULL;
    size_t i = 0;
    if (!pith_jat(p, ':')) part[0] = pith_jexpression(p, true);
    if (!pith_jat(p, ':')) return part[0];
    n = pith_jnew(p, PITH_JN_SLICE);
    while (i < 2 && pith_jtake_op(p, ':'))
        if (++i && !pith_jat(p, ':') && !pith_jat(p, ']')) part[i] = pith_jexpression(p, true);
    if (n) n->a = part[0], n->b = part[1], n->c = part[2];
    return n;
}

static node *parse_args(struct pith_jparser *p)
{
    node *first = NULL, **end = &first;
    pith_jexpect(p, '(');
    while (p->r->status == PITH_OK && !pith_jat(p, ')')) {
        node *n = pith_jnew(p, PITH_JN_ARG);
        if (!n) return NULL;
        const struct pith_jtoken *t = pith_jpeek(p);
        if (pith_jtake_op(p, '*')) n->type = PITH_JN_STAR;
        else if (pith_jtake_op(p, PITH_JOP('*', '*'))) n->type = PITH_JN_STARS;
        else if (t->type == PITH_JT_NAME && t[1].type == PITH_JT_OP && t[1].op == '=') {
            n->type = PITH_JN_NAMED;
            n->name = pith_jname(p);
            pith_jnext(p);
        }
        n->a = pith_jexpression(p, true);
        end = hang(end, n);
        if (!pith_jat(p, ')')) pith_jexpect(p, ',');
    }
    pith_jexpect(p, ')');
    return first;
}

static node *parse_member(struct pith_jparser *p, node *of)
{
    node *n = with(p, PITH_JN_ATTR, of, NULL);
    const struct pith_jtoken *t = pith_jpeek(p);
    if (n && t->type == PITH_JT_INT) {
        n->type = PITH_JN_ITEM;
        n->b = parse_primary(p);
    } else if (n) n->name = pith_jname(p);
    return n;
}

static node *parse_postfix(struct pith_jparser *p, node *n)
{
    while (p->r->status == PITH_OK) {
        if (pith_jtake_op(p, '.')) {
            n = parse_member(p, n);
        } else if (pith_jtake_op(p, '[')) {
            n = with(p, PITH_JN_ITEM, n, parse_slice(p));
            pith_jexpect(p, ']');
        } else if (pith_jat(p, '(')) {
            n = with(p, PITH_JN_CALL, n, parse_args(p));
        } else break;
    }
    return n;
}

/* A filter's or test's name, which may have dots. */
static const struct pith_jstr *dotted(struct pith_jparser *p)
{
    const struct pith_jstr *name = pith_jname(p);
    while (name && pith_jat(p, '.')) {
        struct pith_jbuf b = {.r = p->r};
        pith_jnext(p);
        pith_jbuf_str(&b, name);
        pith_jbuf_puts(&b, ".");
        name = pith_jname(p);
        if (name) pith_jbuf_str(&b, name);
        const struct pith_jv v = pith_jbuf_value(&b);
        name = v.kind == PITH_J_STRING ? v.u.s : NULL;
    }
    return name;
}

node *pith_jfilters(struct pith_jparser *p, node *of, bool first)
{
    while (p->r->status == PITH_OK && (first || pith_jat(p, '|'))) {
        if (!first) pith_jnext(p);
        first = false;
        node *n = with(p, PITH_JN_FILTER, of, NULL);
        if (!n) return NULL;
        n->line = pith_jpeek(p)->line;
        n->name = dotted(p);
        if (pith_jat(p, '(')) n->b = parse_args(p);
        of = n;
    }
    return of;
}

static node *parse_test(struct pith_jparser *p, node *of)
{
    const bool not = pith_jtake_word(p, "not");
    node *n = with(p, PITH_JN_TEST, of, NULL);
    if (!n) return NULL;
    n->name = dotted(p);
    const enum pith_jtoken_type t = pith_jpeek(p)->type;
    if (pith_jat(p, '(')) {
        n->b = parse_args(p);
    } else if (pith_jat_word(p, "is")) {
        (void)pith_jfail(p->r, "You cannot chain multiple tests with is");
    } else if ((t == PITH_JT_NAME || t == PITH_JT_STRING || t == PITH_JT_INT ||
                t == PITH_JT_FLOAT || pith_jat(p, '[') || pith_jat(p, '{')) &&
               !pith_jat_word(p, "else") && !pith_jat_word(p, "or") && !pith_jat_word(p, "and")) {
        node *arg = parse_primary(p);
        n->b = with(p, PITH_JN_ARG, parse_postfix(p, arg), NULL);
    }
    return not ? with(p, PITH_JN_NOT, n, NULL) : n;
}

static node *parse_filters(struct pith_jparser *p, node *n)
{
    while (p->r->status == PITH_OK) {
        if (pith_jat(p, '|')) n = pith_jfilters(p, n, false);
        else if (pith_jtake_word(p, "is")) n = parse_test(p, n);
        else if (pith_jat(p, '(')) n = with(p, PITH_JN_CALL, n, parse_args(p));
        else break;
    }
    return n;
}

/* ---- operators, the tightest first ---- */

static node *parse_sign(struct pith_jparser *p)
{
    const enum pith_jnode_type type = pith_jat(p, '-') ? PITH_JN_NEG : PITH_JN_POS;
    if (!pith_jdeeper(p->r)) return NULL;
    pith_jnext(p);
    node *n = with(p, type, parse_unary(p, false), NULL);
    p->r->depth--;
    return n;
}

static node *parse_unary(struct pith_jparser *p, bool filters)
{
    node *n = pith_jat(p, '-') || pith_jat(p, '+') ? parse_sign(p) : parse_primary(p);
    n = parse_postfix(p, n);
    return filters ? parse_filters(p, n) : n;
}

/* Operators of one precedence, by their codes; they associate to the left. */
static node *chain(struct pith_jparser *p, const int *ops, node *(*inner)(struct pith_jparser *))
{
    node *left = inner(p);
    for (bool found = true; found && p->r->status == PITH_OK;) {
        found = false;
        for (const int *op = ops; *op && !found; op++) {
            if (!pith_jtake_op(p, *op)) continue;
            found = true;
            left = with(p, PITH_JN_BINARY, left, inner(p));
            if (left) left->op = *op;
        }
    }
    return left;
}

static node *parse_tight(struct pith_jparser *p)
{
    return parse_unary(p, true);
}

static node *parse_power(struct pith_jparser *p)
{
    static const int ops[] = {PITH_JOP('*', '*'), 0};
    return chain(p, ops, parse_tight);
}

static node *parse_product(struct pith_jparser *p)
{
    static const int ops[] = {'*', '/', PITH_JOP('/', '/'), '%', 0};
    return chain(p, ops, parse_power);
}

static node *parse_concat(struct pith_jparser *p)
{
    node *first = parse_product(p);
    if (!pith_jat(p, '~')) return first;
    node *n = with(p, PITH_JN_CONCAT, first, NULL), **end = first ? &first->next : NULL;
    while (n && end && pith_jtake_op(p, '~')) end = hang(end, parse_product(p));
    return n;
}

static node *parse_sum(struct pith_jparser *p)
{
    static const int ops[] = {'+', '-', 0};
    return chain(p, ops, parse_concat);
}

static int comparison(struct pith_jparser *p)
{
    static const int ops[] = {PITH_JOP('=', '='),
                              PITH_JOP('!', '='),
                              PITH_JOP('<', '='),
                              PITH_JOP('>', '='),
                              '<',
                              '>',
                              0};
    for (const int *op = ops; *op; op++)
        if (pith_jtake_op(p, *op)) return *op;
    if (pith_jtake_word(p, "in")) return PITH_JOP_IN;
    const struct pith_jtoken *t = pith_jpeek(p);
    if (!pith_jat_word(p, "not") || t[1].type != PITH_JT_NAME || !pith_jis(t[1].value.u.s, "in"))
        return 0;
    pith_jnext(p);
    pith_jnext(p);
    return PITH_JOP_NOT_IN;
}

static node *parse_compare(struct pith_jparser *p)
{
    node *left = parse_sum(p), *n = NULL, **end = NULL;
    for (int op; p->r->status == PITH_OK && (op = comparison(p)) != 0;) {
        if (!n) {
            n = with(p, PITH_JN_COMPARE, left, NULL);
            end = n ? &n->b : NULL;
        }
        node *operand = with(p, PITH_JN_OPERAND, parse_sum(p), NULL);
        if (!n || !operand) return NULL;
        operand->op = op;
        end = hang(end, operand);
    }
    return n ? n : left;
}

static node *parse_not(struct pith_jparser *p)
{
    if (!pith_jat_word(p, "not")) return parse_compare(p);
    if (!pith_jdeeper(p->r)) return NULL;
    pith_jnext(p);
    node *n = with(p, PITH_JN_NOT, parse_not(p), NULL);
    p->r->depth--;
    return n;
}

static node *parse_and(struct pith_jparser *p)
{
    node *left = parse_not(p);
    while (pith_jtake_word(p, "and")) left = with(p, PITH_JN_AND, left, parse_not(p));
    return left;
}

static node *parse_or(struct pith_jparser *p)
{
    node *left = parse_and(p);
    while (pith_jtake_word(p, "or")) left = with(p, PITH_JN_OR, left, parse_and(p));
    return left;
}

node *pith_jexpression(struct pith_jparser *p, bool choice)
{
    if (!pith_jdeeper(p->r)) return NULL;
    node *n = parse_or(p);
    while (choice && pith_jtake_word(p, "if")) {
        node *test = parse_or(p);
        node *then = n;
        n = with(p, PITH_JN_CHOICE, test, then);
        if (n && pith_jtake_word(p, "else")) n->c = pith_jexpression(p, true);
    }
    p->r->depth--;
    return n;
}

node *pith_jparams(struct pith_jparser *p)
{
    node *first = NULL, **end = &first;
    pith_jexpect(p, '(');
    while (p->r->status == PITH_OK && !pith_jat(p, ')')) {
        node *n = pith_jnew(p, PITH_JN_PARAM);
        if (!n) return NULL;
        n->name = pith_jname(p);
        if (pith_jtake_op(p, '=')) n->a = pith_jexpression(p, true);
        end = hang(end, n);
        if (!pith_jat(p, ')')) pith_jexpect(p, ',');
    }
    pith_jexpect(p, ')');
    return first;
}
