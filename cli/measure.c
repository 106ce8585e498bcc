#include "cli/measure.h"

#include <stdio.h>
#include <string.h>

int measure_check(const struct measure_settings *m)
{
    struct pith_error err = {0};
    if (pith_kv_check(m->kv, &err) != PITH_OK) {
        fprintf(stderr, "pith: --kv: %s\n", err.text);
        return EXIT_USAGE;
    }
    if (m->texts.count + m->tasks.count == 0) {
        fprintf(stderr, "pith: nothing to measure: give --text FILE or --tasks FILE\n");
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

void measure_fill(const struct measure_settings *m, struct pith_eval_options *o)
{
    pith_eval_defaults(o);
    o->texts = as_list(&m->texts);
    o->tasks = as_list(&m->tasks);
    if (m->convention) o->convention = m->convention;
    if (m->kv) o->kv = m->kv;
    o->context = m->context;
    o->stride = m->stride;
    o->max_tokens = m->max_tokens;
    o->task_limit = m->task_limit;
}

void give_report(const struct common *common, const char *report, void (*print)(const json_t *j))
{
    if (common->json) {
        printf("%s\n", report);
        return;
    }
    json_t *j = json_loads(report, 0, NULL);
    if (j) print(j);
    json_decref(j);
}

double json_get(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

const char *json_text(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    return text ? text : "";
}
