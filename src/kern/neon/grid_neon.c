#define TIER(op) pith_##op##_neon
#include "kern/neon/vec_neon.h"
#include "kern/template/grid_template.h"
