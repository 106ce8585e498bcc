#include "hub/curl.h"

#include "base/mem.h"

#include <dlfcn.h>
#include <string.h>

static void *open_library(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"};
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    return NULL;
}

enum pith_status pith_curl_load(struct pith_curl *curl, struct pith_error *err)
{
    void *library = open_library(), *symbol;
    if (!library)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "downloading needs libcurl (Debian: apt install libcurl4), and this "
                         "machine has none");
/* ISO C has no conversion between the two kinds of pointers; POSIX makes them alike. */
#define PITH_CURL_FIND(result, name, parameters)                                                   \
    symbol = dlsym(library, "curl_" #name);                                                        \
    if (!symbol)                                                                                   \
        return pith_fail(err, PITH_UNSUPPORTED, "the libcurl of this machine has no curl_%s: "     \
                         "it is older than 7.68", #name);                                          \
    memcpy(&curl->name, &symbol, sizeof symbol);
    PITH_CURL_CALLS(PITH_CURL_FIND)
#undef PITH_CURL_FIND
    if (curl->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return pith_fail(err, PITH_UNSUPPORTED, "libcurl cannot be initialised");
    return PITH_OK;
}
