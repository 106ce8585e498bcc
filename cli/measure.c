#include "cli/measure.h"
#include "cli/output.h"
#include "cli/wrap.h"

#include <pith/inspect.h>
#include <pith/text.h>

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int measure_check(const struct common *common, const struct measure_settings *m)
{
    struct pith_eval_options o;
    struct pith_error err = {0};
    if (m->texts.count + m->tasks.count == 0 && !m->prompts)
        return usage_failure(common, "nothing to measure: give --text FILE or --tasks FILE");
    const int rc = check_given(common);
    if (rc != EXIT_DONE) return rc;
    measure_fill(m, &o);
    return pith_eval_check(&o, &err) == PITH_OK ? EXIT_DONE : report_usage(common, &err);
}

int check_format(const struct common *common, const char *format)
{
    struct pith_error err = {0};
    char *text = NULL;
    if (!format) return EXIT_DONE;
    const int rc = check_given(common);
    if (rc != EXIT_DONE) return rc;
    const enum pith_status s =
        pith_table_render("{\"columns\": [], \"rows\": []}", format, &text, &err);
    pith_text_free(text);
    return s == PITH_OK ? EXIT_DONE : report_usage(common, &err);
}

void measure_fill(const struct measure_settings *m, struct pith_eval_options *o)
{
    pith_eval_defaults(o);
    o->texts = as_list(&m->texts);
    o->tasks = as_list(&m->tasks);
    o->crlf = m->crlf;
    o->prompts = m->prompts;
    if (m->convention) o->convention = m->convention;
    if (m->kvs.count == 1) o->kv = m->kvs.item[0];
    if (m->kvs.count > 1) o->caches = as_list(&m->kvs);
    o->kv_layers = as_list(&m->kv_layers);
    o->depth = m->depth;
    o->attn = m->attn;
    o->context = m->context;
    o->stride = m->stride;
    o->max_tokens = m->max_tokens;
    o->task_limit = m->task_limit;
    o->shots = m->shots;
    o->run_code = m->run_code;
    o->chat = m->chat;
    o->chat_template = m->chat_template;
    o->task_length = m->length;
    o->task_seed = m->seed;
}

int look_at_texts(const struct common *common, const struct text_list *texts, const char *crlf)
{
    size_t lines = 0;
    if (crlf && !pith_name_equal(crlf, "keep") && !pith_name_equal(crlf, "lf"))
        return usage_failure(common, "--crlf %s: keep or lf", crlf);
    for (size_t i = 0; i < texts->count; i++) {
        struct pith_text_look look;
        struct pith_error err = {0};
        if (pith_text_look(texts->item[i], &look, &err) != PITH_OK)
            return report_failure(common, &err);
        lines += look.crlf;
    }
    if (lines && !crlf && !common->quiet)
        fprintf(stderr,
                "pith: warning: %zu lines end in CR LF, which a model reads as other text than LF: "
                "unchanged;\n  --crlf lf converts them, --crlf keep suppresses this warning\n",
                lines);
    return EXIT_DONE;
}

/* The command as it could be typed again; empty where the system does not show it. */
static void command_line(char *text, size_t size)
{
    static const char plain_ones[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789-_./:,=+%@";
    char args[4096];
    size_t used = 0;
    FILE *f = fopen("/proc/self/cmdline", "re");
    const size_t n = f ? fread(args, 1, sizeof args - 1, f) : 0;
    if (f) fclose(f);
    args[n] = '\0';
    text[0] = '\0';
    for (size_t at = 0; at < n && used + 8 < size; at += strlen(args + at) + 1) {
        const char *arg = args + at;
        if (at == 0 && strrchr(arg, '/')) arg = strrchr(arg, '/') + 1;
        const bool bare = *arg && strspn(arg, plain_ones) == strlen(arg);
        const int more =
            snprintf(text + used, size - used, bare ? "%s%s" : "%s'%s'", at ? " " : "", arg);
        if (more < 0) return;
        used += (size_t)more;
    }
}

void find_making(struct page_making *m)
{
    const time_t now = time(NULL);
    struct tm utc;
    m->date[0] = '\0';
    if (gmtime_r(&now, &utc)) strftime(m->date, sizeof m->date, "%Y-%m-%d %H:%M UTC", &utc);
    snprintf(m->version, sizeof m->version, "pith %s", pith_version());
    command_line(m->command, sizeof m->command);
}

int page_check(const struct common *common, const char *path)
{
    struct pith_error err;
    return !path || can_write(path, &err) ? EXIT_DONE : report_failure(common, &err);
}

int page_write(const struct common *common, const char *path, char *html)
{
    struct pith_error err;
    const bool good = write_whole(path, html, strlen(html), &err);
    pith_text_free(html);
    if (!good) return report_failure(common, &err);
    say(common, "%s: the page is written", path);
    return EXIT_DONE;
}
