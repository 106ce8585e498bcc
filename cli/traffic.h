/* cli/traffic.h: pith bench --serve. */
#ifndef PITH_CLI_TRAFFIC_H
#define PITH_CLI_TRAFFIC_H

#include "cli/command.h"

#include <pith/bench.h>

struct traffic_settings {
    struct pith_traffic_options o;
    bool ignore_end;
    const char *key_file, *page;
    char key[4096]; /* of the file */
};

/* The options of pith bench --serve, for a table of options; AT(): where a member of the settings
 * is. */
#define TRAFFIC_OPTIONS                                                                            \
    OPTION(serve, AT(traffic.o.url)), OPTION(clients, AT(traffic.o.clients)),                      \
        OPTION(rate_traffic, AT(traffic.o.rates)), OPTION(arrivals, AT(traffic.o.arrivals)),       \
        OPTION(trace, AT(traffic.o.trace)), OPTION(requests, AT(traffic.o.requests)),              \
        OPTION(duration, AT(traffic.o.duration)), OPTION(warmup, AT(traffic.o.warmup)),            \
        OPTION(endpoint, AT(traffic.o.endpoint)), OPTION(form, AT(traffic.o.form)),                \
        OPTION(prefix, AT(traffic.o.prefix)), OPTION(text_traffic, AT(traffic.o.text)),            \
        OPTION(ignore_eos, AT(traffic.ignore_end)),                                                \
        OPTION(temperature_traffic, AT(traffic.o.temperature)), OPTION(body, AT(traffic.o.more)),  \
        OPTION(limit, AT(traffic.o.limit)), OPTION(timeout, AT(traffic.o.timeout)),                \
        OPTION(name_traffic, AT(traffic.o.name)),                                                  \
        OPTION(api_key_file_traffic, AT(traffic.key_file)), OPTION(tls_ca, AT(traffic.o.ca_file)), \
        OPTION(out_traffic, AT(traffic.page))

/* The defaults of a measurement. */
void traffic_defaults(struct traffic_settings *s);
/* Measures the server that s->o.url names; prompt and gen are texts of those options, NULL: the
 * defaults. The exit status. */
int traffic_run(const struct common *common, struct traffic_settings *s, const char *prompt,
                const char *gen);

#endif
