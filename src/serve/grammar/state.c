#include "serve/grammar/state.h"

#include "base/grow.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Places of one state, at most; bytes of the table of states before it is forgotten, and at which
 * it is given up; local states. */
enum { MOST_PLACES = 2048, MOST_LOCALS = 1 << 17 };
enum { PLACE_WORK = 32 }; /* of a place whose next one is looked up */
#define FULL_BYTES ((size_t)48 << 20)
#define MOST_BYTES ((size_t)256 << 20)

static uint32_t fail(struct pith_states *s, enum pith_status status)
{
    if (s->failed == PITH_OK) s->failed = status;
    return PITH_STATE_DEAD;
}

/* A table of `count` rows of classes: new rows are not looked up yet. */
static bool grow_next(struct pith_states *s, uint32_t **next, size_t *cap, size_t count)
{
    const size_t classes = s->net->classes;
    if (count <= *cap) return true;
    const size_t wanted = *cap ? *cap * 2 : 64;
    if (wanted * classes * sizeof **next > MOST_BYTES) {
        fail(s, PITH_LIMIT);
        return false;
    }
    uint32_t *p = pith_realloc(*next, wanted * classes, sizeof *p);
    if (!p) {
        fail(s, PITH_NOMEM);
        return false;
    }
    memset(p + *cap * classes, 0xff, (wanted - *cap) * classes * sizeof *p);
    *next = p;
    *cap = wanted;
    return true;
}

/* --- local states ----------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Starts a set of nodes; adds a node that something satisfies. */
static void begin(struct pith_states *s)
{
    if (++s->epoch == 0) {
        memset(s->mark, 0, s->net->nodes * sizeof *s->mark);
        s->epoch = 1;
    }
    s->found[s->net->nodes] = 0;
}

static void add_node(struct pith_states *s, uint32_t node, uint32_t most)
{
    if (s->mark[node] == s->epoch || s->net->node[node].need > most) return;
    s->mark[node] = s->epoch;
    s->found[s->found[s->net->nodes]++] = node;
}

static struct pith_local_state describe(const struct pith_net *net, const uint32_t *node, size_t n)
{
    struct pith_local_state l = {.call = PITH_STATE_NEW};
    for (size_t i = 0; i < n; i++) {
        if (net->node[node[i]].need > l.need) l.need = net->node[node[i]].need;
        if (net->node[node[i]].final) l.final = true;
        for (uint32_t e = net->node[node[i]].edge; e; e = net->edge[e].next) {
            l.bytes = l.bytes || net->edge[e].kind == PITH_NET_BYTES;
            l.calls = l.calls || net->edge[e].kind == PITH_NET_CALL;
        }
    }
    return l;
}

static bool matters(const struct pith_net *net, uint32_t node)
{
    if (net->node[node].final) return true;
    for (uint32_t e = net->node[node].edge; e; e = net->edge[e].next)
        if (net->edge[e].kind != PITH_NET_EMPTY) return true;
    return false;
}

static uint32_t intern_local(struct pith_states *s, size_t n)
{
    const uint32_t known = s->locals.count;
    const uint32_t id = pith_intern(&s->locals, s->found, n);
    if (id == PITH_INTERN_NONE) return fail(s, PITH_NOMEM);
    if (id < known) return id;
    if (id >= MOST_LOCALS) return fail(s, PITH_LIMIT);
    struct pith_local_state *p = pith_grow(s->local, id, &s->local_cap, 64, sizeof *p);
    if (!p) return fail(s, PITH_NOMEM);
    s->local = p;
    if (!grow_next(s, &s->local_next, &s->local_next_cap, (size_t)id + 1)) return PITH_STATE_DEAD;
    s->local[id] = describe(s->net, s->found, n);
    return id;
}

/* The local state of the nodes that were added and those that they lead to by nothing; nodes of a
 * larger need than `most` are omitted. */
static uint32_t local_of(struct pith_states *s, uint32_t most)
{
    const struct pith_net *net = s->net;
    uint32_t *count = &s->found[net->nodes], remaining = 0;
    for (uint32_t i = 0; i < *count; i++)
        for (uint32_t e = net->node[s->found[i]].edge; e; e = net->edge[e].next)
            if (net->edge[e].kind == PITH_NET_EMPTY) add_node(s, net->edge[e].to, most);
    for (uint32_t i = 0; i < *count; i++)
        if (matters(net, s->found[i])) s->found[remaining++] = s->found[i];
    if (remaining == 0) return PITH_STATE_DEAD;
    qsort(s->found, remaining, sizeof *s->found, by_number);
    return intern_local(s, remaining);
}

static uint32_t local_next(struct pith_states *s, uint32_t local, uint8_t class)
{
    const struct pith_net *net = s->net;
    uint32_t *known = &s->local_next[(size_t)local * net->classes + class];
    if (*known != PITH_STATE_NEW) return *known;
    const uint8_t byte = net->sample[class];
    size_t n;
    const uint32_t *node = pith_interned_get(&s->locals, local, &n);
    begin(s);
    for (size_t i = 0; i < n && net->used[byte]; i++)
        for (uint32_t e = net->node[node[i]].edge; e; e = net->edge[e].next)
            if (net->edge[e].kind == PITH_NET_BYTES && net->edge[e].lo <= byte &&
                byte <= net->edge[e].hi)
                add_node(s, net->edge[e].to, PITH_NET_DEPTH);
    const uint32_t to = local_of(s, PITH_NET_DEPTH);
    if (s->failed == PITH_OK) s->local_next[(size_t)local * net->classes + class] = to;
    return to;
}

/* A local state without the nodes that need more calls than remain. */
static uint32_t restrict_local(struct pith_states *s, uint32_t local, uint32_t most)
{
    size_t n;
    const uint32_t *node = pith_interned_get(&s->locals, local, &n);
    begin(s);
    for (size_t i = 0; i < n; i++) add_node(s, node[i], most);
    return local_of(s, most);
}

static uint32_t local_start(struct pith_states *s, uint32_t rule)
{
    begin(s);
    add_node(s, s->net->rule[rule].start, PITH_NET_DEPTH);
    return local_of(s, PITH_NET_DEPTH);
}

/* Where a call of a rule by any node of a local state returns to. */
static uint32_t local_back(struct pith_states *s, uint32_t local, uint32_t rule)
{
    const struct pith_net *net = s->net;
    size_t n;
    const uint32_t *node = pith_interned_get(&s->locals, local, &n);
    begin(s);
    for (size_t i = 0; i < n; i++)
        for (uint32_t e = net->node[node[i]].edge; e; e = net->edge[e].next)
            if (net->edge[e].kind == PITH_NET_CALL && net->edge[e].rule == rule)
                add_node(s, net->edge[e].to, PITH_NET_DEPTH);
    return local_of(s, PITH_NET_DEPTH);
}

static bool add_call(struct pith_states *s, uint32_t start, uint32_t back)
{
    struct pith_local_call *p = pith_grow(s->call, s->calls, &s->call_cap, 64, sizeof *p);
    if (!p) {
        fail(s, PITH_NOMEM);
        return false;
    }
    s->call = p;
    s->call[s->calls++] = (struct pith_local_call){start, back};
    return true;
}

/* The rules that a local state calls, each once, in order. NULL when memory is out. */
static uint32_t *called_rules(struct pith_states *s, uint32_t local, size_t *count)
{
    const struct pith_net *net = s->net;
    size_t n, calls = 0, remaining = 0;
    const uint32_t *node = pith_interned_get(&s->locals, local, &n);
    for (size_t i = 0; i < n; i++)
        for (uint32_t e = net->node[node[i]].edge; e; e = net->edge[e].next)
            calls += net->edge[e].kind == PITH_NET_CALL;
    uint32_t *rule = pith_alloc(calls, sizeof *rule);
    if (!rule) return NULL;
    calls = 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t e = net->node[node[i]].edge; e; e = net->edge[e].next)
            if (net->edge[e].kind == PITH_NET_CALL) rule[calls++] = net->edge[e].rule;
    if (calls) qsort(rule, calls, sizeof *rule, by_number);
    for (size_t i = 0; i < calls; i++)
        if (i == 0 || rule[i] != rule[i - 1]) rule[remaining++] = rule[i];
    *count = remaining;
    return rule;
}

static void find_calls(struct pith_states *s, uint32_t local)
{
    size_t count = 0;
    uint32_t *rule = called_rules(s, local, &count);
    if (!rule) {
        fail(s, PITH_NOMEM);
        return;
    }
    const uint32_t first = (uint32_t)s->calls;
    for (size_t i = 0; i < count && s->failed == PITH_OK; i++) {
        const uint32_t start = local_start(s, rule[i]), back = local_back(s, local, rule[i]);
        if (start != PITH_STATE_DEAD && back != PITH_STATE_DEAD) add_call(s, start, back);
    }
    pith_free(rule);
    s->local[local].call_count = (uint32_t)s->calls - first;
    s->local[local].call = first;
}

/* --- places ----------------------------------------------------------------------------------- */

uint32_t pith_states_depth(const struct pith_states *s, uint32_t stack)
{
    size_t n;
    return stack == 0 ? 0 : pith_interned_get(&s->stacks, stack, &n)[2];
}

static uint32_t push(struct pith_states *s, uint32_t back, uint32_t stack)
{
    const uint32_t frame[3] = {back, stack, pith_states_depth(s, stack) + 1};
    const uint32_t id = pith_intern(&s->stacks, frame, 3);
    return id == PITH_INTERN_NONE ? fail(s, PITH_NOMEM) : id;
}

static void add_place(struct pith_states *s, uint32_t local, uint32_t stack)
{
    const uint32_t left = PITH_NET_DEPTH - pith_states_depth(s, stack);
    if (local != PITH_STATE_DEAD && s->local[local].need > left)
        local = restrict_local(s, local, left);
    if (local == PITH_STATE_DEAD || s->failed != PITH_OK) return;
    for (size_t i = 0; i < s->places; i++)
        if (s->place[i].local == local && s->place[i].stack == stack) return;
    const bool full = s->places == MOST_PLACES;
    struct pith_place *p = full ? NULL
                                : pith_grow(s->place, s->places, &s->place_cap, 64, sizeof *p);
    if (!p) {
        fail(s, full ? PITH_LIMIT : PITH_NOMEM);
        return;
    }
    s->place = p;
    s->place[s->places++] = (struct pith_place){local, stack};
}

/* A rule that ends returns; what was the last thing of a text ends it. */
static void return_from(struct pith_states *s, uint32_t stack)
{
    size_t n;
    if (stack == 0) {
        s->ended = true;
        return;
    }
    const uint32_t *frame = pith_interned_get(&s->stacks, stack, &n);
    add_place(s, frame[0], frame[1]);
}

/* Calls; where nothing follows a call, it takes its caller's place. */
static void call_from(struct pith_states *s, struct pith_place at)
{
    if (s->local[at.local].call == PITH_STATE_NEW) find_calls(s, at.local);
    for (uint32_t i = 0; i < s->local[at.local].call_count && s->failed == PITH_OK; i++) {
        const struct pith_local_call call = s->call[s->local[at.local].call + i];
        const struct pith_local_state *back = &s->local[call.back];
        uint32_t stack = at.stack;
        if (back->bytes || back->calls) {
            if (pith_states_depth(s, stack) == PITH_NET_DEPTH) continue;
            stack = push(s, call.back, at.stack);
        }
        if (stack != PITH_STATE_DEAD) add_place(s, call.start, stack);
    }
}

static int by_place(const void *a, const void *b)
{
    const struct pith_place *x = a, *y = b;
    if (x->local != y->local) return x->local < y->local ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static uint32_t intern_set(struct pith_states *s)
{
    uint32_t seq[2 * MOST_PLACES + 1];
    size_t n = 0;
    if (s->places) qsort(s->place, s->places, sizeof *s->place, by_place);
    seq[n++] = s->ended;
    for (size_t i = 0; i < s->places; i++) {
        seq[n++] = s->place[i].local;
        seq[n++] = s->place[i].stack;
    }
    const uint32_t id = pith_intern(&s->sets, seq, n);
    if (id == PITH_INTERN_NONE) return fail(s, PITH_NOMEM);
    return grow_next(s, &s->next, &s->next_cap, (size_t)id + 1) ? id : PITH_STATE_DEAD;
}

/* The state of the places that were added and all that they lead to without a byte. */
static uint32_t settle(struct pith_states *s)
{
    size_t remaining = 0;
    for (size_t i = 0; i < s->places && s->failed == PITH_OK; i++) {
        const struct pith_place at = s->place[i];
        if (s->local[at.local].final) return_from(s, at.stack);
        if (s->local[at.local].calls) call_from(s, at);
    }
    if (s->failed != PITH_OK) return PITH_STATE_DEAD;
    for (size_t i = 0; i < s->places; i++)
        if (s->local[s->place[i].local].bytes) s->place[remaining++] = s->place[i];
    s->places = remaining;
    return remaining || s->ended ? intern_set(s) : PITH_STATE_DEAD;
}

static void begin_set(struct pith_states *s)
{
    s->places = 0;
    s->ended = false;
}

uint32_t pith_states_start(struct pith_states *s, uint32_t rule)
{
    begin_set(s);
    add_place(s, local_start(s, rule), 0);
    return settle(s);
}

uint32_t pith_states_at(struct pith_states *s, uint32_t local, uint32_t stack)
{
    begin_set(s);
    add_place(s, local, stack);
    return s->failed == PITH_OK && s->places ? intern_set(s) : PITH_STATE_DEAD;
}

uint32_t pith_states_back(struct pith_states *s, uint32_t stack)
{
    begin_set(s);
    return_from(s, stack);
    return settle(s);
}

const uint32_t *pith_states_places(const struct pith_states *s, uint32_t state, size_t *count)
{
    size_t n;
    const uint32_t *seq = pith_interned_get(&s->sets, state, &n);
    *count = n / 2;
    return seq + 1;
}

bool pith_states_ended(const struct pith_states *s, uint32_t state)
{
    size_t n;
    return pith_interned_get(&s->sets, state, &n)[0];
}

uint32_t pith_states_find(struct pith_states *s, uint32_t state, uint8_t byte)
{
    const uint8_t class = s->net->class_of[byte];
    size_t count;
    const uint32_t *place = pith_states_places(s, state, &count);
    if (s->failed != PITH_OK) return PITH_STATE_DEAD;
    s->work += PLACE_WORK * (count + 1);
    begin_set(s);
    for (size_t i = 0; i < count; i++)
        add_place(s, local_next(s, place[2 * i], class), place[2 * i + 1]);
    const uint32_t to = settle(s);
    if (s->failed == PITH_OK) s->next[(size_t)state * s->net->classes + class] = to;
    return to;
}

/* --- the whole -------------------------------------------------------------------------------- */

enum pith_status pith_states_init(struct pith_states *s, const struct pith_net *net,
                                  struct pith_error *err)
{
    static const uint32_t bottom[3] = {PITH_STATE_DEAD, 0, 0};
    *s = (struct pith_states){.net = net};
    s->mark = pith_zalloc(net->nodes, sizeof *s->mark);
    s->found = pith_alloc((size_t)net->nodes + 1, sizeof *s->found);
    if (s->mark && s->found && pith_intern(&s->stacks, bottom, 3) == 0) return PITH_OK;
    pith_states_free(s);
    return pith_fail_nomem(err, "grammar");
}

void pith_states_free(struct pith_states *s)
{
    pith_interned_free(&s->locals);
    pith_interned_free(&s->stacks);
    pith_interned_free(&s->sets);
    pith_free(s->local);
    pith_free(s->local_next);
    pith_free(s->call);
    pith_free(s->next);
    pith_free(s->mark);
    pith_free(s->found);
    pith_free(s->place);
    *s = (struct pith_states){0};
}

size_t pith_states_size(const struct pith_states *s)
{
    const size_t rows = s->local_next_cap + s->next_cap;
    return pith_interned_size(&s->locals) + pith_interned_size(&s->stacks) +
           pith_interned_size(&s->sets) + rows * s->net->classes * sizeof *s->next +
           s->local_cap * sizeof *s->local + s->call_cap * sizeof *s->call +
           (size_t)s->net->nodes * 2 * sizeof *s->mark;
}

bool pith_states_full(const struct pith_states *s)
{
    return s->next_cap * s->net->classes * sizeof *s->next + pith_interned_size(&s->sets) +
               pith_interned_size(&s->stacks) >
           FULL_BYTES;
}

/* Numbers that are put down to be taken up in order. */
struct notes {
    uint32_t *number;
    size_t count, cap;
    bool failed;
};

static void note(struct notes *t, uint32_t number)
{
    uint32_t *p = t->failed ? NULL : pith_grow(t->number, t->count, &t->cap, 256, sizeof *p);
    t->failed = !p;
    if (!p) return;
    t->number = p;
    p[t->count++] = number;
}

/* A state without numbers of stacks: whether it may end, how many places, and of each the local
 * state, the depth and what is on the stack, from its top. */
static void note_state(const struct pith_states *s, uint32_t state, struct notes *t)
{
    size_t count, n;
    const uint32_t *place = pith_states_places(s, state, &count);
    note(t, pith_states_ended(s, state));
    note(t, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        uint32_t stack = place[2 * i + 1];
        note(t, place[2 * i]);
        note(t, pith_states_depth(s, stack));
        while (stack) {
            const uint32_t *frame = pith_interned_get(&s->stacks, stack, &n);
            note(t, frame[0]);
            stack = frame[1];
        }
    }
}

static uint32_t state_of_notes(struct pith_states *s, const uint32_t **at)
{
    begin_set(s);
    s->ended = *(*at)++;
    for (uint32_t left = *(*at)++; left; left--) {
        const uint32_t local = *(*at)++, depth = *(*at)++;
        uint32_t stack = 0;
        for (uint32_t i = depth; i-- > 0 && stack != PITH_STATE_DEAD;)
            stack = push(s, (*at)[i], stack);
        *at += depth;
        if (stack != PITH_STATE_DEAD) add_place(s, local, stack);
    }
    return s->failed == PITH_OK ? intern_set(s) : PITH_STATE_DEAD;
}

void pith_states_forget(struct pith_states *s, uint32_t **keep, size_t n)
{
    static const uint32_t bottom[3] = {PITH_STATE_DEAD, 0, 0};
    struct notes t = {0};
    for (size_t i = 0; i < n; i++) note_state(s, *keep[i], &t);
    if (!t.failed) {
        pith_interned_free(&s->stacks);
        pith_interned_free(&s->sets);
        pith_free(s->next);
        s->next = NULL;
        s->next_cap = 0;
        if (pith_intern(&s->stacks, bottom, 3) != 0) fail(s, PITH_NOMEM);
        const uint32_t *at = t.number;
        for (size_t i = 0; i < n; i++) *keep[i] = state_of_notes(s, &at);
    }
    pith_free(t.number);
}
