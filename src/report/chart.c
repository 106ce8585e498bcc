#include "report/chart.h"

#include "base/mem.h"
#include "report/axis.h"
#include "report/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sizes in SVG units, which are CSS pixels when the page is wide enough. */
enum {
    WIDTH = 620,
    HISTOGRAM_WIDTH = 380,
    CHAR_WIDTH = 9, /* of the larger text that a narrow screen gets, as LABEL_HEIGHT is */
    ROW = 30,
    SCATTER_HEIGHT = 400,
    MARGIN_LEFT = 86,
    MARGIN_RIGHT = 24,
    MARGIN_TOP = 16,
    MARGIN_BOTTOM = 56,
    LABEL_HEIGHT = 18,
    LABEL_MAX = 34
};

void pith_html_escape(struct pith_str *out, const char *text)
{
    struct pith_str clean = {0};
    pith_clean_append(&clean, text, strlen(text));
    if (clean.failed) out->failed = true;
    for (const char *p = pith_str_text(&clean); *p; p++) {
        switch (*p) {
        case '&': pith_str_puts(out, "&amp;"); break;
        case '<': pith_str_puts(out, "&lt;"); break;
        case '>': pith_str_puts(out, "&gt;"); break;
        case '"': pith_str_puts(out, "&quot;"); break;
        case '\'': pith_str_puts(out, "&#39;"); break;
        default: pith_str_putc(out, *p);
        }
    }
    pith_str_free(&clean);
}

void pith_html_escape_lines(struct pith_str *out, const char *text)
{
    struct pith_str part = {0};
    for (const char *p = text;; p++) {
        if (*p && *p != '\n' && *p != '\t') {
            pith_str_putc(&part, *p);
            continue;
        }
        pith_html_escape(out, pith_str_text(&part));
        pith_str_clear(&part);
        if (!*p) break;
        pith_str_puts(out, *p == '\t' ? " " : "\xe2\x86\xb5");
    }
    if (part.failed) out->failed = true;
    pith_str_free(&part);
}

static bool has_interval(const struct pith_chart *c, const struct pith_chart_point *p)
{
    return isfinite(p->lo) && isfinite(p->hi) && p->lo < p->hi && (!c->y_log || p->lo > 0);
}

static bool drawable(const struct pith_chart *c, const struct pith_chart_point *p)
{
    if (!isfinite(p->y) || (c->kind != PITH_CHART_BARS && !isfinite(p->x))) return false;
    if (c->kind == PITH_CHART_BARS) return true;
    if (c->kind == PITH_CHART_HISTOGRAM && !(p->hi > p->x)) return false;
    return !(c->x_log && p->x <= 0) && !(c->y_log && p->y <= 0);
}

size_t pith_chart_drawable(const struct pith_chart *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) n += drawable(c, &c->points[i]);
    return n;
}

/* A text element; long labels are cut to fit, the whole stands in the point's <title>. */
static void put_text(struct pith_str *out, double x, double y, const char *anchor,
                     const char *style, const char *text)
{
    pith_str_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y,
                    anchor, style);
    pith_html_escape(out, text);
    pith_str_puts(out, "</text>\n");
}

static void cut_label(const char *label, char cut[LABEL_MAX * 4 + 8])
{
    size_t n = 0, chars = 0;
    for (; label[n] && n < LABEL_MAX * 4; n++) {
        const bool starts = ((unsigned char)label[n] & 0xc0) != 0x80;
        if (starts && chars++ == LABEL_MAX) break;
    }
    memcpy(cut, label, n);
    strcpy(cut + n, label[n] ? "\xe2\x80\xa6" : "");
}

static void put_hover(struct pith_str *out, const struct pith_chart *c,
                      const struct pith_chart_point *p)
{
    pith_str_puts(out, "<title>");
    pith_html_escape(out, p->label);
    if (c->kind == PITH_CHART_SCATTER) pith_str_printf(out, ": %.4g,", p->x);
    else pith_str_putc(out, ':');
    pith_str_printf(out, " %.4g", p->y);
    if (has_interval(c, p)) pith_str_printf(out, " (%.4g to %.4g)", p->lo, p->hi);
    pith_str_puts(out, "</title>");
}

static void open_svg(struct pith_str *out, const struct pith_chart *c, int width, double height)
{
    pith_str_printf(out, "<svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"", width, height);
    pith_html_escape(out, c->title);
    pith_str_puts(out, "\">\n");
}

static void put_line(struct pith_str *out, const char *style, double x1, double y1, double x2,
                     double y2)
{
    pith_str_printf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                    style, x1, y1, x2, y2);
}

/* Range of what is drawn; bars also show 0. */
static void find_range(const struct pith_chart *c, bool of_x, double *lo, double *hi)
{
    *lo = INFINITY;
    *hi = -INFINITY;
    for (size_t i = 0; i < c->count; i++) {
        const struct pith_chart_point *p = &c->points[i];
        if (!drawable(c, p)) continue;
        const double v = of_x ? p->x : p->y;
        const bool wide = !of_x && has_interval(c, p);
        *lo = fmin(*lo, wide ? fmin(v, p->lo) : v);
        *hi = fmax(*hi, wide ? fmax(v, p->hi) : v);
    }
    if (c->kind == PITH_CHART_SCATTER) return;
    *lo = fmin(*lo, 0);
    *hi = fmax(*hi, 0);
}

/* Room for the longest label, at most what LABEL_MAX characters take. */
static double label_room(const struct pith_chart *c)
{
    size_t most = 0;
    char cut[LABEL_MAX * 4 + 8];
    for (size_t i = 0; i < c->count; i++) {
        cut_label(c->points[i].label, cut);
        const size_t w = pith_text_width(cut);
        if (drawable(c, &c->points[i]) && w > most) most = w;
    }
    return (double)(most * CHAR_WIDTH) + 24;
}

struct frame {
    const struct pith_chart *chart;
    struct pith_axis x, y;
    double left, right, top, bottom;
};

static double x_of(const struct frame *f, double v)
{
    return f->left + (f->right - f->left) * pith_axis_place(&f->x, v);
}

static double y_of(const struct frame *f, double v)
{
    return f->bottom - (f->bottom - f->top) * pith_axis_place(&f->y, v);
}

static void put_x_ticks(const struct frame *f, struct pith_str *out)
{
    char text[40];
    for (size_t i = 0; i < f->x.ticks; i++) {
        const double x = x_of(f, f->x.tick[i]);
        put_line(out, "grid", x, f->top, x, f->bottom);
        pith_axis_label(&f->x, f->x.tick[i], text, sizeof text);
        put_text(out, x, f->bottom + 18, "middle", "tick", text);
    }
}

static void put_bar(const struct frame *f, const struct pith_chart_point *p, double y,
                    struct pith_str *out)
{
    const double zero = x_of(f, 0), end = x_of(f, p->y);
    char text[LABEL_MAX * 4 + 8];
    pith_str_printf(
        out, "<g>\n<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"16\" rx=\"2\">",
        p->muted ? "muted" : "mark", fmin(zero, end), y + 7, fmax(fabs(end - zero), 1));
    put_hover(out, f->chart, p);
    pith_str_puts(out, "</rect>\n");
    double tip = fmax(zero, end);
    if (has_interval(f->chart, p)) {
        const double lo = x_of(f, p->lo), hi = x_of(f, p->hi);
        put_line(out, "whisker", lo, y + 15, hi, y + 15);
        put_line(out, "whisker", lo, y + 10, lo, y + 20);
        put_line(out, "whisker", hi, y + 10, hi, y + 20);
        tip = fmax(tip, hi);
    }
    cut_label(p->label, text);
    put_text(out, f->left - 10, y + 19.5, "end", "label", text);
    snprintf(text, sizeof text, "%.4g", p->y);
    put_text(out, tip + 6, y + 19.5, "start", "value", text);
    pith_str_puts(out, "</g>\n");
}

static void bars(const struct pith_chart *c, struct pith_str *out)
{
    double lo, hi;
    find_range(c, false, &lo, &hi);
    struct frame f = {.chart = c, .left = label_room(c), .right = WIDTH - 70, .top = MARGIN_TOP};
    f.bottom = f.top + ROW * (double)pith_chart_drawable(c);
    pith_axis_choose(&f.x, lo, hi, false, 6);
    open_svg(out, c, WIDTH, f.bottom + MARGIN_BOTTOM);
    put_x_ticks(&f, out);
    double y = f.top;
    for (size_t i = 0; i < c->count; i++) {
        if (!drawable(c, &c->points[i])) continue;
        put_bar(&f, &c->points[i], y, out);
        y += ROW;
    }
    put_line(out, "axis", x_of(&f, 0), f.top, x_of(&f, 0), f.bottom);
    put_text(out, (f.left + f.right) / 2, f.bottom + 42, "middle", "name", c->y_title);
    pith_str_puts(out, "</svg>\n");
}

struct box {
    double x, y, w, h;
};

static bool overlap(const struct box *a, const struct box *b)
{
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

/* Where a label of that width goes: the first of eight places around its point that meets neither a
 * point nor an earlier label and stays inside the frame. None: there is no label, only the point's
 * title, since overlapping labels cannot be read. */
static bool place_label(const struct frame *f, double x, double y, struct box *taken, size_t count)
{
    const double w = taken[count].w, h = LABEL_HEIGHT;
    const struct box places[] = {{x + 9, y - h / 2, w, h},     {x - 9 - w, y - h / 2, w, h},
                                 {x - w / 2, y - 9 - h, w, h}, {x - w / 2, y + 9, w, h},
                                 {x + 5, y - 7 - h, w, h},     {x + 5, y + 7, w, h},
                                 {x - 5 - w, y - 7 - h, w, h}, {x - 5 - w, y + 7, w, h}};
    for (size_t k = 0; k < PITH_COUNT(places); k++) {
        bool fits = places[k].x >= f->left && places[k].x + w <= WIDTH && places[k].y >= 0 &&
                    places[k].y + h <= f->bottom;
        for (size_t i = 0; fits && i < count; i++) fits = !overlap(&places[k], &taken[i]);
        if (!fits) continue;
        taken[count] = places[k];
        return true;
    }
    return false;
}

static void put_point(const struct frame *f, const struct pith_chart_point *p, struct pith_str *out)
{
    const double x = x_of(f, p->x), y = y_of(f, p->y);
    if (has_interval(f->chart, p)) {
        const double lo = y_of(f, p->lo), hi = y_of(f, p->hi);
        put_line(out, "whisker", x, lo, x, hi);
        put_line(out, "whisker", x - 4, lo, x + 4, lo);
        put_line(out, "whisker", x - 4, hi, x + 4, hi);
    }
    pith_str_printf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\">",
                    p->muted ? "muted" : "mark", x, y);
    put_hover(out, f->chart, p);
    pith_str_puts(out, "</circle>\n");
}

/* Against the side that faces its point: the box is only an estimate of the text's width. */
static void put_label(const struct box *b, double point, const char *text, struct pith_str *out)
{
    const double base = b->y + 11.5;
    if (b->x > point) put_text(out, b->x, base, "start", "label", text);
    else if (b->x + b->w < point) put_text(out, b->x + b->w, base, "end", "label", text);
    else put_text(out, b->x + b->w / 2, base, "middle", "label", text);
}

/* Points that stand out lie over those that do not. */
static void put_points(const struct frame *f, struct box *taken, struct pith_str *out)
{
    const struct pith_chart *c = f->chart;
    size_t n = 0;
    for (int muted = 1; muted >= 0; muted--)
        for (size_t i = 0; i < c->count; i++) {
            const struct pith_chart_point *p = &c->points[i];
            if (!drawable(c, p) || p->muted != (muted == 1)) continue;
            put_point(f, p, out);
            taken[n++] = (struct box){x_of(f, p->x) - 6, y_of(f, p->y) - 6, 12, 12};
        }
    for (size_t i = 0; i < c->count; i++) {
        const struct pith_chart_point *p = &c->points[i];
        if (!drawable(c, p)) continue;
        char text[LABEL_MAX * 4 + 8];
        cut_label(p->label, text);
        if (!*text) continue;
        taken[n].w = (double)(pith_text_width(text) * CHAR_WIDTH);
        if (!place_label(f, x_of(f, p->x), y_of(f, p->y), taken, n)) continue;
        put_label(&taken[n], x_of(f, p->x), text, out);
        n++;
    }
}

/* No other point is at most as large in both. */
static bool on_front(const struct pith_chart *c, const struct pith_chart_point *p)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct pith_chart_point *q = &c->points[i];
        if (drawable(c, q) && q->x <= p->x && q->y <= p->y && (q->x < p->x || q->y < p->y))
            return false;
    }
    return true;
}

/* Joins the points of the front from the smallest x on. */
static void put_front(const struct frame *f, struct pith_str *out)
{
    const struct pith_chart *c = f->chart;
    const struct pith_chart_point *last = NULL;
    for (;;) {
        const struct pith_chart_point *next = NULL;
        for (size_t i = 0; i < c->count; i++) {
            const struct pith_chart_point *p = &c->points[i];
            if (drawable(c, p) && (!last || p->x > last->x) && (!next || p->x < next->x) &&
                on_front(c, p))
                next = p;
        }
        if (!next) return;
        if (last)
            put_line(out, "front", x_of(f, last->x), y_of(f, last->y), x_of(f, next->x),
                     y_of(f, next->y));
        last = next;
    }
}

static void scatter(const struct pith_chart *c, struct pith_str *out)
{
    struct box *taken = pith_alloc(c->count, 2 * sizeof *taken);
    if (!taken) {
        out->failed = true;
        return;
    }
    struct frame f = {.chart = c,
                      .left = MARGIN_LEFT,
                      .right = WIDTH - MARGIN_RIGHT,
                      .top = MARGIN_TOP,
                      .bottom = SCATTER_HEIGHT - MARGIN_BOTTOM};
    double lo, hi;
    find_range(c, true, &lo, &hi);
    pith_axis_choose(&f.x, lo, hi, c->x_log, 7);
    find_range(c, false, &lo, &hi);
    pith_axis_choose(&f.y, lo, hi, c->y_log, 6);
    open_svg(out, c, WIDTH, SCATTER_HEIGHT);
    put_x_ticks(&f, out);
    for (size_t i = 0; i < f.y.ticks; i++) {
        const double y = y_of(&f, f.y.tick[i]);
        char text[40];
        put_line(out, "grid", f.left, y, f.right, y);
        pith_axis_label(&f.y, f.y.tick[i], text, sizeof text);
        put_text(out, f.left - 8, y + 4, "end", "tick", text);
    }
    put_line(out, "axis", f.left, f.bottom, f.right, f.bottom);
    put_line(out, "axis", f.left, f.top, f.left, f.bottom);
    if (c->front) put_front(&f, out);
    put_points(&f, taken, out);
    put_text(out, (f.left + f.right) / 2, f.bottom + 42, "middle", "name", c->x_title);
    pith_str_printf(out, "<g transform=\"translate(16 %.0f) rotate(-90)\">",
                    (f.top + f.bottom) / 2);
    put_text(out, 0, 0, "middle", "name", c->y_title);
    pith_str_puts(out, "</g>\n</svg>\n");
    pith_free(taken);
}

static void histogram(const struct pith_chart *c, struct pith_str *out)
{
    struct frame f = {
        .chart = c, .left = 16, .right = HISTOGRAM_WIDTH - 16, .top = 8, .bottom = 150};
    double lo = INFINITY, hi = -INFINITY, most = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct pith_chart_point *p = &c->points[i];
        if (!drawable(c, p)) continue;
        lo = fmin(lo, p->x);
        hi = fmax(hi, p->hi);
        most = fmax(most, p->y);
    }
    pith_axis_choose(&f.x, lo, hi, c->x_log, 5);
    pith_axis_choose(&f.y, 0, most, false, 4);
    open_svg(out, c, HISTOGRAM_WIDTH, f.bottom + MARGIN_BOTTOM);
    put_x_ticks(&f, out);
    for (size_t i = 0; i < c->count; i++) {
        const struct pith_chart_point *p = &c->points[i];
        if (!drawable(c, p) || p->y <= 0) continue;
        const double x = x_of(&f, p->x), y = y_of(&f, p->y);
        pith_str_printf(out,
                        "<rect class=\"mark\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                        "height=\"%.1f\"><title>%.3g to %.3g: %.4g</title></rect>\n",
                        x, y, fmax(x_of(&f, p->hi) - x - 1, 1), f.bottom - y, p->x, p->hi, p->y);
    }
    put_line(out, "axis", f.left, f.bottom, f.right, f.bottom);
    put_text(out, (f.left + f.right) / 2, f.bottom + 42, "middle", "name", c->x_title);
    pith_str_puts(out, "</svg>\n");
}

void pith_chart_svg(const struct pith_chart *c, struct pith_str *out)
{
    if (pith_chart_drawable(c) == 0) return;
    if (c->kind == PITH_CHART_BARS) bars(c, out);
    else if (c->kind == PITH_CHART_SCATTER) scatter(c, out);
    else histogram(c, out);
}
