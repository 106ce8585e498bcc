/* pith/status.h: what every fallible call of libpith returns, and where the cause is.
 *
 * A call returns PITH_OK or one of the codes below. The cause (what failed, in which file and
 * tensor, and what to do about it) is written to the caller's struct pith_error; fields of option
 * structs stand in backquotes there (pith_fields_show() of <pith/names.h>). Nothing in libpith
 * prints, exits or aborts. */
#ifndef PITH_STATUS_H
#define PITH_STATUS_H

/* Marks what the shared library shows; all else in it is hidden. */
#if defined(__GNUC__)
#define PITH_API __attribute__((visibility("default")))
#else
#define PITH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* name, pinned number, text. Numbers are part of the ABI: never reuse one. */
#define PITH_STATUS_MAP(X)                                                                         \
    X(OK, 0, "no error")                                                                           \
    X(NOMEM, 1, "out of memory")                                                                   \
    X(IO, 2, "read or write failed")                                                               \
    X(FORMAT, 3, "the file does not follow its format")                                            \
    X(UNSUPPORTED, 4, "valid, but not supported by this version")                                  \
    X(ARG, 5, "invalid argument")                                                                  \
    X(NUMERIC, 6, "the numbers do not allow a result")                                             \
    X(INTERRUPTED, 7, "interrupted by the caller")                                                 \
    X(MISMATCH, 8, "verification found a difference")                                              \
    X(LIMIT, 9, "a limit set by the caller cannot be met")                                         \
    X(BUSY, 10, "too much is waiting already")                                                     \
    X(CLOSED, 11, "nothing more is accepted")                                                      \
    X(LENGTH, 12, "prompt and answer do not fit the context")

enum pith_status {
#define PITH_STATUS_ENUM(name, number, text) PITH_##name = number,
    PITH_STATUS_MAP(PITH_STATUS_ENUM)
#undef PITH_STATUS_ENUM
};

/* Owned by the caller; start with {0}. Holds the first failure; later ones do not overwrite it. */
struct pith_error {
    enum pith_status status;
    char text[1024]; /* NUL-terminated, one line, UTF-8 as far as the cause was */
};

/* The fixed text of a status ("out of memory"); never NULL. */
PITH_API const char *pith_status_text(enum pith_status s);

/* Version of the library as "MAJOR.MINOR.PATCH". */
PITH_API const char *pith_version(void);

#ifdef __cplusplus
}
#endif
#endif
