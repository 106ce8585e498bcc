/* Files as tasks are published, beside each other: answers and examples in files of their own,
 * packed ones, a folder of subjects. What opens keeps what eval/task/items.h promises.
 *
 *     u8 which of the paths below is asked for, u8 questions at most + 4 * examples
 *     for each file in the order below: u16 length, 0xffff when it is missing; then its bytes */
#include "folder.h"
#include "task_property.h"

static const char *const files[] = {
    "valid.jsonl",         "valid-labels.lst", "train.jsonl",
    "train-labels.lst",    "own.bz2",          "test/anatomy_test.csv",
    "dev/anatomy_dev.csv", "questions.csv",    "own.gz"};

/* What stands before the folder, and behind it. */
static const struct {
    const char *form, *file;
} paths[] = {{"", "/valid.jsonl"},
             {"piqa:", "/valid.jsonl"},
             {"", "/own.bz2"},
             {"", ""},
             {"mmlu:", ""},
             {"arc:", ""},
             {"", "/test/anatomy_test.csv"},
             {"mmlu:", "/own.bz2"},
             {"", "/questions.csv"},
             {"", "/valid-labels.lst"},
             {"piqa:", "/missing.jsonl"},
             {"", "/missing.jsonl"},
             {"arx:", "missing.jsonl"},
             {"", "/own.gz"}};

/* Made once: the folders of subjects. */
static void make_folders(void)
{
    static bool made;
    char path[128];
    if (made) return;
    made = true;
    (void)snprintf(path, sizeof path, "%s/test", folder());
    must(pith_dir_make(path, NULL) == PITH_OK);
    (void)snprintf(path, sizeof path, "%s/dev", folder());
    must(pith_dir_make(path, NULL) == PITH_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    make_folders();
    (void)folder_put_all(files, sizeof files / sizeof files[0], data + 2, size - 2);
    char path[128];
    const unsigned which = data[0] % (sizeof paths / sizeof paths[0]);
    (void)snprintf(path, sizeof path, "%s%s%s", paths[which].form, folder(), paths[which].file);
    const struct pith_task_wish wish = {
        .path = path, .limit = data[1] % 4, .shots = data[1] / 4 % 4};
    struct pith_task_source source;
    struct pith_error err = {0};
    enum pith_status s = pith_task_source_open(&wish, &source, &err);
    if (s == PITH_OK) s = use_task(&source, &wish, 64, &err);
    must(s == PITH_OK || err.text[0] != '\0');
    return 0;
}
