#include "serve/clients.h"

#include "base/grow.h"
#include "base/mem.h"

static struct pith_client *find(const struct pith_clients *c, uint64_t name)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->client[i].name == name) return &c->client[i];
    return NULL;
}

enum pith_status pith_clients_enter(struct pith_clients *c, uint64_t name, struct pith_error *err)
{
    struct pith_client *k = find(c, name), made = {.name = name, .tickets = 1};
    if (k) {
        k->tickets++;
        return PITH_OK;
    }
    void *more = pith_grow(c->client, c->count, &c->room, 16, sizeof *c->client);
    if (!more) return pith_fail_nomem(err, "the clients");
    c->client = more;
    for (size_t i = 0; i < c->count; i++)
        if (i == 0 || c->client[i].served < made.served) made.served = c->client[i].served;
    c->client[c->count++] = made;
    return PITH_OK;
}

void pith_clients_leave(struct pith_clients *c, uint64_t name)
{
    struct pith_client *k = find(c, name);
    if (k && --k->tickets == 0) *k = c->client[--c->count];
}

void pith_clients_serve(struct pith_clients *c, uint64_t name, double tokens)
{
    struct pith_client *k = find(c, name);
    if (k) k->served += tokens;
}

double pith_clients_served(const struct pith_clients *c, uint64_t name)
{
    const struct pith_client *k = find(c, name);
    return k ? k->served : 0;
}

void pith_clients_free(struct pith_clients *c)
{
    pith_free(c->client);
    *c = (struct pith_clients){0};
}
