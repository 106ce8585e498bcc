"""Small seeds for the fuzz targets, cut from the committed .tok files. Usage: make_seeds.py FUZZ_CORPUS_DIR"""
import glob
import json
import os
import struct
import sys

from sentencepiece import sentencepiece_model_pb2 as proto

KEEP = set("helo wrdabc123Ġ▁Ċ<s>/'")


def cut_unigram(data):
    model = data["model"]
    model["vocab"] = [(t, score) for t, score in model["vocab"] if set(t) <= KEEP or t in (
        "<unk>", "<s>", "</s>", "<0x41>", "<0xFF>", "<0xC3>", "<0xA9>")]
    ids = {t: i for i, (t, _) in enumerate(model["vocab"])}
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] in ids or not t["special"]]
    for n, t in enumerate(t for t in data["added_tokens"] if t["content"] not in ids):
        t["id"] = len(ids) + n
    for name, t in data["post_processor"]["special_tokens"].items():
        t["ids"] = [ids[name]]


def cut_json(raw):
    data = json.loads(raw)
    model = data["model"]
    if model["type"] == "Unigram":
        cut_unigram(data)
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    keep = {t: i for t, i in model["vocab"].items() if set(t.removesuffix("</w>").removeprefix("##")) <= KEEP or
            t in ("<unk>", "<s>", "</s>", "<0x41>", "<0xFF>", "<0xC3>", "<0xA9>")}
    prefix = model.get("continuing_subword_prefix") or ""
    merges = [(a, b) for a, b in model["merges"] if a in keep and b in keep and a + b[len(prefix):] in keep][:40]
    used = {x for a, b in merges for x in (a, b, a + b[len(prefix):])}
    keep = [t for t in keep if t in used or len(t) < 4 or t[0] == "<"]
    old = {i: t for t, i in model["vocab"].items()}
    model["vocab"] = {t: n for n, t in enumerate(keep)}
    model["merges"] = merges
    added = [t for t in data["added_tokens"] if t["content"] in keep or t["id"] not in old]
    for n, t in enumerate(t for t in added if t["content"] not in keep):
        t["id"] = len(keep) + n
    data["added_tokens"] = added
    ids = {t["content"]: t["id"] for t in added} | model["vocab"]

    def renumber(node):
        for name, t in node.get("special_tokens", {}).items():
            t["ids"] = [ids[name]]
        for sub in node.get("processors", []):
            renumber(sub)
    if data["post_processor"]:
        renumber(data["post_processor"])
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


def cut_spm(raw):
    m = proto.ModelProto.FromString(raw)
    pieces = [p for i, p in enumerate(m.pieces) if p.type != 1 or set(p.piece) <= KEEP]
    n = proto.ModelProto(pieces=pieces, trainer_spec=m.trainer_spec, normalizer_spec=m.normalizer_spec)
    return n.SerializeToString()


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in sorted(glob.glob(os.path.join(here, "*.tok"))):
        with open(path, "rb") as f:
            head = f.read(13)
            raw = f.read(struct.unpack("<I", head[9:])[0])
        name = os.path.basename(path)[:-4]
        target, out = ("tokenizer_spm", cut_spm(raw)) if head[8] else ("tokenizer_json", cut_json(raw))
        os.makedirs(os.path.join(sys.argv[1], target), exist_ok=True)
        with open(os.path.join(sys.argv[1], target, name), "wb") as f:
            f.write(out)


main()
