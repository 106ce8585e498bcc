/* server/http/listen.h: where requests come in. */
#ifndef PITH_SERVER_LISTEN_H
#define PITH_SERVER_LISTEN_H

#include <pith/status.h>

#include <stdbool.h>
#include <stddef.h>

/* A listening socket for host and port (0: any free one), or the one that systemd hands over
 * (LISTEN_PID, LISTEN_FDS), which wins. PITH_IO: no such address, or it is taken; PITH_ARG: systemd
 * hands over several. */
enum pith_status listen_open(const char *host, unsigned port, int *out, struct pith_error *err);
/* "127.0.0.1:8080" as the socket has it; *reachable: whether other machines can reach it. */
void listen_address(int socket, char *text, size_t room, bool *reachable);

#endif
