#define TIER(op) pith_##op##_avx512
#include "kern/avx512/vec_avx512.h"
#include "kern/template/grid_template.h"
