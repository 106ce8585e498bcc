/* From the text of a report to the text of its page; report/ and plan/ make the pages. */
#include <pith/bench.h>
#include <pith/inspect.h>
#include <pith/plan.h>
#include <pith/sensitivity.h>

#include "api/context.h"
#include "plan/page.h"

static enum pith_status make(const char *report, const char *where, pith_page_fn *page, char **html,
                             struct pith_error *err)
{
    struct pith_str out = {0};
    json_t *j = NULL;
    *html = NULL;
    PITH_TRY(pith_json_parse(report, strlen(report), where, &j, err));
    const enum pith_status s = page(j, &out, err);
    json_decref(j);
    return pith_text_give(&out, s, "a page", html, err);
}

enum pith_status pith_compare_html(const char *report, char **html, struct pith_error *err)
{
    return make(report, "report", pith_page_compare, html, err);
}

enum pith_status pith_inspect_html(const char *report, char **html, struct pith_error *err)
{
    return make(report, "report", pith_page_inspect, html, err);
}

enum pith_status pith_plan_html(const char *report, char **html, struct pith_error *err)
{
    return make(report, "the report", pith_page_plan, html, err);
}

enum pith_status pith_sensitivity_html(const char *report, char **html, struct pith_error *err)
{
    return make(report, "the report", pith_page_sensitivity, html, err);
}

enum pith_status pith_traffic_html(const char *report, char **html, struct pith_error *err)
{
    return make(report, "report", pith_page_traffic, html, err);
}
