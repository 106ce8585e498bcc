/* pith/quantize.h: a checkpoint in, a proven quantized checkpoint out. */
#ifndef PITH_QUANTIZE_H
#define PITH_QUANTIZE_H

#include <pith/context.h>
#include <pith/progress.h>
#include <pith/report.h>
#include <pith/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A list of strings; borrowed for the call. */
struct pith_list {
    const char *const *item;
    size_t count;
};

/* What to make. Start from pith_quantize_defaults(); NULL text means the recipe's choice. */
struct pith_quantize_options {
    size_t size;        /* of this struct as the program knows it: pith_quantize_defaults() */
    const char *model;  /* the checkpoint, quantized or not; never written to */
    const char *out;    /* folder to make; must not exist. Work happens in "<out>.partial" */
    const char *recipe; /* a name of pith_recipes_json(), or a .json file; default "awq" */
    const char *weights, *acts, *kv, *transform, *split, *round; /* override one stage each */
    struct pith_list ignore;    /* patterns of unquantized linears, in addition to lm_head */
    struct pith_list overrides; /* "PATTERN=GRID"; the last that matches counts */
    struct pith_list calib;     /* calibration files; none: the text that ships */
    const char *crlf;           /* their line ends CR LF: "keep" (NULL) or "lf", made LF */
    size_t calib_tokens;        /* default 131072 */
    size_t seq_len;             /* default 2048, at most the model's context */
    const char *container;      /* NULL: the recipe's */
    uint64_t memory;            /* bytes that may be used, 0: no limit */
    uint64_t max_shard;         /* bytes of a file, default 5,000,000,000 */
    bool rehearse;              /* do a block of each kind, report on the whole, leave nothing */
    struct pith_list targets;   /* "vllm:tp=2": engines whose rules are checked first */
    bool resume;                /* go on with "<out>.partial" */
    uint64_t seed;
    double allow_error; /* relative error of a linear beyond which it fails; 0: 0.5, or 0.99 with
                         * calibrated rounding or 2:4 zeros */
    struct pith_progress progress;
    /* Which tokens the experts of a mixture are calibrated on: "pooled" (NULL), those that take it
     * and, with little weight, the text at large; "routed", its own alone; "all". */
    const char *experts;
    /* With the recipe "auto", one of the following: mean bits of a weight ("4.5") or the size of
     * all weights ("5G"); "SIZE,context=N,users=N,kv=GRID", the size of all weights and of so many
     * caches; the most that the model's answers may diverge, in nats. */
    const char *budget, *fit;
    double max_kl;
    struct pith_list tries; /* grids that it may choose from; none: those of the container */
    /* NULL, or a folder with a LoRA adapter (PEFT's adapter_config.json, adapter_model.safetensors)
     * that is merged into the model first. Its merged tensors take their size on the disk, in a
     * file without a name next to `out`, while the run lasts. */
    const char *adapter;
    /* With `rehearse`: what joins ranks, "BITS[,MICROSECONDS]" a second and of a message's way, for
     * what 2 to 64 of them would take; NULL: "10G,50". */
    const char *link;
    /* Of several ranks rank 0 writes the output alone, also where all see its folder. */
    bool gather;
    /* Linears that the model stores in fewer than six bits a weight are quantized once more only
     * when this is set; else the call is refused. */
    bool requantize;
};
/* Fills in the defaults of a struct of `size` bytes: docs/library.md, "Versions". */
PITH_API void pith_quantize_defaults_sized(struct pith_quantize_options *options, size_t size);
static inline void pith_quantize_defaults(struct pith_quantize_options *options)
{
    pith_quantize_defaults_sized(options, sizeof *options);
}

/* Whether the options make sense by themselves, before any model is opened: names, grids, which of
 * them go together. *report (when not NULL) is JSON: {"recipe": in full, "container", "calibrates":
 * whether calibration text is used, "file": whether one file is written instead of a folder}.
 * Statuses as of pith_quantize(). */
PITH_API enum pith_status pith_quantize_check(const struct pith_quantize_options *options,
                                              char **report, struct pith_error *err);

/* What the options make of a run. */
struct pith_quantize_look {
    size_t size;       /* of the program's struct, set before the call */
    bool calibrates;   /* calibration text is used */
    bool file;         /* one file is written instead of a folder */
    bool random;       /* `seed` counts */
    char weights[128]; /* the grid in full: the recipe completes what was given */
    char acts[128];
};
/* The same as pith_quantize_check(), for a program: fills look->size bytes of *look. Statuses as
 * there. */
PITH_API enum pith_status pith_quantize_look(const struct pith_quantize_options *options,
                                             struct pith_quantize_look *look,
                                             struct pith_error *err);

/* Quantizes. In the context's fast mode calibration multiplies numbers rounded to bfloat16:
 * docs/quantizing.md has the cost. On success *report (when not NULL) is the JSON text of
 * pith.json, or of the rehearsal; free it with pith_text_free(). A run that fails, is interrupted
 * or killed leaves "<out>.partial", from which the same call with `resume` continues to the same
 * bytes; `out` appears only when it is whole.
 *
 * PITH_ARG          options that make no sense, by themselves or for this model
 * PITH_UNSUPPORTED  a grid that the container or a target cannot hold; nothing was written
 * PITH_LIMIT        `memory` cannot be met; nothing was written
 * PITH_FORMAT       the input is damaged
 * PITH_IO           a file cannot be read or written; `out`, or an unfinished run, is in the way
 * PITH_NUMERIC      weights or statistics that are not finite or cannot be solved
 * PITH_MISMATCH     what was read back differs from what was meant */
PITH_API enum pith_status pith_quantize(struct pith_context *context,
                                        const struct pith_quantize_options *options, char **report,
                                        struct pith_error *err);
/* The same as a report, for pith_report_free(); NULL where another rank has it. */
PITH_API enum pith_status pith_quantize_report(struct pith_context *context,
                                               const struct pith_quantize_options *options,
                                               struct pith_report **report, struct pith_error *err);

/* What to convert. Start from pith_convert_defaults(); NULL text means none. */
struct pith_convert_options {
    size_t size;              /* of this struct as the program knows it: pith_convert_defaults() */
    const char *model;        /* folder of a quantized checkpoint; never written to */
    const char *out;          /* folder to make; must not exist */
    const char *container;    /* what it shall be; NULL: "gguf" when out ends in ".gguf"; "dense",
                               * "dense:bf16", ...: the weights without codes */
    const char *weights;      /* grid for linears that the container cannot hold as they are; of a
                               * GGUF file "bf16", "f16", "f32": it has none with codes */
    struct pith_list targets; /* engines whose rules are checked first */
    uint64_t max_shard;       /* bytes of a file; 0: the default of pith_quantize() */
    double allow_error;       /* as for pith_quantize(), against the input */
    bool resume;
    struct pith_progress progress;
    const char *adapter; /* as for pith_quantize(); a model in 16 bits then gives a folder of 16
                          * bits too, and `container` may be NULL */
    bool gather;         /* as for pith_quantize() */
};
/* Fills in the defaults of a struct of `size` bytes: docs/library.md, "Versions". */
PITH_API void pith_convert_defaults_sized(struct pith_convert_options *options, size_t size);
static inline void pith_convert_defaults(struct pith_convert_options *options)
{
    pith_convert_defaults_sized(options, sizeof *options);
}

/* As pith_quantize_check(). */
PITH_API enum pith_status pith_convert_check(const struct pith_convert_options *options,
                                             char **report, struct pith_error *err);

/* Writes a quantized checkpoint in another container. Codes, scales and zero points go over as they
 * are; linears that the container cannot hold are rounded to `weights`, to nearest. *report (when
 * not NULL) is pith.json, whose linears say what they were ("from") and whether they stand for the
 * same weights to the bit ("lossless"), and if not how far they are off ("relative_error", against
 * the input). Statuses, and how an interrupted run goes on, as for pith_quantize(). */
PITH_API enum pith_status pith_convert(struct pith_context *context,
                                       const struct pith_convert_options *options, char **report,
                                       struct pith_error *err);
/* The same as a report, for pith_report_free(); NULL where another rank has it. */
PITH_API enum pith_status pith_convert_report(struct pith_context *context,
                                              const struct pith_convert_options *options,
                                              struct pith_report **report, struct pith_error *err);

/* What to verify. Start from pith_verify_defaults(). */
struct pith_verify_options {
    size_t size;              /* of this struct as the program knows it: pith_verify_defaults() */
    const char *model;        /* folder of a checkpoint that pith wrote */
    const char *against;      /* the original, or NULL */
    struct pith_list targets; /* engines whose rules are checked */
    struct pith_progress progress;
    const char *adapter; /* NULL, or what was merged into the original, as for pith_quantize(), with
                          * room for its tensors next to `model` */
};
/* Fills in the defaults of a struct of `size` bytes: docs/library.md, "Versions". */
PITH_API void pith_verify_defaults_sized(struct pith_verify_options *options, size_t size);
static inline void pith_verify_defaults(struct pith_verify_options *options)
{
    pith_verify_defaults_sized(options, sizeof *options);
}

/* Whether the engines that are named exist: PITH_ARG. */
PITH_API enum pith_status pith_verify_check(const struct pith_verify_options *options,
                                            struct pith_error *err);

/* Checks a checkpoint against pith.json: every tensor accounted for, nothing missing or unknown,
 * hashes of tensors and of all other bytes, sizes, no NaN, dequantized weights as the quantizer
 * meant them; with `against`, that nothing was lost from the original, that each linear is as close
 * to it as pith.json says, and that configs, token ids and tokenizers mean the same; the engines'
 * rules. Without a pith.json, `against` and the engines' rules are what it is judged by. *report
 * (when not NULL) is JSON: {"ok", "accounted": whether there is one, "checks": [...], "notes":
 * [...], "problems": [...]}; given on PITH_OK and PITH_MISMATCH. PITH_MISMATCH when anything is
 * off; err then has the first problem. */
PITH_API enum pith_status pith_verify(struct pith_context *context,
                                      const struct pith_verify_options *options, char **report,
                                      struct pith_error *err);
/* The same with a report of which the program chooses the form; *report is NULL where there is
 * none. */
PITH_API enum pith_status pith_verify_report(struct pith_context *context,
                                             const struct pith_verify_options *options,
                                             struct pith_report **report, struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
