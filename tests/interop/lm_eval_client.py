#!/usr/bin/env python3
"""lm-eval's local-completions against `pith serve --mode exact --kv f32`: the same accuracies as `pith eval --tasks` of the same
tasks. Not of tasks where a choice merges with the end of its prompt ("undecided"): the harness then scores the prompt's own tokens and the
rest, pith the tokens of the whole. Log-likelihoods go through /v1/completions: lists of ids, echo, logprobs.

    lm_eval_client.py PITH MODEL TASK.jsonl...
"""
import json
import os
import subprocess
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import lm_eval  # noqa: E402
from lm_eval.models.openai_completions import LocalCompletionsAPI  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {path}
test_split: test
output_type: multiple_choice
doc_to_text: context
doc_to_target: answer
doc_to_choice: choices
target_delimiter: ""
metric_list:
  - metric: acc
"""


def served(url, model, tasks, work):
    for path in tasks:
        name = os.path.splitext(os.path.basename(path))[0]
        with open(os.path.join(work, name + ".yaml"), "w", encoding="utf-8") as f:
            f.write(TASK.format(name="pith_" + name, path=os.path.abspath(path)))
    lm = LocalCompletionsAPI(base_url=url + "/v1/completions", model=os.path.basename(model.rstrip("/")), tokenizer=model, num_concurrent=8,
                             batch_size=4, add_bos_token=True, max_length=512)
    names = ["pith_" + os.path.splitext(os.path.basename(p))[0] for p in tasks]
    manager = TaskManager(include_path=work, include_defaults=False)
    results = lm_eval.simple_evaluate(model=lm, tasks=names, task_manager=manager, bootstrap_iters=0)["results"]
    return {n.removeprefix("pith_"): results[n]["acc,none"] for n in names}


def main():
    pith, model, *tasks = sys.argv[1:]
    arguments = [a for t in tasks for a in ("--tasks", t)]
    report = json.loads(subprocess.run([pith, "eval", model, *arguments, "--kv", "f32", "--json", "--quiet"], check=True, stdout=subprocess.PIPE).stdout)
    ours = {os.path.splitext(os.path.basename(t["name"]))[0]: t["accuracy"] for t in report["tasks"] if t["undecided"] == 0}
    for t in report["tasks"]:
        if t["undecided"]:
            print(f"[  SKIPPED ] lm-eval: {t['name']}: {t['undecided']} items have choices that merge with their prompts")
    with tempfile.TemporaryDirectory() as work:
        server = subprocess.Popen([pith, "serve", model, "--port", "0", "--quiet", "--mode", "exact", "--kv", "f32"], stdout=subprocess.PIPE, text=True)
        try:
            theirs = served(server.stdout.readline().strip(), model, tasks, work)
        finally:
            server.terminate()
            server.wait(40)
    bad = False
    for name in ours:
        same = abs(ours[name] - theirs[name]) < 1e-9
        bad |= not same
        print(f"[{'       OK ' if same else '  FAILED  '}] lm-eval: {name}: {theirs[name]:.4f}, pith eval {ours[name]:.4f}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
