"""The model class for lm-evaluation-harness, against `pith eval --tasks` and sums of log-probabilities."""
import json
import os
import subprocess
import sys

import pytest

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
pytest.importorskip("lm_eval")

import lm_eval  # noqa: E402
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

import pith  # noqa: E402
import pith.lm_eval  # noqa: E402

TASK = """task: pith_{name}
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


@pytest.fixture(scope="module")
def model(probe):
    return pith.lm_eval.PithLM(str(probe), kv="f32", threads=2)


def asked(kind, *arguments):
    return [Instance(request_type=kind, doc={}, arguments=a, idx=i) for i, a in enumerate(arguments)]


def test_accuracies_are_those_of_pith_eval(model, probe, tmp_path):
    """Not of tasks where a choice merges with the end of its prompt ("undecided"): the harness then scores other tokens."""
    files = sorted((probe / "tasks").glob("*.jsonl"))
    ours = {t["name"]: t for t in pith.evaluate(probe, tasks=[str(f) for f in files], kv="f32")["tasks"]}
    ours = {os.path.splitext(os.path.basename(n))[0]: t["accuracy"] for n, t in ours.items() if not t["undecided"]}
    assert len(ours) >= 3
    for f in files:
        (tmp_path / f"{f.stem}.yaml").write_text(TASK.format(name=f.stem, path=f))
    found = lm_eval.simple_evaluate(model=model, tasks=[f"pith_{n}" for n in ours], bootstrap_iters=0,
                                    task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False))["results"]
    assert {n: found[f"pith_{n}"]["acc,none"] for n in ours} == pytest.approx(ours, abs=1e-8)


def test_loglikelihoods(model):
    context, rest = "12 * 11 =", " 132."
    greedy = model.engine.generate(context, max_tokens=4, logprobs=0)
    (value, is_greedy), (best, is_best), (alone, _) = model.loglikelihood(
        asked("loglikelihood", (context, rest), (context, greedy.text), ("", "Once upon a time")), disable_tqdm=True)
    ids = model.engine.encode(context + rest)
    tokens = model.engine.generate(ids, max_tokens=1, prompt_logprobs=0).prompt[len(model.engine.encode(context)):]
    assert value == sum(t.logprob for t in tokens) and not is_greedy
    assert best == pytest.approx(sum(t.logprob for t in greedy.tokens), abs=1e-6) and is_best
    assert alone == sum(t.logprob for t in model.engine.generate("Once upon a time", max_tokens=1, prompt_logprobs=0).prompt[1:])


def test_rolling(model, probe):
    text = (probe / "eval.txt").read_text()[:6000]
    [total] = model.loglikelihood_rolling(asked("loglikelihood_rolling", (text,)), disable_tqdm=True)
    short = "A short text, in one window."
    [one] = model.loglikelihood_rolling(asked("loglikelihood_rolling", (short,)), disable_tqdm=True)
    assert one == sum(t.logprob for t in model.engine.generate(short, max_tokens=1, prompt_logprobs=0).prompt[1:])
    ids = model.engine.encode(text, special=False)
    assert len(ids) > 2 * model.max_length  # several windows, each token scored once
    by_hand, at = 0.0, 0
    while at < len(ids):
        count = min(model.max_length, len(ids) - at)
        window = [model.prefix_token_id, *ids[:count]] if at == 0 else ids[max(0, at + count - model.max_length - 1):at + count]
        by_hand += sum(t.logprob for t in model.engine.generate(window, max_tokens=1, prompt_logprobs=0).prompt[-count:])
        at += count
    assert total == pytest.approx(by_hand, rel=1e-5)


def test_generate_until(model):
    whole = model.engine.generate("Once upon a time", max_tokens=20).text
    word = whole.split()[4]
    got = model.generate_until(asked("generate_until", ("Once upon a time", {"until": [word], "max_gen_toks": 20}),
                                     ("Once upon a time", {"until": "@@", "max_new_tokens": 20, "do_sample": False, "temperature": 1.0})),
                               disable_tqdm=True)
    assert got == [whole[:whole.index(word)], whole]
    with pytest.raises(pith.ArgumentError, match="num_beams"):
        model.generate_until(asked("generate_until", ("x", {"num_beams": 4})), disable_tqdm=True)


def test_its_command_line(probe, tmp_path):
    (tmp_path / "arithmetic.yaml").write_text(TASK.format(name="arithmetic", path=probe / "tasks/arithmetic.jsonl"))
    ran = subprocess.run([sys.executable, "-m", "pith.lm_eval", "run", "--model", "pith", "--model_args", f"model={probe},kv=f32,threads=2",
                          "--include_path", str(tmp_path), "--tasks", "pith_arithmetic", "--limit", "20", "--output_path", str(tmp_path / "out")],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout
    [found] = (tmp_path / "out").rglob("results*.json")
    assert "acc,none" in json.loads(found.read_text())["results"]["pith_arithmetic"]
