#include "cli/measure.h"

#include <pith/text.h>

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
    o->crlf = m->crlf;
    if (m->convention) o->convention = m->convention;
    if (m->kv) o->kv = m->kv;
    o->context = m->context;
    o->stride = m->stride;
    o->max_tokens = m->max_tokens;
    o->task_limit = m->task_limit;
}

int look_at_texts(const struct common *common, const struct text_list *texts, const char *crlf)
{
    size_t lines = 0;
    if (crlf && strcmp(crlf, "keep") != 0 && strcmp(crlf, "lf") != 0) {
        fprintf(stderr, "pith: --crlf %s: keep or lf\n", crlf);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < texts->count; i++) {
        struct pith_text_look look;
        struct pith_error err = {0};
        if (pith_text_look(texts->item[i], &look, &err) != PITH_OK) return report_failure(&err);
        lines += look.crlf;
    }
    if (lines && !crlf && !common->quiet)
        fprintf(stderr,
                "pith: warning: %zu lines end in CR LF, which a model reads as other text than LF: "
                "kept;\n  --crlf lf changes them, --crlf keep says that it is meant\n",
                lines);
    return EXIT_DONE;
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
