/* plan/page.h: the page of pith plan, which draws the roofline of its first row's device. */
#ifndef PITH_PLAN_PAGE_H
#define PITH_PLAN_PAGE_H

#include "report/page.h"

pith_page_fn pith_page_plan;

#endif
