"""Model folders with one model.safetensors, as files of bytes: for tools that make a model of another."""
import json
import os
import shutil
import struct


def read(folder):
    """The config, the tensors by name as safetensors describes them, and the bytes that they lie in."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        return config, header, f.read()


def write(source, out, config, header, parts):
    """OUT, which is made, with the bytes of all parts in order, and SOURCE's tokenizer."""
    os.makedirs(out)
    for name in os.listdir(source):
        if name.startswith(("tokenizer", "generation_config")):
            shutil.copy(os.path.join(source, name), out)
    with open(os.path.join(out, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(out, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.writelines(parts)
