/* serve/clients.h: who is next: each client's share of what was computed lately, so that one
 * with many requests does not keep out one with few (virtual token counters, Sheng et al. 2024). */
#ifndef PITH_SERVE_CLIENTS_H
#define PITH_SERVE_CLIENTS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct pith_client {
    uint64_t name;
    double served;  /* tokens */
    size_t tickets; /* that are not over */
};
/* Start with {0}. */
struct pith_clients {
    struct pith_client *client; /* [count]: those with tickets */
    size_t count, room;
};
/* One more ticket of a client, who begins with no less than the least served has; one less. */
enum pith_status pith_clients_enter(struct pith_clients *c, uint64_t name, struct pith_error *err);
void pith_clients_leave(struct pith_clients *c, uint64_t name);
void pith_clients_serve(struct pith_clients *c, uint64_t name, double tokens);
double pith_clients_served(const struct pith_clients *c, uint64_t name);
void pith_clients_free(struct pith_clients *c);

#endif
