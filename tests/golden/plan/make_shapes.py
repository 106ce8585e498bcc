"""Writes the parameter counts of src/plan/shapes.json anew: transformers builds each model from its config without memory (torch's
"meta" device) and its parameters are counted, tied ones once; of models that see, the language model's. The routers' corrections,
which transformers holds as buffers, are counted with them, as files hold them.

Needs transformers 5 and torch (any build). Usage: make_shapes.py, in the repository's root; says what differs, and writes nothing
then unless --write is given."""
import json
import pathlib
import sys
import tempfile
import warnings

import torch
from transformers import AutoConfig, AutoModelForCausalLM

warnings.filterwarnings("ignore")
FILE = pathlib.Path("src/plan/shapes.json")


def count(config):
    if config["model_type"] == "kimi_k2":  # the same class under another name
        config = dict(config, model_type="deepseek_v3")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        c = AutoConfig.from_pretrained(folder)
    if config.get("text_config"):
        c = c.text_config
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(c)
    model.tie_weights()
    parameters = {id(p): p.numel() for p in model.parameters()}
    corrections = [b.numel() for n, b in model.named_buffers() if n.endswith(("e_score_correction_bias", "expert_bias"))]
    return sum(parameters.values()) + sum(corrections)


text = FILE.read_text()
for shape in json.loads(text):
    n = count(shape["config"])
    if n != shape["parameters"]:
        print(f"{shape['name']}: {shape['parameters']} there, {n} counted")
        text = text.replace(f'"name": "{shape["name"]}", "parameters": {shape["parameters"]}', f'"name": "{shape["name"]}", "parameters": {n}')
if "--write" in sys.argv:
    FILE.write_text(text)
