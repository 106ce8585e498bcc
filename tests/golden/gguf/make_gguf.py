#!/usr/bin/env python3
"""What llama.cpp's own converter makes of cases of tests/golden/arch: keys, and of each tensor name, shape and checksum.

    LLAMA_SOURCE=.../llama.cpp make_gguf.py [CASE]...     writes CASE.json beside this script

needs torch, transformers and the gguf package of those sources. A case is a line of tests/cli/gguf_cases.txt: its
name, the loss that llama.cpp gives the file, and what is changed in it. facts.py holds pith's files against these."""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "interop")]
from facts import facts_of  # noqa: E402

SOURCE = os.environ["LLAMA_SOURCE"]
# The converter knows tokenizers by a hash, and takes classes of transformers: neither is there for tiny ones.
CONVERT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
sys.path.insert(0, sys.path[0] + "/gguf-py")
import convert_hf_to_gguf as c
import transformers
from conversion.base import TextModel
transformers.AutoTokenizer = transformers.PreTrainedTokenizerFast
TextModel.get_vocab_base_pre = lambda self, tokenizer: sys.argv[-1]
c.main()
"""


def main():
    with open(os.path.join(ROOT, "tests", "cli", "gguf_cases.txt")) as f:
        lines = [line.split(None, 2) for line in f if line.strip() and not line.startswith("#")]
    cases = {case: rest[0].strip() if rest else "{}" for case, _, *rest in lines}
    for case in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as work:
            folder, out = work + "/" + case, work + "/out.gguf"
            subprocess.run([sys.executable, ROOT + "/tests/cli/arch_case.py", case, folder, work + "/text", cases[case]], check=True)
            subprocess.run([sys.executable, ROOT + "/tests/cli/byte_tokens.py", folder], check=True)
            options = ["--no-mtp"] if case.startswith("qwen3_") else []
            subprocess.run([sys.executable, "-c", CONVERT.replace("sys.argv[-1]", repr("gpt-2")), SOURCE, folder, "--outfile", out,
                            "--outtype", "f32", *options], check=True, capture_output=True)
            text = json.dumps(facts_of(out), indent=0)
        text = re.sub(r"\[\n([^\[\]{}]*)\n\]", lambda m: "[" + m[1].replace("\n", " ") + "]", text)
        with open(os.path.join(HERE, case + ".json"), "w") as f:
            f.write(text + "\n")


if __name__ == "__main__":
    main()
