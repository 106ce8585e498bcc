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
    const long long whole = s > 0 && s < 1e15 ? (long long)s : 0;
    if (!(s >= 60 && s < 1e15)) snprintf(text, room, "%.1f s", s);
    else if (s < 3600) snprintf(text, room, "%lld min %02lld s", whole / 60, whole % 60);
    else snprintf(text, room, "%lld h %02lld min", whole / 3600, whole % 3600 / 60);
}
