#!/usr/bin/env python3
"""What lm-evaluation-harness 0.4.13 and transformers make of tasks: golden.json.

Usage: make_tasks.py [DATA [keep]] | chat   (run in this folder; needs lm-eval, torch, transformers, sentencepiece)

The small files in this folder were written for these tests. With DATA, the folder of real models and
tasks, figures of those too; without it, those in golden.json are kept, and with "keep" those of the small files; with "chat"
only questions as conversations are made again. Prompts, choices, examples and
their order, scores and accuracies are the harness's own: its task files are used with local data in
place of a download. Models compute in float32."""
import bz2
import csv
import importlib.util
import json
import os
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
import lm_eval
import torch
import yaml
from lm_eval import evaluator
from lm_eval.api.metrics import aggregate_subtask_metrics
from lm_eval.api.task import ConfigurableTask
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizer

torch.set_num_threads(2)
TASKS = os.path.join(os.path.dirname(lm_eval.__file__), "tasks")


class Pieces(PreTrainedTokenizer):
    """SentencePiece itself, with BOS in front, in the form that the harness asks for."""

    def __init__(self, path, **kwargs):
        import sentencepiece

        self.sp = sentencepiece.SentencePieceProcessor(model_file=path)
        super().__init__(bos_token="<s>", eos_token="</s>", unk_token="<unk>", **kwargs)

    @property
    def vocab_size(self):
        return self.sp.get_piece_size()

    def get_vocab(self):
        return {self.sp.id_to_piece(i): i for i in range(self.vocab_size)}

    def encode(self, text, add_special_tokens=True, **kwargs):
        return ([self.sp.bos_id()] if add_special_tokens else []) + self.sp.encode(text)

    def decode(self, token_ids, **kwargs):
        ids = [token_ids] if isinstance(token_ids, int) else [int(i) for i in token_ids]
        return "<s>" if ids == [self.sp.bos_id()] else self.sp.decode(ids)

    def _tokenize(self, text, **kwargs):
        return self.sp.encode(text, out_type=str)

    def _convert_token_to_id(self, token):
        return self.sp.piece_to_id(token)

    def _convert_id_to_token(self, index):
        return self.sp.id_to_piece(index)


def load(path):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    pieces = os.path.join(path, "tokenizer.model")
    tok = AutoTokenizer.from_pretrained(path) if not os.path.exists(pieces) else Pieces(pieces)
    return HFLM(pretrained=model, tokenizer=tok, batch_size=1, device="cpu", dtype="float32")


def official(path):
    """The harness's own task file, its functions resolved."""
    full = os.path.join(TASKS, path)

    class Loader(yaml.SafeLoader):
        pass

    def function(loader, node):
        module, name = loader.construct_scalar(node).rsplit(".", 1)
        spec = importlib.util.spec_from_file_location(module, os.path.join(os.path.dirname(full), module + ".py"))
        m = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(m)
        return getattr(m, name)

    Loader.add_constructor("!function", function)
    with open(full) as f:
        config = yaml.load(f, Loader)
    base = config.pop("include", None)
    config = (official(os.path.join(os.path.dirname(path), base)) if base else {}) | config
    return {k: v for k, v in config.items() if k not in ("tag", "task_alias", "dataset_name")}


def write(rows):
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    return f.name


def make(config, name, rows, examples=None, **more):
    """A task over rows; the examples are the rows themselves unless others are given."""
    files = {"test": write(rows)} | ({"train": write(examples)} if examples else {})
    config = config | {"task": name, "dataset_path": "json", "dataset_name": None, "test_split": "test",
                       "validation_split": None, "training_split": "train" if examples else None,
                       "fewshot_split": "train" if examples else "test",
                       "dataset_kwargs": {"data_files": files}} | more
    return ConfigurableTask(config=config)


def lines(path):
    opened = bz2.open(path, "rt", encoding="utf-8", newline="\n") if path.endswith(".bz2") else open(path, encoding="utf-8")
    with opened as f:
        return f.read().split("\n")


def jsonl(path):
    return [json.loads(x) for x in lines(path) if x.strip()]


def arc(path):
    rows = []
    for r in jsonl(path):
        if "query" in r:  # llm-foundry's copy
            labels = [chr(65 + i) for i in range(len(r["choices"]))]
            r = {"question": r["query"].removeprefix("Question: "),
                 "choices": {"text": r["choices"], "label": labels}, "answerKey": labels[r["gold"]]}
        elif isinstance(r["question"], dict):  # the authors' form
            c = r["question"]["choices"]
            r = {"question": r["question"]["stem"], "answerKey": r["answerKey"],
                 "choices": {"text": [x["text"] for x in c], "label": [x["label"] for x in c]}}
        rows.append(r)
    return rows


def piqa(path):
    with open(path.replace(".jsonl", "-labels.lst")) as f:
        return [r | {"label": int(a)} for r, a in zip(jsonl(path), f.read().split())]


def six(path):
    rows, x = [], [line.removesuffix("\r") for line in lines(path)]
    for i in range(0, len(x) - 5, 6):
        rows.append({"query": x[i], "label": x[i + 1], "choices": x[i + 2 : i + 6]})
    return rows


def sheet(path):
    with open(path, newline="", encoding="utf-8") as f:
        rows = [r for r in csv.reader(f) if r and r[5] != "answer"]
    return [{"question": r[0], "choices": r[1:5], "answer": "0123ABCD".index(r[5]) % 4} for r in rows]


def tasks_of(kind, path, examples):
    if kind == "mmlu":
        out, default = [], official("mmlu/default/mmlu_anatomy.yaml")
        for file in sorted(os.listdir(path + "/test")):
            name = file.removesuffix("_test.csv")
            own = f"mmlu/default/mmlu_{name}.yaml"
            config = official(own) if os.path.exists(os.path.join(TASKS, own)) else default | {
                "description": default["description"].replace("anatomy", name.replace("_", " "))}
            out.append(make(config, name, sheet(f"{path}/test/{file}"), sheet(f"{path}/dev/{name}_dev.csv"),
                            process_docs=None))
        return out
    config, read = {"arc": ("arc/arc_easy.yaml", arc), "hellaswag": ("hellaswag/hellaswag.yaml", jsonl),
                    "six": ("hellaswag/hellaswag.yaml", six), "piqa": ("piqa/piqa.yaml", piqa),
                    "lambada": ("lambada/lambada_openai.yaml", jsonl)}[kind]
    more = {"process_docs": None} if kind == "six" else {}
    rows = read(path)
    if kind == "hellaswag":  # a column has one type in a table
        rows = [r | {"label": str(r["label"])} for r in rows]
    return [make(official(config), kind, rows, read(examples) if examples else None, **more)]


def digits(x):
    return round(x, 5)


def measure(lm, kind, path, shots, limit, examples=None, chat=None):
    """Each choice's log-probability (and whether it is what the model would say), item by item."""
    out = {"scores": [], "right": [], "right_norm": [], "greedy": []}
    names, sizes, ppl = [], [], []
    for task in tasks_of(kind, path, examples):
        task.set_config("num_fewshot", shots)
        task.set_fewshot_seed(1234)
        got = evaluator.evaluate(lm=lm, task_dict={task.config.task: task}, limit=limit, bootstrap_iters=0,
                                 log_samples=True, apply_chat_template=bool(chat), fewshot_as_multiturn=bool(chat))
        samples = sorted(got["samples"][task.config.task], key=lambda s: s["doc_id"])
        for s in samples:
            out["scores"].append([digits(r[0][0]) for r in s["resps"]])
            out["greedy"].append([int(r[0][1]) for r in s["resps"]])
            out["right"].append(int(s["acc"]))
            if "acc_norm" in s:
                out["right_norm"].append(int(s["acc_norm"]))
        result = got["results"][task.config.task]
        names.append([task.config.task, len(samples), digits(result["acc,none"])])
        sizes.append(len(samples))
        if "perplexity,none" in result:
            ppl.append(result["perplexity,none"])
    out["accuracy"] = digits(aggregate_subtask_metrics([n[2] for n in names], sizes, weight_by_size=True))
    out |= {"groups": names} if kind == "mmlu" else {}
    out |= {"perplexity": float(f"{ppl[0]:.7g}")} if ppl else {}
    told = {"chat": chat} if chat else {}
    return {"path": path, "shots": shots, "limit": limit or 0} | told | {k: v for k, v in out.items() if v != []}


OWN = [("arc", "arc_test.jsonl", "arc_train.jsonl"), ("arc", "ARC-Own-Test.jsonl", None),
       ("hellaswag", "hellaswag_val.jsonl", None), ("six", "hellaswag.txt", None),
       ("piqa", "piqa/valid.jsonl", "piqa/train.jsonl"), ("lambada", "lambada_own.jsonl", None), ("mmlu", "mmlu", None)]
REAL = [("lambada", "lambada_test.jsonl", 40), ("piqa", "piqa/valid.jsonl", 20), ("arc", "arc_easy.jsonl", 20),
        ("six", "hellaswag_val_full.txt.bz2", 20), ("mmlu", "mmlu", 1)]


def save(golden):
    with open("golden.json", "w") as f:
        f.write("{" + ",\n".join(json.dumps(k) + ": [\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in v) + "]"
                                 for k, v in golden.items()) + "}\n")


def conversations(lm):
    """Each form once, with examples where it has some, by two templates: one that writes BOS, one that refuses a system."""
    rows = []
    for chat in ("turns.jinja", "no_system.jinja"):
        with open(chat, encoding="utf-8") as f:
            lm.tokenizer.chat_template = f.read()
        for kind, path, examples in OWN:
            rows.append(measure(lm, kind, path, 1, None, examples, chat))
            print(chat, path, rows[-1]["accuracy"])
    return rows


def main():
    old = json.load(open("golden.json")) if os.path.exists("golden.json") else {}
    if sys.argv[1:] == ["chat"]:
        save(old | {"chat": conversations(load("../eval/tiny"))})
        return
    golden = {"own": old.get("own", []) if sys.argv[2:] == ["keep"] else [], "chat": old.get("chat", []),
              "real": old.get("real", [])}
    tiny = None if golden["own"] else load("../eval/tiny")
    for kind, path, examples in OWN if tiny else []:
        for shots in (0, 2) if kind != "mmlu" else (0, 1, 5):
            row = measure(tiny, kind, path, shots, None, examples)
            golden["own"].append(row)
            print(path, shots, row["accuracy"])
    if len(sys.argv) > 1:
        golden["real"] = []
        for name in ("probe", "stories260K"):
            lm = load(f"{sys.argv[1]}/models/{name}")
            for kind, path, limit in REAL:
                for shots in (0, 5):
                    row = measure(lm, kind, f"{sys.argv[1]}/tasks/{path}", shots, limit)
                    golden["real"].append({"model": name} | row | {"path": path})
                    print(name, path, shots, row["accuracy"], row.get("perplexity"), flush=True)
                    save(golden)
    save(golden)


if __name__ == "__main__":
    main()
