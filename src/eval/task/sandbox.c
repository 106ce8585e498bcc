#define _GNU_SOURCE /* memfd_create(), posix_spawn_file_actions_addclosefrom_np() */
#include "eval/task/sandbox.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <openssl/rand.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Of processor time, as text; by the clock four times as much. */
#define SECONDS "5"
enum { BY_THE_CLOCK = 20 };

#define NEEDS "a sandbox needs bubblewrap, util-linux and /usr/bin/python3"

/* Of root the kernel does not count processes. */
static const char as_nobody[] = "setpriv --reuid=65534 --regid=65534 --clear-groups";

/* Who it is there and what it sees; what it may take; what runs. */
static const char command[] =
    "bwrap --unshare-all --die-with-parent --new-session --uid 65534 --gid 65534 --clearenv"
    " --setenv PATH /usr/bin:/bin --setenv HOME /tmp --setenv LANG C.UTF-8"
    " --setenv PYTHONHASHSEED 0 --ro-bind /usr /usr --ro-bind-try /bin /bin"
    " --ro-bind-try /lib /lib --ro-bind-try /lib64 /lib64 --proc /proc --dev /dev"
    " --size 16777216 --tmpfs /tmp --remount-ro / --chdir /tmp"
    " prlimit --cpu=" SECONDS " --as=1073741824 --fsize=1048576 --nproc=32 --nofile=64 --core=0"
    " /usr/bin/python3 -s -";

/* What it has open there: itself, where it says that it came to its end, where others complain. */
enum { PROGRAM, END, TROUBLE, FILES };
static const int there[FILES] = {STDIN_FILENO, 3, STDERR_FILENO};

struct sandbox {
    int file[FILES]; /* -1: not open */
    char word[33];   /* printed at the end, and not to be guessed */
    int status;      /* as waitpid() gives it */
};

static void split_words(char *text, char **words, size_t most)
{
    char *rest = NULL;
    size_t n = 0;
    for (char *w = strtok_r(text, " ", &rest); w && n + 1 < most; w = strtok_r(NULL, " ", &rest))
        words[n++] = w;
    words[n] = NULL;
}

static enum pith_status spawn(const struct sandbox *b, pid_t *pid, struct pith_error *err)
{
    char text[sizeof as_nobody + sizeof command], *words[96], *none[] = {NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    snprintf(text, sizeof text, "%s %s", geteuid() == 0 ? as_nobody : "", command);
    split_words(text, words, PITH_COUNT(words));
    int e = posix_spawn_file_actions_init(&files);
    if (e) return pith_fail_nomem(err, "a program's sandbox");
    if ((e = posix_spawnattr_init(&how))) {
        posix_spawn_file_actions_destroy(&files);
        return pith_fail_nomem(err, "a program's sandbox");
    }
    e = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    for (size_t i = 0; i < FILES && e == 0; i++)
        e = posix_spawn_file_actions_adddup2(&files, b->file[i], there[i]);
    if (e == 0) e = posix_spawn_file_actions_addclosefrom_np(&files, 4);
    if (e == 0) e = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
    if (e == 0) e = posix_spawnp(pid, words[0], &files, &how, words, none);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    errno = e;
    return e == 0 ? PITH_OK : pith_fail_errno(err, "cannot run it (" NEEDS ")", words[0]);
}

/* The end of the child, or its end now. */
static enum pith_status wait_for(struct sandbox *b, pid_t pid, struct pith_error *err)
{
    const double until = pith_clock() + BY_THE_CLOCK;
    pid_t ended = 0;
    while ((ended = waitpid(pid, &b->status, WNOHANG)) == 0 && pith_clock() < until)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (ended == 0) {
        kill(pid, SIGKILL); /* bwrap's death is that of all in its namespaces */
        while ((ended = waitpid(pid, &b->status, 0)) < 0 && errno == EINTR) {
        }
    }
    return ended == pid ? PITH_OK : pith_fail_errno(err, "cannot wait for it", "bwrap");
}

static void close_files(struct sandbox *b)
{
    for (size_t i = 0; i < FILES; i++)
        if (b->file[i] >= 0) close(b->file[i]);
}

static enum pith_status open_files(struct sandbox *b, struct pith_error *err)
{
    unsigned char bytes[16];
    for (size_t i = 0; i < FILES; i++) b->file[i] = -1;
    for (size_t i = 0; i < FILES; i++) {
        b->file[i] = memfd_create("program", MFD_CLOEXEC);
        if (b->file[i] < 0) return pith_fail_errno(err, "cannot open a file in memory", "program");
    }
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return pith_fail(err, PITH_IO, "no random numbers for a program's sandbox");
    for (size_t i = 0; i < sizeof bytes; i++)
        for (size_t k = 0; k < 2; k++)
            b->word[2 * i + k] = "0123456789abcdef"[bytes[i] >> 4 * k & 15];
    return PITH_OK;
}

static enum pith_status write_program(const struct sandbox *b, const char *program, size_t n,
                                      struct pith_error *err)
{
    struct pith_str text = {0};
    pith_str_append(&text, program, n);
    pith_str_printf(&text, "\n__import__('os').write(%d, b'%s')\n", there[END], b->word);
    enum pith_status s = PITH_OK;
    if (text.failed) s = pith_fail_nomem(err, "a program");
    for (size_t done = 0; done < text.len && s == PITH_OK;) {
        const ssize_t wrote =
            pwrite(b->file[PROGRAM], text.data + done, text.len - done, (off_t)done);
        if (wrote < 0 && errno != EINTR) s = pith_fail_errno(err, "cannot write", "program");
        else if (wrote > 0) done += (size_t)wrote;
    }
    pith_str_free(&text);
    return s;
}

static enum pith_status run(struct sandbox *b, const char *program, size_t n, bool *passed,
                            struct pith_error *err)
{
    char word[sizeof b->word + 1];
    pid_t pid;
    PITH_TRY(open_files(b, err));
    PITH_TRY(write_program(b, program, n, err));
    PITH_TRY(spawn(b, &pid, err));
    PITH_TRY(wait_for(b, pid, err));
    const ssize_t got = pread(b->file[END], word, sizeof word, 0);
    *passed = WIFEXITED(b->status) && WEXITSTATUS(b->status) == 0 &&
              got == (ssize_t)sizeof b->word - 1 && memcmp(word, b->word, (size_t)got) == 0;
    return PITH_OK;
}

enum pith_status pith_sandbox_run(const char *program, size_t n, bool *passed,
                                  struct pith_error *err)
{
    struct sandbox b = {0};
    *passed = false;
    const enum pith_status s = run(&b, program, n, passed, err);
    close_files(&b);
    return s;
}

enum pith_status pith_sandbox_check(struct pith_error *err)
{
    struct sandbox b = {0};
    char why[161] = "";
    bool passed = false;
    enum pith_status s = run(&b, "", 0, &passed, err);
    if (s == PITH_OK && !passed) {
        const ssize_t n = pread(b.file[TROUBLE], why, sizeof why - 1, 0);
        why[n > 0 ? n : 0] = '\0';
        why[strcspn(why, "\n")] = '\0';
        s = pith_fail(err, PITH_UNSUPPORTED,
                      "programs cannot be run here in a sandbox: %s (" NEEDS ")",
                      *why ? why : "it ends at once");
    }
    close_files(&b);
    return s;
}
