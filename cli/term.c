/* What a person sees while waiting, and the message when something fails. */
#include "cli/command.h"

#include <pith/report.h>
#include "cli/interrupt.h"
#include "cli/wrap.h"

#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void format_bytes(double bytes, char text[32])
{
    pith_bytes_text(bytes, text, 32);
}

void format_seconds(double s, char text[32])
{
    pith_seconds_text(s, text, 32);
}

static bool wants_color(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

const char *bold(void)
{
    return wants_color(STDOUT_FILENO) ? "\033[1m" : "";
}

const char *plain(void)
{
    return wants_color(STDOUT_FILENO) ? "\033[0m" : "";
}

/* Whether what the command leaves behind can be gone on with. */
static bool resumes(const struct common *common)
{
    const struct command *c = common->command;
    if (given(common, "rehearse")) return false;
    for (size_t i = 0; c && i < c->option_count; i++)
        if (strcmp(c->options[i].row->name, "resume") == 0) return true;
    return false;
}

void meter_start(struct meter *m, const struct common *common)
{
    if (resumes(common)) interrupt_resumable();
    const char *term = getenv("TERM");
    *m = (struct meter){
        .quiet = common->quiet,
        .terminal = isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0),
        .unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
        .started = now(),
        .last_done = HUGE_VAL,
    };
}

/* Back to the first column of the line that was drawn last, which a terminal made narrower since
 * then may have broken into several. */
static void rewind_line(const struct meter *m, size_t width)
{
    const size_t more = m->drawn > 0 && width > 0 ? (m->drawn - 1) / width : 0;
    fputc('\r', stderr);
    if (more) fprintf(stderr, "\033[%zuA", more);
    fputs("\033[J", stderr);
}

/* "block 3 of 32: gptq   45% |#####    | 1 min 02 s": within the terminal, whatever its width is
 * now; the bar gives way first, then what is at work, then the times. */
static void draw_bar(struct meter *m, double fraction, const char *left)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    enum { CELLS = 24, FEWEST = 6, WHAT = 34, PERCENT = 5 };
    const size_t width = terminal_width(STDERR_FILENO), most = width > 1 ? width - 1 : 1;
    size_t room = most, times = strlen(left), what = WHAT, cells = CELLS;
    room = room > PERCENT ? room - PERCENT : 0;
    if (times + 1 > room) times = 0;
    room -= times ? times + 1 : 0;
    if (what + cells + 3 > room) cells = room > what + FEWEST + 3 ? room - what - 3 : 0;
    if (cells == 0 && room >= FEWEST + 3 + WHAT / 2) cells = FEWEST;
    if (what + (cells ? cells + 3 : 0) > room) what = room - (cells ? cells + 3 : 0);
    rewind_line(m, width);
    const size_t bytes = pith_text_fitting(m->what, what);
    char shown[sizeof m->what];
    snprintf(shown, sizeof shown, "%.*s", (int)bytes, m->what);
    fprintf(stderr, "%s%*s %3d%%", shown, (int)(what - pith_text_columns(shown)), "",
            (int)(fraction * 100));
    const size_t filled = (size_t)(fraction * (double)cells * 8);
    if (cells) fputs(" |", stderr);
    for (size_t i = 0; i < cells; i++) {
        const size_t part = filled > i * 8 ? filled - i * 8 : 0;
        if (m->unicode) fputs(part >= 8 ? "█" : eighths[part], stderr);
        else fputc(part >= 4 ? '#' : ' ', stderr);
    }
    if (cells) fputc('|', stderr);
    if (times) fprintf(stderr, " %s", left);
    fflush(stderr);
    m->drawn = what + PERCENT + (cells ? cells + 3 : 0) + (times ? times + 1 : 0);
}

enum { RECENT = 20 }; /* s */

static int on_progress(void *ctx, const char *what, double done, double total)
{
    struct meter *m = ctx;
    const double t = now();
    const double every = m->terminal ? 1.0 / 6 : 10;
    if (interrupted()) return 1;
    if (done < m->last_done) { /* the first step, or a new phase; a resumed run starts half-way */
        m->since = m->next = t;
        m->since_done = m->next_done = done;
    } else if (t - m->next >= RECENT && done > m->next_done) {
        m->since = m->next;
        m->since_done = m->next_done;
        m->next = t;
        m->next_done = done;
    }
    m->last_done = done;
    const bool full = done >= total;
    if (m->quiet || (m->shown && t - m->last < every && (!full || m->full))) return 0;
    if (!m->terminal && !m->shown && t - m->started < 2) return 0;
    snprintf(m->what, sizeof m->what, "%s", what);
    const double fraction = total > 0 ? fmin(done / total, 1) : 0;
    char left[32] = "", elapsed[32], text[96];
    format_seconds(t - m->started, elapsed);
    const double part = done - m->since_done;
    if (part > 0 && !full) format_seconds((t - m->since) * (total - done) / part, left);
    snprintf(text, sizeof text, "%s%s%s%s", elapsed, left[0] ? ", " : "", left,
             left[0] ? " left" : "");
    if (m->terminal) draw_bar(m, fraction, text);
    else fprintf(stderr, "%s: %d%% (%s)\n", m->what, (int)(fraction * 100), text);
    m->shown = true;
    m->full = full;
    m->last = t;
    return 0;
}

struct pith_progress meter_progress(struct meter *m)
{
    return (struct pith_progress){on_progress, m};
}

void meter_end(struct meter *m)
{
    if (m->shown && m->terminal) rewind_line(m, terminal_width(STDERR_FILENO));
    m->drawn = 0;
    fflush(stderr);
}

/* Any call of the library ends soon after Ctrl-C, whether or not it has a meter. */
static int on_beat(void *ctx, const char *what, double done, double total)
{
    (void)ctx, (void)what, (void)done, (void)total;
    return interrupted();
}

static void on_log(void *ctx, const char *line)
{
    static const char time[] = "time: ";
    const struct common *common = ctx;
    const size_t n = sizeof time - 1;
    if (strncmp(line, time, n) == 0) {
        say(common, "%s", line + n);
    } else if (!common->quiet) {
        char *named = name_options(common, line);
        fprintf(stderr, "warning: %s\n", named ? named : line);
        pith_text_free(named);
    }
}

int make_context(const struct common *common, struct pith_context **out)
{
    struct pith_error err = common->model_missing;
    if (common->threads > 1024)
        return usage_failure(common, "--threads %zu: at most 1024", common->threads);
    if (err.status != PITH_OK) return report_failure(common, &err);
    if (pith_context_new((unsigned)common->threads, common->cpu, out, &err) == PITH_OK) {
        const struct pith_progress beat = {.fn = on_beat};
        pith_context_listen(*out, beat, on_log, (void *)(uintptr_t)common);
        return join_ranks(common, out);
    }
    return err.status == PITH_ARG ? report_usage(common, &err) : report_failure(common, &err);
}

int choose_mode(const struct common *common, struct pith_context **context, const char *mode)
{
    struct pith_error err = {0};
    if (pith_context_set_mode(*context, mode, &err) == PITH_OK) return EXIT_DONE;
    pith_context_free(context);
    return report_usage(common, &err);
}
