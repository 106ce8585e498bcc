/* GET /load: how busy the server is, for balancers, in vLLM's form. */
#include "server/routes.h"

void load_answer(struct exchange *e)
{
    struct pith_service_state state = {.size = sizeof state};
    pith_service_state(atomic_load(&e->server->service), &state);
    exchange_json(e, 200,
                  json_pack("{s:I}", "server_load", (json_int_t)(state.running + state.waiting)));
}
