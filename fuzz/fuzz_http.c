/* Any bytes on a connection of the server, before a service without a model: what comes back is an
 * answer of HTTP, and whatever came before, the server goes on: it answers /health, and no request
 * of a client that left runs on. */
#include "server/server.h"
#include "unit/server/fake.c" /* before the library's, as in the tests */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATIENCE = 10000, GLANCE = 2 }; /* milliseconds */

static struct server_settings settings;
static struct server *server;
static struct pith_service *service;
static unsigned port;

static void must(bool good)
{
    if (!good) abort();
}

static void begin(void)
{
    static const char *const named[] = {"a"}; /* by the seeds */
    server_defaults(&settings);
    settings.allow_hosts = (struct pith_list){named, 1};
    settings.port = 0;
    settings.name = "fake";
    settings.model = "models/probe";
    settings.cors = "http://a";
    settings.connections = 8192;
    settings.body = 1 << 16;
    must(server_open(&settings, &server, NULL) == PITH_OK);
    must(pith_service_open(NULL, NULL, &service, NULL) == PITH_OK);
    server_begin(server, service, NULL);
    port = (unsigned)atoi(strrchr(server_address(server), ':') + 1);
}

/* Each from an address of its own: ports of one address run out, as closed connections keep them.
 */
static int dial(void)
{
    static uint32_t serial;
    struct sockaddr_in to = {.sin_family = AF_INET}, from = to;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)port);
    from.sin_addr.s_addr = htonl(0x7f010001u + serial++ % 0xf00000u);
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    must(s >= 0 && bind(s, (const struct sockaddr *)&from, sizeof from) == 0);
    must(connect(s, (const struct sockaddr *)&to, sizeof to) == 0);
    return s;
}

/* The begin of what comes back until nothing has come for that long, or the other side closes. */
static void hear(int s, int wait, char *text, size_t room)
{
    char more[4096];
    size_t size = 0;
    struct pollfd p = {.fd = s, .events = POLLIN};
    for (int rounds = 0; rounds < 64 && poll(&p, 1, wait) > 0; rounds++) {
        const ssize_t n = recv(s, more, sizeof more, 0);
        if (n <= 0) break;
        for (ssize_t i = 0; i < n && size + 1 < room; i++) text[size++] = more[i];
    }
    text[size] = '\0';
}

static void check_alive(void)
{
    static const char ask[] = "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    char text[64];
    const int s = dial();
    must(send(s, ask, sizeof ask - 1, MSG_NOSIGNAL) == (ssize_t)sizeof ask - 1);
    hear(s, PATIENCE, text, sizeof text);
    close(s);
    must(strncmp(text, "HTTP/1.1 200 ", 13) == 0);
    for (int left = PATIENCE; fake_running() > 0; left--) {
        must(left > 0);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned serial;
    char text[64];
    if (!server) begin();
    const int s = dial();
    if (size > 0) (void)send(s, data, size, MSG_NOSIGNAL);
    hear(s, GLANCE, text, sizeof text);
    close(s);
    must(!text[0] || strncmp(text, "HTTP/1.", 7) == 0);
    if (serial++ % 256 == 0) check_alive();
    return 0;
}
