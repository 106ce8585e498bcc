#!/usr/bin/env python3
"""What lm-evaluation-harness 0.4.13 makes of answers in a model's own words: said.json.

Usage: make_answers.py   (run in this folder; needs what make_tasks.py needs)

"judged": texts, targets, and what the filters and the metric of its GSM8K say of them. "spoken": its whole run of
gsm8k_own.jsonl on the probe, in float32: what was said, and how it was judged."""
import json
import random

from make_tasks import evaluator, load, make, jsonl, official
from lm_eval.api.metrics import exact_match_hf_evaluate
from lm_eval.filters.extraction import RegexFilter

CONFIG = official("gsm8k/gsm8k.yaml")
IGNORED = {k: CONFIG["metric_list"][0][k] for k in ("ignore_case", "ignore_punctuation", "regexes_to_ignore")}
FILTERS = {f["name"]: RegexFilter(**{k: v for k, v in f["filter"][0].items() if k != "function"}) for f in CONFIG["filter_list"]}
TARGETS = ["He has 3 + 4 = 7.\n#### 7", "#### 1,234", "So $5.\n#### $5", "#### -12", "#### 0.5", "#### 18.", "7", "a #### 3 b #### 40", "#### 3\n"]
TEXTS = ["", "7", " 7.", "#### 7", "#### 7.", "#### 7, or 8", "so #### 7\nQuite.", "####7", "##### 7", "#### x #### 7", "#### 6 #### 7",
         "It is 1234.", "It is 1,234 dollars", "$1,234.00", "#### 1234", "#### 1,234.", "-12", "minus -12.", "#### -12", "- 12", "--12",
         "5", "$5", "#### $5", "#### 5", "0.5", ".5", "#### .5", "#### 0.5.", "18", "18.", "18..", "...", "1...", "1 2 3", "x7y", "7-8",
         "7,8", "#### 3", "a #### 40", "40", "3", "#### ", "####  7", "#### 7 #### 8", "\u0667", "7\u00e9", "#### -", "#### -.", "$", "$$", "-$5",
         "#### 7\n\n", "7\n", "the end. 7 .", "#### ,7", "7 apples; 12 pears", "-", "12-", "#### 1 234"]


def judge(said, target):
    out = []
    for name in ("strict-match", "flexible-extract"):
        found = FILTERS[name].apply([[said]], [{}])
        found = list(found)[0][0]
        out.append(int(exact_match_hf_evaluate([found], [target], **IGNORED)["exact_match"]))
    return out


def judged():
    draw = random.Random(9)
    rows = [[t, target] for t in TEXTS for target in TARGETS]
    rows += [["".join(draw.choice("017 .,$-#x\n") if draw.random() < 0.85 else "#### " for _ in range(draw.randint(1, 16))),
              draw.choice(["#### 7", "#### 1", "#### 10", "#### 0", "#### 7.1", "-1"])] for _ in range(600)]
    return [[*row, *judge(*row)] for row in rows]


def spoken(lm, path, shots, limit):
    task = make(CONFIG, "gsm8k", jsonl(path))
    task.set_config("num_fewshot", shots)
    task.set_fewshot_seed(1234)
    got = evaluator.evaluate(lm=lm, task_dict={"gsm8k": task}, limit=limit, bootstrap_iters=0, log_samples=True)
    items = {}
    for s in got["samples"]["gsm8k"]:
        items.setdefault(s["doc_id"], {"said": s["resps"][0][0]})[s["filter"]] = int(s["exact_match"])
    return [[items[i]["said"], items[i]["strict-match"], items[i]["flexible-extract"]] for i in sorted(items)]


def main():
    out = {"judged": judged(), "spoken": []}
    lm = load("../../../models/probe")
    for shots, limit in ((0, 12), (4, 24)):
        rows = spoken(lm, "gsm8k_own.jsonl", shots, limit)
        out["spoken"].append({"shots": shots, "limit": limit, "items": rows})
    with open("said.json", "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
