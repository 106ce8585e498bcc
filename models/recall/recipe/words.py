"""Words of keys and values, and sentences between: those of src/eval/task/synthetic_words.def. Each word is one token of the probe's."""
import pathlib
import re

TEXT = (pathlib.Path(__file__).resolve().parents[3] / "src" / "eval" / "task" / "synthetic_words.def").read_text()
ADJECTIVES, NOUNS = zip(*re.findall(r'^MADE_KEY\("(.*)", "(.*)"\)$', TEXT, re.M))
FILLER = re.findall(r'^MADE_FILLER\("(.*)"\)$', TEXT, re.M)
assert len(ADJECTIVES) == 64 == len(NOUNS) == len(set(ADJECTIVES)) == len(set(NOUNS))
