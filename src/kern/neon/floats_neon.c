#define TIER(op) pith_##op##_neon
#include "kern/neon/vec_neon.h"
#include "kern/template/floats_template.h"
