/* hub/curl.h: libcurl, loaded when something is to be downloaded and not before: it brings some
 * thirty libraries, which every other command would wait for. */
#ifndef PITH_HUB_CURL_H
#define PITH_HUB_CURL_H

#include "base/status.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

/* result, name after "curl_", parameters */
#define PITH_CURL_CALLS(X)                                                                         \
    X(CURLcode, global_init, (long))                                                               \
    X(CURL *, easy_init, (void))                                                                   \
    X(void, easy_cleanup, (CURL *))                                                                \
    X(void, easy_reset, (CURL *))                                                                  \
    X(CURLcode, easy_setopt, (CURL *, CURLoption, ...))                                            \
    X(CURLcode, easy_getinfo, (CURL *, CURLINFO, ...))                                             \
    X(const char *, easy_strerror, (CURLcode))                                                     \
    X(CURLM *, multi_init, (void))                                                                 \
    X(CURLMcode, multi_cleanup, (CURLM *))                                                         \
    X(CURLMcode, multi_add_handle, (CURLM *, CURL *))                                              \
    X(CURLMcode, multi_remove_handle, (CURLM *, CURL *))                                           \
    X(CURLMcode, multi_perform, (CURLM *, int *))                                                  \
    X(CURLMcode, multi_poll, (CURLM *, struct curl_waitfd *, unsigned, int, int *))                \
    X(CURLMsg *, multi_info_read, (CURLM *, int *))                                                \
    X(struct curl_slist *, slist_append, (struct curl_slist *, const char *))                      \
    X(void, slist_free_all, (struct curl_slist *))                                                 \
    X(CURLU *, url, (void))                                                                        \
    X(void, url_cleanup, (CURLU *))                                                                \
    X(CURLUcode, url_set, (CURLU *, CURLUPart, const char *, unsigned))                            \
    X(CURLUcode, url_get, (const CURLU *, CURLUPart, char **, unsigned))                           \
    X(void, free, (void *))

struct pith_curl {
#define PITH_CURL_MEMBER(result, name, parameters) result(*name) parameters;
    PITH_CURL_CALLS(PITH_CURL_MEMBER)
#undef PITH_CURL_MEMBER
};

/* PITH_UNSUPPORTED when this machine has no libcurl of version 4. It stays loaded. */
enum pith_status pith_curl_load(struct pith_curl *curl, struct pith_error *err);

#endif
