#define TIER(op) pith_##op##_avx2
#include "kern/avx2/vec_avx2.h"
#include "kern/template/rows_template.h"
