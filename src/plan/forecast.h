/* plan/forecast.h: how fast a deployment would be, by the roofline of its devices. */
#ifndef PITH_PLAN_FORECAST_H
#define PITH_PLAN_FORECAST_H

#include "plan/capacity.h"
#include "plan/roofline.h"

struct pith_forecast {
    double first;        /* seconds to the first token of a prompt, nobody else being served */
    double fill;         /* seconds that all users' prompts take, as many together as go */
    double step;         /* seconds between a user's tokens, all users at work */
    double rate;         /* tokens a second of all users, prompts not counted */
    double served;       /* the same where each answer's prompt is read by the same devices */
    enum pith_unit unit; /* that multiplies */
    enum pith_roof_bound bound; /* of a step */
    double crossover;           /* users from which on arithmetic bounds a step; 0: it never does */
    double read, multiplied;    /* bytes and operations of a step, all devices */
    double joules; /* a token made, at the most that the devices draw; NAN: not known */
    double cost;   /* USD a million tokens made; NAN: not known */
};

/* joules and cost of what is served, by watts and dollars an hour of all devices; 0: not known. */
void pith_forecast_bill(struct pith_forecast *f, double watts, double price);

/* `r` is what pith_room_find() gave for d. */
void pith_forecast_make(const struct pith_deployment *d, const struct pith_room *r,
                        const struct pith_hardware *h, struct pith_forecast *out);

#endif
