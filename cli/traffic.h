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

/* What is measured when nothing is said. */
void traffic_defaults(struct traffic_settings *s);
/* Measures the server that s->o.url names; prompt and gen are texts of those options, NULL: the
 * defaults. The exit status. */
int traffic_run(const struct common *common, struct traffic_settings *s, const char *prompt,
                const char *gen);

#endif
