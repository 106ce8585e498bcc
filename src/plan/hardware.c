#include "plan/hardware.h"

#include "base/mem.h"

#include <strings.h>

#define OPS(...)                                                                                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
static const struct pith_hardware rows[] = {
#define PITH_HARDWARE(name, vendor, title, memory, bandwidth, link, ops, most, watts, price,       \
                      price_source, source, fnuz, cpu)                                             \
    {name,  vendor,       title,  memory, bandwidth, link, ops, most, watts,                       \
     price, price_source, source, fnuz,   cpu,       0,    0,   0},
#include "plan/hardware.def"
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
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (strcasecmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

size_t pith_hardware_count(void)
{
    return PITH_COUNT(rows);
}

const struct pith_hardware *pith_hardware_at(size_t i)
{
    return &rows[i];
}
