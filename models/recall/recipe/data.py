"""Windows to train on: token ids, and where an answer that stands earlier in the window is asked for."""
import pathlib
import random
import re
import sys

from tokenizers import Tokenizer

from net import BOS, PROBE
from words import ADJECTIVES, FILLER, NOUNS

TOKENIZER = Tokenizer.from_file(str(PROBE / "tokenizer.json"))


def encode(text):
    return TOKENIZER.encode(text, add_special_tokens=False).ids


class Pieces:
    """Tokens of the parts that windows are put together from; a part begins where the tokenizer splits anyway."""

    def __init__(self):
        one = lambda w: encode(" " + w)[0]
        self.adjective, self.noun = [one(w) for w in ADJECTIVES], [one(w) for w in NOUNS]
        self.dash, self.colon, self.line = encode("-"), encode(":"), encode("\n")
        self.filler = [encode(" " + s) for s in FILLER]
        self.number, self.is_, self.dot = encode(" The number of the"), encode(" is"), encode(".")
        self.words = [i for i in range(4094) if re.fullmatch("Ġ[a-z]{3,}", TOKENIZER.id_to_token(i) or "")]


P = Pieces()


def keys(rng, count):
    return [(P.adjective[k // 64], P.noun[k % 64]) for k in rng.sample(range(4096), count)]


class Window:
    def __init__(self, size):
        self.ids, self.asked, self.size = [BOS], [], size

    def add(self, ids, asked=False):
        if asked:
            self.asked += range(len(self.ids), len(self.ids) + len(ids))
        self.ids += ids

    def full(self):
        return len(self.ids) > self.size

    def done(self):
        return self.ids[:self.size + 1], [i for i in self.asked if i <= self.size]


def old_or_new(rng, known, most, fresh):
    """An index below len(known), or len(known) for one more."""
    return len(known) if not known or (len(known) < most and rng.random() < fresh) else rng.randrange(len(known))


def pairs(rng, size):
    """A list of keys, then questions about each; or both mixed, keys asked for again and again."""
    w, k, known = Window(size), keys(rng, 700), []
    listed = rng.randrange(size // 12, size // 9) if rng.random() < 0.6 else 0
    fresh = rng.choice((0.4, 0.7))
    order = rng.sample(range(listed), listed)
    while not w.full():
        if listed:
            i = len(known) if len(known) < listed else order.pop() if order else rng.randrange(listed)
        else:
            i = old_or_new(rng, known, len(k), fresh)
        again = i < len(known)
        if not again:
            known.append(rng.choice(P.noun))
        w.add(P.dash + list(k[i]) + P.colon)
        w.add([known[i]], again)
        w.add(P.line)
    return w.done()


def needles(rng, size):
    w, k, known = Window(size), keys(rng, 700), []
    fresh, share = rng.choice((0.3, 0.5)), rng.choice((0.25, 0.5, 0.8))
    most = rng.choice((8, 8, 24, 700))
    while not w.full():
        if rng.random() > share:
            w.add(rng.choice(P.filler))
            continue
        i = old_or_new(rng, known, most, fresh)
        again = i < len(known)
        if not again:
            known.append(encode(" %d" % rng.randrange(1000, 10000)))
        w.add(P.number + list(k[i]) + P.is_)
        w.add(known[i], again)
        w.add(P.dot)
    return w.done()


def copies(rng, size):
    w = Window(size)
    pool = rng.choice((P.words, P.words, P.noun + P.adjective))
    while not w.full():
        if len(w.ids) > 60 and rng.random() < 0.6:
            n = rng.randrange(12, 40)
            at = rng.randrange(1, len(w.ids) - n)
            piece = w.ids[at:at + n]
            lead = 3 if pool is P.words else 5
            w.add(P.line + piece[:lead])
            w.add(piece[lead:], True)
            w.add(P.line)
        else:
            w.add([rng.choice(pool) for _ in range(rng.randrange(10, 40))])
    return w.done()


KINDS = {"pairs": pairs, "needles": needles, "copies": copies}


def texts(raw):
    """Streams of tokens, a document behind the other."""
    raw, out = pathlib.Path(raw), []
    read = lambda n: (raw / n).read_text(encoding="utf-8", errors="replace")
    for part in re.split(r"\n(?= = [^=].* = \n)", read("wiki.valid.raw")):
        out.append(re.sub(r" @([,.-])@ ", r"\1", part).strip())
    stories = read("tinystories_cased_197k.txt")
    out += [stories[i:i + 4000] for i in range(0, len(stories), 4000)]
    rng = random.Random(1)
    sys.path.insert(0, str(PROBE / "recipe"))
    import skills
    out += ["\n\n".join(skills.doc(rng) for _ in range(8)) for _ in range(400)]
    rng.shuffle(out)
    ids = []
    for t in out:
        ids += [BOS] + encode(t)
    return ids


def window(rng, kind, size):
    return KINDS[kind](rng, size)
