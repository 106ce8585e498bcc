/* Runs a fuzz target over its stored seeds, as a test: every file of fuzz/corpus/<name>/, where the
 * program is called fuzz_<name>; and each of them cut short and with a byte changed. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_variants(uint8_t *data, size_t size)
{
    LLVMFuzzerTestOneInput(data, size);
    for (size_t i = 1; i <= 8; i++) LLVMFuzzerTestOneInput(data, size * i / 9);
    for (size_t i = 0; i < 16 && size > 0; i++) {
        const size_t at = (i * 7919 + 13) % size;
        const uint8_t old = data[at];
        data[at] = (uint8_t)(old ^ (1u << i % 8));
        LLVMFuzzerTestOneInput(data, size);
        data[at] = old;
    }
}

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    uint8_t *data = size >= 0 ? malloc((size_t)size + 1) : NULL;
    const size_t got = data ? fread(data, 1, (size_t)size, f) : 0;
    fclose(f);
    if (data) run_variants(data, got);
    free(data);
    return data != NULL;
}

int main(int argc, char **argv)
{
    (void)argc;
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    char dir[256], path[1024];
    int count = 0;
    snprintf(dir, sizeof dir, "fuzz/corpus/%s", strncmp(name, "fuzz_", 5) == 0 ? name + 5 : name);
    DIR *d = opendir(dir);
    if (!d) {
        fprintf(stderr, "%s: no seeds\n", dir);
        return 1;
    }
    const struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        count += run_file(path);
    }
    closedir(d);
    printf("[       OK ] replay of %d seeds\n", count);
    return count > 0 ? 0 : 1;
}
