#include "plan/hardware/hardware.h"

#include "base/mem.h"
#include "base/names.h"

#include <string.h>
#include <strings.h>

#define OPS(...)                                                                                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
static const struct pith_hardware rows[] = {
#define PITH_HARDWARE(name, vendor, title, memory, bandwidth, link, host, ops, most, watts, price, \
                      price_source, source, fnuz, cpu, capability)                                 \
    {name,  vendor,       title,  memory, bandwidth, link, host, ops,        most, watts,          \
     price, price_source, source, fnuz,   cpu,       0,    0,    0,          capability,           \
     0,     NULL},
#include "plan/hardware/hardware.def"
#undef PITH_HARDWARE
};
#undef OPS

const char *pith_hardware_unit(enum pith_unit u)
{
    static const char *const names[] = {"f32", "bf16", "fp8", "int8", "int4", "fp4"};
    return names[u];
}

const struct pith_hardware *pith_hardware_find(const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (strcasecmp(rows[i].name, name) == 0) return &rows[i];
    for (size_t i = 0; i < PITH_COUNT(rows) && n; i++)
        if (strncasecmp(rows[i].name, name, n) == 0 && rows[i].name[n] == '-') return &rows[i];
    return NULL;
}

static const char *name_at(size_t i)
{
    return i < PITH_COUNT(rows) ? rows[i].name : NULL;
}

enum pith_status pith_hardware_get(const char *name, const struct pith_hardware **out,
                                   struct pith_error *err)
{
    *out = pith_hardware_find(name);
    return *out ? PITH_OK : pith_fail_name(err, "hardware", name, name_at);
}

size_t pith_hardware_count(void)
{
    return PITH_COUNT(rows);
}

const struct pith_hardware *pith_hardware_at(size_t i)
{
    return &rows[i];
}
