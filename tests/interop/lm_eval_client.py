#!/usr/bin/env python3
"""lm-eval's local-completions against `pith serve --mode exact --kv f32`: the same accuracies as `pith eval --tasks` of the same
tasks, and the same perplexity of a text to 1e-4. Not of tasks where a choice merges with the end of its prompt ("undecided"): the harness
then scores the prompt's own tokens and the rest, pith the tokens of the whole. Log-likelihoods go through /v1/completions: lists of ids,
echo, logprobs. The tasks' tokens are those of /tokenize, the text's those of transformers.

    lm_eval_client.py PITH MODEL TASK.jsonl...
"""
import json
import math
import os
import subprocess
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import lm_eval  # noqa: E402
from lm_eval.models.openai_completions import LocalCompletionsAPI  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

PIECES, WINDOW = 4, 510
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


def pieces_of(tokenizer, text):
    """PIECES pieces of a text that are WINDOW tokens each."""
    pieces, begin = [], 0
    while len(pieces) < PIECES:
        end = begin + WINDOW
        while len(tokenizer(text[begin:end], add_special_tokens=False)["input_ids"]) < WINDOW:
            end += 1
        pieces.append(text[begin:end])
        begin = end
    return pieces


def perplexities(url, model, text):
    """(the perplexity of each piece of a text, one window with BOS in front to the harness, the pieces)"""
    from lm_eval.api.instance import Instance

    # Not the server's tokenizer, which the harness takes by itself: it would put BOS before the text, and the harness another before that.
    lm = LocalCompletionsAPI(base_url=url + "/v1/completions", model=os.path.basename(model.rstrip("/")), tokenizer=model,
                             tokenizer_backend="huggingface", max_length=WINDOW + 2)  # of which it keeps one for an answer and one for BOS
    pieces = pieces_of(lm.tokenizer, text)
    sums = lm.loglikelihood_rolling([Instance("loglikelihood_rolling", {}, (t,), i) for i, t in enumerate(pieces)])
    return [math.exp(-x / WINDOW) for x in sums], pieces


def eval_texts(pith, model, pieces, work):
    """The same of `pith eval`."""
    arguments = []
    for i, text in enumerate(pieces):
        arguments += ["--text", os.path.join(work, "%d.txt" % i)]
        with open(arguments[-1], "w", encoding="utf-8", newline="") as f:
            f.write(text)
    said = subprocess.run([pith, "eval", model, *arguments, "--kv", "f32", "--context", str(WINDOW + 1), "--json", "--quiet"], check=True,
                          stdout=subprocess.PIPE).stdout
    return [t["perplexity"] for t in json.loads(said)["texts"] if t["tokens"] == WINDOW]


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
            url = server.stdout.readline().strip()
            with open(os.path.join(model, "eval.txt"), encoding="utf-8") as f:
                ppl, pieces = perplexities(url, model, f.read())
            ours_ppl = eval_texts(pith, model, pieces, work)
            theirs = served(url, model, tasks, work)
        finally:
            server.terminate()
            server.wait(40)
    off = max(abs(a / b - 1) for a, b in zip(ppl, ours_ppl))
    bad = off > 1e-4 or len(ppl) != len(ours_ppl)
    print(f"[{'  FAILED  ' if bad else '       OK '}] lm-eval: perplexities {' '.join('%.6f' % x for x in ppl)} differ by {off:.1g} from pith eval's")
    for name in ours:
        same = abs(ours[name] - theirs[name]) < 1e-9
        bad |= not same
        print(f"[{'       OK ' if same else '  FAILED  '}] lm-eval: {name}: {theirs[name]:.4f}, pith eval {ours[name]:.4f}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
