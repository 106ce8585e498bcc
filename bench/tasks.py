#!/usr/bin/env python3
"""What fewer bits cost published models in published tasks, question by question.

    bench/tasks.py [-m MODEL] [-n ITEMS] [-p PLACE] [-r ROW]... TASK...     measures what is not in PLACE/tasks.jsonl yet
    bench/tasks.py --table [-p PLACE]                                       the table of what is in there

MODEL is one of tools/real_models.py, its weights as bfloat16, and TASK a file or folder that `pith compare --tasks` reads. Of each the first
ITEMS questions are asked without examples. ROW is a recipe, or a composition of bench/recipes.py, made as bench/real.py makes it. Accuracies
are those of lm-evaluation-harness: by the score, and by the score for each character. Differences are to the original on the same questions,
with the paired 95% interval. PITH names the program.
"""
import argparse
import pathlib
import shutil

import real

ROWS = ["smoothquant", "awq+gptq", "awq+gptq int3:g64"]  # 8, 4 and 3 bits
KINDS = {"": "accuracy", "_norm": "accuracy by character"}


def made(model, folder, row, place):
    """The folder of that row, made once."""
    out = place / ("task-" + row.replace(" ", "-").replace(":", "-"))
    if not out.exists() and real.quantized(model, folder, row, out) is None:
        raise SystemExit(f"{row}: cannot be made")
    return out


def measure(options, kept):
    folder = real.original(options.model, options.place)
    rows = options.row or ROWS
    key = {"model": options.model, "items": options.items, "rows": rows}
    had = {k["task"] for k in kept.rows if all(k[x] == v for x, v in key.items())}
    todo = [task for task in options.task if task not in had]
    outs = {row: made(options.model, folder, row, options.place) for row in rows if todo}
    for task in todo:
        found = real.pith("compare", folder, *outs.values(), "--tasks", task, "--task-limit", options.items)
        kept.add({**key, "task": task, "bits": [m["bits_per_weight"] for m in found["models"]],
                  "found": [m["tasks"][0] for m in found["models"]]})
    for out in outs.values():
        shutil.rmtree(out)


def cell(task, kind):
    """Percent; and points of difference, with their interval and McNemar's p."""
    if "delta" + kind not in task:
        return f"{100 * task['accuracy' + kind]:.1f}"
    low, high = task["delta" + kind + "_ci95"]
    return (f"{100 * task['accuracy' + kind]:.1f}: {100 * task['delta' + kind]:+.1f} ({100 * low:+.1f} to {100 * high:+.1f}), "
            f"p {task['mcnemar_p' + kind]:.2f}")


def table(kept):
    for one in kept:
        names = ["original", *(f"`{r}`, {b:.2f} bits" for r, b in zip(one["rows"], one["bits"][1:]))]
        if one is kept[0] or one["rows"] != kept[0]["rows"]:
            print("| model, task | items | by | " + " | ".join(names) + " |")
            print("|---|---:|---|" + "---:|" * len(names))
        for kind, said in KINDS.items():
            if "accuracy" + kind in one["found"][0]:
                cells = [cell(t, kind) for t in one["found"]]
                print(f"| {one['model']}, {one['found'][0]['name']} | {one['found'][0]['n']} | {said} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-m", "--model", default="smollm2", choices=list(real.real_models.MODELS))
    parser.add_argument("-n", "--items", type=int, default=100)
    parser.add_argument("-p", "--place", type=pathlib.Path, default=real.ROOT / "build/real")
    parser.add_argument("-r", "--row", action="append")
    parser.add_argument("--table", action="store_true", help="print the table of what was measured, and measure nothing")
    parser.add_argument("task", nargs="*")
    options = parser.parse_args()
    options.place.mkdir(parents=True, exist_ok=True)
    kept = real.Kept(options.place / "tasks.jsonl")
    if not options.table:
        measure(options, kept)
    table(kept.rows)


if __name__ == "__main__":
    main()
