"""The examples of docs/python.md run as they stand, in one program."""
import os
import re
import subprocess
import sys

import pytest


def test_examples(root, tmp_path):
    pytest.importorskip("numpy")
    text = (root / "docs/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert len(blocks) >= 6
    os.symlink(root / "models", tmp_path / "models")
    (tmp_path / "examples.py").write_text("\n".join(blocks), encoding="utf-8")
    ran = subprocess.run([sys.executable, "examples.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         timeout=300)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    assert "ARG" in ran.stdout and "gptq" in ran.stdout and (tmp_path / "page.html").exists() and (tmp_path / "out2").exists()
