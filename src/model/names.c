/* What a checkpoint's tensors are called where that is not as the architecture has it: trainers put
 * their wrappers in front, and transformers has moved language models about within others. */
#include "model/load.h"

#include "base/mem.h"
#include "base/str.h"

#include <ctype.h>
#include <string.h>

/* Components that wrap a module and mean nothing: at the start of a name, or anywhere. */
static const char *const first[] = {"module.", "base_model.model.", "base_model."};
static const char *const anywhere[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                       "_checkpoint_wrapped_module.", "base_layer."};

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static void unwrap(const char *name, struct pith_str *out)
{
    const char *from = name;
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < PITH_COUNT(anywhere) && !again; i++)
            if (begins(from, anywhere[i])) from += strlen(anywhere[i]), again = true;
        for (size_t i = 0; i < PITH_COUNT(first) && !again; i++)
            if (begins(from, first[i])) from += strlen(first[i]), again = true;
    }
    while (*from) {
        size_t i = 0;
        const bool start = from == name || from[-1] == '.';
        while (i < PITH_COUNT(anywhere) && !(start && begins(from, anywhere[i]))) i++;
        if (i < PITH_COUNT(anywhere)) from += strlen(anywhere[i]);
        else pith_str_putc(out, *from++);
    }
}

static void without_wrappers(const void *ctx, const char *name, struct pith_str *out)
{
    (void)ctx;
    unwrap(name, out);
}

/* --- where the language model stands ---------------------------------------------------------- */

struct place {
    const struct pith_arch_names *names;
    const char *is; /* what stands in front of its parts; is[0..is_size) */
    size_t is_size;
    size_t want_size; /* the same as the architecture has it: names->embed[0..want_size) */
    const char *head; /* the head's module; head[0..head_size), or NULL */
    size_t head_size;
};

static size_t parent_size(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) + 1 : 0;
}

/* Whether a tensor is `module`.weight or a container's part of it, the module called by its last
 * name; *at: where this begins. */
static bool is_of(const char *tensor, const char *last, size_t *at)
{
    const size_t n = strlen(last);
    for (const char *p = tensor; (p = strstr(p, last)); p++) {
        if ((p != tensor && p[-1] != '.') || p[n] != '.' || strchr(p + n + 1, '.')) continue;
        *at = (size_t)(p - tensor);
        return true;
    }
    return false;
}

static bool has_digit(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isdigit((unsigned char)text[i])) return true;
    return false;
}

/* The shortest of the places where a module of that last name stands, outside of layers. */
static const char *find_module(const struct pith_checkpoint *c, const char *last, size_t *size)
{
    const char *found = NULL;
    for (size_t i = 0; i < c->count; i++) {
        size_t at;
        const char *name = c->tensors[i].name;
        if (!is_of(name, last, &at) || has_digit(name, at) || strstr(name, "visual") ||
            strstr(name, "vision") || begins(name, "mtp."))
            continue;
        if (found && at >= *size) continue;
        found = name;
        *size = at;
    }
    return found;
}

/* The rest of an architecture's name behind what stands in front of all of them. */
static const char *part_of(const struct place *p, const char *name)
{
    return name && strlen(name) >= p->want_size && strncmp(name, p->names->embed, p->want_size) == 0
               ? name + p->want_size
               : NULL;
}

static bool is_part(const struct place *p, const char *rest)
{
    const struct pith_arch_names *n = p->names;
    const char *const all[] = {n->layers,         n->embed,           n->norm,
                               n->positions,      n->project_in,      n->project_out,
                               n->per_layer_norm, n->per_layer_embed, n->per_layer_project};
    for (size_t i = 0; i < PITH_COUNT(all); i++) {
        const char *part = part_of(p, all[i]);
        if (part && begins(rest, part) && (i == 0 || rest[strlen(part)] == '.')) return true;
    }
    return false;
}

static void to_place(const void *ctx, const char *name, struct pith_str *out)
{
    const struct place *p = ctx;
    const bool of_head = p->head && strncmp(name, p->head, p->head_size) == 0 &&
                         name[p->head_size] == '.';
    if (of_head) {
        pith_str_puts(out, p->names->head);
        pith_str_puts(out, name + p->head_size);
    } else if (strncmp(name, p->is, p->is_size) == 0 && is_part(p, name + p->is_size)) {
        pith_str_append(out, p->names->embed, p->want_size);
        pith_str_puts(out, name + p->is_size);
    } else {
        pith_str_puts(out, name);
    }
}

enum pith_status pith_names_settle(struct pith_checkpoint *c, const struct pith_arch_names *names,
                                   struct pith_error *err)
{
    struct place p = {.names = names, .want_size = parent_size(names->embed)};
    PITH_TRY(pith_checkpoint_rename(c, without_wrappers, NULL, err));
    p.is = find_module(c, names->embed + p.want_size, &p.is_size);
    if (!p.is || (p.is_size == p.want_size && strncmp(p.is, names->embed, p.want_size) == 0))
        return PITH_OK;
    const size_t head_parent = parent_size(names->head);
    size_t at = 0;
    p.head = find_module(c, names->head + head_parent, &at);
    p.head_size = at + strlen(names->head + head_parent);
    /* Names of the old ones are looked at while the new ones are made. */
    return pith_checkpoint_rename(c, to_place, &p, err);
}
