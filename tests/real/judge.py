"""A published model, held against transformers on the same weights: PYTHON judge.py PITH FOLDER TEXT [STRINGS]

FOLDER is what `pith convert FILE.gguf --container dense:f32` made. Its tokenizer gives the ids that `pith serve` gives on STRINGS strings cut
from TEXT at random; perplexity in windows of 512 is that of `pith eval`, within 1e-4 of it; the likeliest answers are the same."""
import json
import math
import pathlib
import random
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, logging

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import served  # noqa: E402
from served import check  # noqa: E402

CONTEXT, WINDOWS, ANSWER = 512, 2, 24
PROMPTS = ["The capital of France is", "Water boils at", "def add(a, b):\n"]


def program(pith, *arguments):
    done = subprocess.run([pith, *map(str, arguments), "--quiet"], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def perplexity(model, ids):
    """Disjoint windows, all tokens but the first of each."""
    lost = 0.0
    for first in range(0, WINDOWS * CONTEXT, CONTEXT):
        window = torch.tensor([ids[first : first + CONTEXT]])
        logits = model(window).logits[0, :-1].double()
        lost += torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="sum").item()
    return math.exp(lost / (WINDOWS * (CONTEXT - 1)))


def answer(model, tokenizer, prompt):
    given = tokenizer(prompt, return_tensors="pt")
    made = model.generate(**given, do_sample=False, max_new_tokens=ANSWER)
    return tokenizer.decode(made[0][given["input_ids"].shape[1] :], skip_special_tokens=True)


def strings(text, count):
    """Pieces of the text, and among them characters of every kind, from a fixed seed."""
    draw = random.Random(1)
    for _ in range(count):
        at = draw.randrange(len(text))
        piece = text[at : at + draw.randrange(1, 60)]
        if draw.random() < 0.5:
            plane = draw.choice([(0x20, 0x7F), (0xA0, 0x250), (0x400, 0x500), (0x4E00, 0x9FFF), (0x1F300, 0x1F650)])
            piece += "".join(chr(draw.randrange(*plane)) for _ in range(draw.randrange(1, 6)))
        yield piece + draw.choice(["", " ", "  ", "\n", "\n\n", "\t"])


def other_ids(pith, folder, tokenizer, pieces):
    """The strings, of them all, for which the server gives other ids."""
    def ids(port, piece):
        return served.post(port, {"prompt": piece}, "/tokenize")[1]["tokens"]

    with served.Server(pith, folder) as port:
        return [piece for piece in pieces if ids(port, piece) != tokenizer(piece)["input_ids"]]


@torch.inference_mode()
def main():
    pith, folder, text = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 200
    logging.set_verbosity_error()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    whole = pathlib.Path(text).read_text()
    other = other_ids(pith, folder, tokenizer, strings(whole, count))
    check(f"ids of {count} strings", not other, other)
    judged = perplexity(model, tokenizer(whole)["input_ids"])
    report = json.loads(program(pith, "eval", folder, "--text", text, "--context", CONTEXT, "--max-tokens", WINDOWS * (CONTEXT - 1), "--json"))
    check(f"perplexity {report['perplexity']:.4f} is transformers'", report["tokens"] == WINDOWS * (CONTEXT - 1)
          and abs(report["perplexity"] / judged - 1) <= 1e-4, (report["tokens"], report["perplexity"], judged))
    for prompt in PROMPTS:
        wanted, got = answer(model, tokenizer, prompt), json.loads(program(pith, "run", folder, "-p", prompt, "-n", ANSWER, "--json"))
        check(f"the answer to {prompt!r}", got["text"].rstrip("\n") == wanted.rstrip("\n"), (got, wanted))
    return served.failed


if __name__ == "__main__":
    sys.exit(main())
