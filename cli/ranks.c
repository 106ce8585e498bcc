/* Processes that a launcher of MPI started together. */
#include "cli/command.h"
#include "cli/interrupt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What launchers set in the environment: Open MPI, MPICH and what follows its PMI (Intel's,
 * Slurm's), MVAPICH; Slurm without any of them, whose tasks then know nothing of each other. */
static const struct {
    const char *count, *own;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"PMI_SIZE", "PMI_RANK"},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
};

static unsigned long number(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 10) : 0;
}

static void look(unsigned long *count, unsigned long *own)
{
    *count = 1;
    *own = 0;
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        if (!getenv(launchers[i].own)) continue;
        *count = number(launchers[i].count);
        *own = number(launchers[i].own);
        return;
    }
}

static bool refuses(const struct common *common)
{
    return common->ranks && strcmp(common->ranks, "none") == 0;
}

bool is_first(void)
{
    unsigned long count, own;
    look(&count, &own);
    return own == 0;
}

bool has_others(const struct common *common)
{
    unsigned long count, own;
    look(&count, &own);
    return common->command->spreads && !refuses(common) && (count > 1 || common->ranks);
}

bool is_wanted(const struct common *common)
{
    unsigned long count, own;
    look(&count, &own);
    return own == 0 || common->command->spreads || refuses(common);
}

/* Next to the program, as it is built, or where it is installed. */
static bool find_object(char path[4096])
{
    static const char *const places[] = {"libpith_mpi.so", "../lib/libpith_mpi.so"};
    char folder[2048];
    const ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (n <= 0) return false;
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, 4096, "%s/%s", folder, places[i]);
        if (access(path, R_OK) == 0) return true;
    }
    return false;
}

static enum pith_status join(struct pith_context *context, unsigned long count,
                             struct pith_error *err)
{
    char path[4096];
    *err = (struct pith_error){PITH_UNSUPPORTED,
                               "libpith_mpi.so is not next to the program: it is built where MPI is"
                               " installed (libopenmpi-dev), or say --ranks none"};
    if (!find_object(path)) return err->status;
    *err = (struct pith_error){0};
    const enum pith_status s = pith_context_join(context, path, err);
    if (s != PITH_OK || count <= 1 || pith_context_ranks(context) == count) return s;
    *err = (struct pith_error){.status = PITH_IO};
    snprintf(err->text, sizeof err->text,
             "the launcher started %lu processes, of which MPI sees %u: with srun, say --mpi=pmix",
             count, pith_context_ranks(context));
    return err->status;
}

int join_ranks(const struct common *common, struct pith_context **context)
{
    unsigned long count, own;
    struct pith_error err = {0};
    const bool required = common->ranks && strcmp(common->ranks, "mpi") == 0;
    look(&count, &own);
    if (common->ranks && !required && !refuses(common)) {
        pith_context_free(context);
        return usage_failure(common, "--ranks %s: mpi or none", common->ranks);
    }
    if (!common->command->spreads || refuses(common) || (count <= 1 && !required)) return EXIT_DONE;
    /* Rank 0 may have failed before another has joined; launchers then interrupt that. */
    if (own != 0) interrupt_silently();
    if (join(*context, count, &err) != PITH_OK) {
        pith_context_free(context);
        return report_failure(common, &err);
    }
    if (pith_context_rank(*context) == 0) return EXIT_DONE;
    struct common *mine = (struct common *)(uintptr_t)common;
    mine->follows = mine->quiet = true;
    mine->joined = *context;
    if (freopen("/dev/null", "w", stdout)) return EXIT_DONE;
    pith_context_free(context);
    return EXIT_FAILED;
}
