#include "hub/retry.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

static bool may_pass(const struct pith_http_call *c)
{
    if (c->end == PITH_HTTP_CUT || c->end == PITH_HTTP_NOBODY) return true;
    return c->end == PITH_HTTP_REFUSED &&
           (c->status == 408 || c->status == 429 || c->status >= 500);
}

bool pith_tries_again(struct pith_tries *tries, const struct pith_http_call *call, bool moved)
{
    enum { LONGEST = 30, MOST = 600 };
    double delay = 0.5;
    if (!may_pass(call)) return false;
    if (moved) tries->failed = 0;
    if (++tries->failed >= PITH_HUB_TRIES) return false;
    for (unsigned i = 1; i < tries->failed; i++) delay *= 2;
    if (delay > LONGEST) delay = LONGEST;
    if (call->retry_after >= 0) delay = call->retry_after < MOST ? call->retry_after : MOST;
    tries->again = pith_clock() + delay;
    return true;
}

/* The hub answers 401 for what does not exist too, as long as it does not know the user. */
static enum pith_status no_entry(const struct pith_http_call *c, const struct pith_hub_name *name,
                                 const char *endpoint, bool token, struct pith_error *err)
{
    static const char get_token[] = "HF_TOKEN, `token`, or the login of Hugging Face's tools";
    if (strcmp(c->code, "GatedRepo") == 0)
        return pith_fail(err, PITH_IO, "%s is gated (status %ld): accept its terms at %s/%s%s%s",
                         name->repo, c->status, endpoint, name->repo,
                         token ? "; this token's account has not, or may not read gated models"
                               : ", then give a token: ",
                         token ? "" : get_token);
    if (!token)
        return pith_fail(err, PITH_IO, "%s: no such model at %s, or a private one (status %ld): "
                         "check the spelling, or give a token: %s",
                         name->repo, endpoint, c->status, get_token);
    if (c->status == 401)
        return pith_fail(err, PITH_IO, "%s: %s does not take the token (status 401): it is wrong "
                         "or has expired, or there is no such model", name->repo, endpoint);
    return pith_fail(err, PITH_IO, "%s: the token may not read it (status %ld)", name->repo,
                     c->status);
}

enum pith_status pith_hub_refused(const struct pith_http_call *call,
                                  const struct pith_hub_name *name, const char *file,
                                  const char *endpoint, bool token, struct pith_error *err)
{
    char what[400];
    snprintf(what, sizeof what, "%s%s%.200s", name->repo, file ? "/" : "", file ? file : "");
    if (call->end == PITH_HTTP_TAKER)
        return pith_fail(err, call->err.status, "%s%s", call->err.text,
                         call->err.status == PITH_IO ? "; what has arrived is stored" : "");
    if (call->end != PITH_HTTP_REFUSED)
        return pith_fail(err, PITH_IO, "%s: %s: %s%s", what, endpoint, call->message,
                         call->end == PITH_HTTP_WRONG ? ""
                         : file ? "; what has arrived is stored, try again later"
                                : "; try again later");
    if ((call->status == 401 || call->status == 403) && (!file || call->code[0]))
        return no_entry(call, name, endpoint, token, err);
    if (call->status == 404 && !file && strcmp(call->code, "RevisionNotFound") == 0)
        return pith_fail(err, PITH_IO, "%s has no revision '%s'", name->repo, name->revision);
    if (call->status == 404 && !file)
        return pith_fail(err, PITH_IO, "%s: no such model at %s (status 404): check the spelling",
                         name->repo, endpoint);
    if (call->status == 429)
        return pith_fail(err, PITH_IO,
                         "%s: %s limits the rate of requests (status 429); what has arrived is "
                         "stored, try again later",
                         what, endpoint);
    return pith_fail(err, PITH_IO, "%s: %s answers with status %ld%s%s", what, endpoint,
                     call->status, call->message[0] ? ": " : "", call->message);
}
