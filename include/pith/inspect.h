/* pith/inspect.h: what is in a checkpoint, and what this library knows. All reports are JSON text;
 * free them with pith_text_free(). */
#ifndef PITH_INSPECT_H
#define PITH_INSPECT_H

#include <pith/context.h>
#include <pith/report.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The tensors of a checkpoint: {"architecture", "container", "parameters", "bytes",
 * "bits_per_weight", "tensors": [{"name", "dtype", "shape", "bytes", "grid"?, "bits_per_weight"?,
 * "min", "max", "mean", "std", "kurtosis", "outliers", "histogram"}]}. outliers is the fraction of
 * values beyond 6 standard deviations; the histogram counts them in 33 steps of half a deviation,
 * the middle one about the mean. Statistics are omitted when `statistics` is 0. */
PITH_API enum pith_status pith_inspect(struct pith_context *context, const char *model,
                                       int statistics, char **report, struct pith_error *err);
/* The same as a report, for pith_report_free(). Its page shows statistics. */
PITH_API enum pith_status pith_inspect_report(struct pith_context *context, const char *model,
                                              int statistics, struct pith_report **report,
                                              struct pith_error *err);

/* Where two checkpoints of a model of one shape differ, part by part, by the weights that each
 * stands for: {"equal", "a", "b", "container_a", "container_b", "parts_equal", "parts_different",
 * "config_differs": [keys], "parts": [{"name", "a" and "b": grid or dtype, "equal": to the bit,
 * "relative_difference": ||b - a|| / ||a||, "largest_difference", "loss": of the linear's output as
 * b's pith.json has it}]}. The differences are missing where a value is not finite, the loss where
 * it was not measured. A part that a transform multiplied by something, as a pith.json says, has
 * "rescaled": true, and of a matrix the least difference that multiplying its rows and columns
 * leaves; where one of the two is in another basis, parts that differ have "rotated": true and no
 * difference. PITH_ARG when the shapes differ. */
PITH_API enum pith_status pith_diff(struct pith_context *context, const char *a, const char *b,
                                    char **report, struct pith_error *err);
/* The same as a report, for pith_report_free(); good where nothing differs. */
PITH_API enum pith_status pith_diff_report(struct pith_context *context, const char *a,
                                           const char *b, struct pith_report **report,
                                           struct pith_error *err);

/* Numbers of a model, as float32. */
struct pith_numbers {
    float *value; /* [rows][cols]; a vector has one row */
    size_t rows, cols;
};

/* What a part of a model stands for, whatever its checkpoint packs it in: a matrix or a vector by
 * the name that it has in pith_diff()'s report. out->value is freed as (char *) by
 * pith_text_free(). PITH_ARG when the model has no such part. */
PITH_API enum pith_status pith_numbers_read(struct pith_context *context, const char *model,
                                            const char *part, struct pith_numbers *out,
                                            struct pith_error *err);

/* The tables that the library works from: arrays of objects. */
PITH_API enum pith_status pith_formats_json(char **report, struct pith_error *err);
PITH_API enum pith_status pith_recipes_json(char **report, struct pith_error *err);
/* The keys of a recipe file. */
PITH_API enum pith_status pith_recipe_keys_json(char **report, struct pith_error *err);
/* {"containers", "engines", "architectures", "transforms", "splits", "rounders"}: arrays of
 * {"name", "what"}; "loads": what each engine takes from each container, and
 * "conversions": on what grid each container holds the codes of a grid: arrays of flat objects of
 * texts. */
PITH_API enum pith_status pith_features_json(char **report, struct pith_error *err);

/* One of these as a report: list "formats", "recipes", "keys", "hardware" or "features". name:
 * NULL, or one of its entries; of the features also an engine, a container or one of their tables.
 * Its table is all that there is. PITH_ARG: there is no such thing; the message has what is near.
 */
PITH_API enum pith_status pith_list_report(const char *list, const char *name,
                                           struct pith_report **report, struct pith_error *err);
/* The names of a list's entries with blanks between them, for pith_text_free(): a list of above, or
 * "containers", "engines", "architectures", "transforms", "splits", "rounders". */
PITH_API enum pith_status pith_list_names(const char *list, char **names, struct pith_error *err);

/* Renders a table as text. `table`: JSON {"columns": [{"name", "align": "left"|"right"}], "rows":
 * [[text,
 * ...], ...]}. format: "text", "markdown", "csv". */
PITH_API enum pith_status pith_table_render(const char *table, const char *format, char **text,
                                            struct pith_error *err);

/* Self-contained HTML pages for the reports of pith_compare() (with details, see pith/eval.h) and
 * of pith_inspect() with statistics. Nothing is fetched; what comes from models and texts is
 * escaped. "provenance": {"version", "date", "command", "model"} (texts), added to a report, is
 * shown. */
PITH_API enum pith_status pith_compare_html(const char *report, char **html,
                                            struct pith_error *err);
PITH_API enum pith_status pith_inspect_html(const char *report, char **html,
                                            struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
