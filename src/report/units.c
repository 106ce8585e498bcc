/* Sizes and times as people read them. */
#include <pith/report.h>

#include <stdio.h>

void pith_bytes_text(double bytes, char *text, size_t room)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    while (bytes >= 1024 && u < 4) {
        bytes /= 1024;
        u++;
    }
    snprintf(text, room, u ? "%.2f %s" : "%.0f %s", bytes, units[u]);
}

void pith_seconds_text(double s, char *text, size_t room)
{
    if (s < 60) snprintf(text, room, "%.1f s", s);
    else if (s < 3600) snprintf(text, room, "%d min %02d s", (int)s / 60, (int)s % 60);
    else snprintf(text, room, "%d h %02d min", (int)s / 3600, (int)s % 3600 / 60);
}
