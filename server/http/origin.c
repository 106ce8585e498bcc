/* Pages of other origins, and names that lead to this server behind its back (DNS rebinding). */
#include "server/http/origin.h"

#include "server/http/exchange.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_NAME = 255, LONGEST_LIST = 2048 };

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* --- Host ------------------------------------------------------------------------------------- */

/* The name without its port and its last dot; false: it is none. */
static bool name_of(const char *host, char name[LONGEST_NAME + 1])
{
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    size_t n = end ? (size_t)(end + 1 - host) : strcspn(host, ":");
    if (n > LONGEST_NAME || (host[n] != '\0' && host[n] != ':')) return false;
    if (n > 1 && host[n - 1] == '.') n--;
    memcpy(name, host, n);
    name[n] = '\0';
    return true;
}

static bool is_address(const char *name)
{
    struct in6_addr to;
    char six[LONGEST_NAME + 1];
    const size_t n = strlen(name);
    if (name[0] != '[') return inet_pton(AF_INET, name, &to) == 1;
    if (n < 2 || name[n - 1] != ']') return false;
    memcpy(six, name + 1, n - 2);
    six[n - 2] = '\0';
    six[strcspn(six, "%")] = '\0'; /* its zone */
    return inet_pton(AF_INET6, six, &to) == 1;
}

bool origin_names_us(const char *host, const char *bound, const struct pith_list *allowed)
{
    char name[LONGEST_NAME + 1];
    if (!host) return true;
    if (!name_of(host, name)) return false;
    if (is_address(name) || strcasecmp(name, "localhost") == 0 || strcasecmp(name, bound) == 0)
        return true;
    for (size_t i = 0; i < allowed->count; i++)
        if (strcasecmp(allowed->item[i], name) == 0 || strcasecmp(allowed->item[i], host) == 0)
            return true;
    return false;
}

/* A socket in the file system is out of a page's reach. */
static bool is_local_socket(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info ? info->client_addr : NULL;
    return a && a->sa_family != AF_INET && a->sa_family != AF_INET6;
}

static bool check_host(const struct server *s, struct MHD_Connection *c, struct refusal *r)
{
    const struct server_settings *t = &s->settings;
    const char *host = header(c, "Host");
    if (s->keys || (t->cors && strcmp(t->cors, "*") == 0) || is_local_socket(c) ||
        origin_names_us(host, t->host, &t->allow_hosts))
        return true;
    return refuse(r, 403, NULL,
                  "requests to the name %.200s are not allowed without an API key: --allow-host "
                  "names one",
                  host);
}

/* --- Origin ----------------------------------------------------------------------------------- */

/* Without a key this and the Host keep any page that is visited from the model. */
static bool check_origin(const struct server *s, struct MHD_Connection *c, struct refusal *r)
{
    const char *origin = header(c, "Origin"), *host = header(c, "Host"), *cors = s->settings.cors;
    if (!origin || (cors && (strcmp(cors, "*") == 0 || strcmp(cors, origin) == 0))) return true;
    const char *at = strstr(origin, "://");
    if (at && host && strcasecmp(at + 3, host) == 0) return true;
    return refuse(r, 403, NULL, "requests of pages from %.200s are not allowed: --cors names one",
                  origin);
}

bool origin_check(const struct server *s, struct MHD_Connection *c, struct refusal *r)
{
    return check_host(s, c, r) && check_origin(s, c, r);
}

/* Names of headers, which are sent back as they came. */
static bool is_list(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "!#$%&'*+-.^_`|~, ";
    const size_t n = text ? strspn(text, letters) : 0;
    return n > 0 && n <= LONGEST_LIST && text[n] == '\0';
}

void origin_headers(const struct server *s, struct MHD_Connection *c, struct MHD_Response *response)
{
    static const char usual[] = "Authorization, Content-Type, X-API-Key, API-Key, X-Request-Id";
    const char *cors = s->settings.cors;
    if (!cors) return;
    const char *wanted = header(c, "Access-Control-Request-Headers");
    const char *near = header(c, "Access-Control-Request-Private-Network");
    MHD_add_response_header(response, "Access-Control-Allow-Origin", cors);
    MHD_add_response_header(response, "Vary", "Origin, Access-Control-Request-Headers");
    MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
    MHD_add_response_header(response, "Access-Control-Allow-Headers",
                            is_list(wanted) ? wanted : usual);
    MHD_add_response_header(response, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    if (near && strcasecmp(near, "true") == 0)
        MHD_add_response_header(response, "Access-Control-Allow-Private-Network", "true");
}
