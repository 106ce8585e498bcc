/* Any bytes as a task file: refused with a line, or every item has its choices, answer and
 * ids where scoring will look for them. */
#include "task_property.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t most = size % 5 ? 64 : 1100; /* of which an answer in words takes up to 1024 */
    const char *bytes = (const char *)data;
    if (pith_text_check("task.jsonl", bytes, size, NULL) != PITH_OK) return 0;
    const size_t mark = pith_text_mark(bytes, size);
    const struct pith_records text = {
        .path = "task.jsonl", .text = bytes + mark, .size = size - mark};
    const struct pith_task_wish wish = {
        .path = "task.jsonl", .limit = size % 3, .shots = size / 3 % 3};
    struct pith_task_source source;
    struct pith_error err = {0};
    enum pith_status s = pith_task_source_parse(&text, "0110", &wish, &source, &err);
    if (s == PITH_OK) s = use_task(&source, &wish, most, &err);
    if (s != PITH_OK) must(strstr(err.text, "task.jsonl") != NULL);
    return 0;
}
