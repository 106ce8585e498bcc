"""Nasty strings for tokenizer tests: any Unicode, any bytes, reproducible by seed."""
import random
import unicodedata

SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680\u180e\u2000\u2003\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
MARKS = "\u0300\u0301\u0323\u0345\u05b0\u05bc\u064b\u0651\u093c\u0e38\u1dce\u20d0\u3099\ufe0f\u200d\u200c"
SPECIALS = "\x00\x01\x1b\x7f\x80\x9f\u0149\u017f\u212a\u1e9e\u00df\u0130\u0131\u2019\ufb01\ufffd\uffff\U0010ffff\ue000\U000e0001"
NEWER = "\u0897\u0cf3\u1c89\ua7cb\u2ffc\U00010d4a\U00011f02\U0001611e\U0001e4d0\U0001e5f0\U00031350\U000323af\U0002ebf0\U0001fa75\U00016d41"
DIGITS = "0123456789\u0661\u0967\u0e52\u2460\u00bd\u2167\u3007\U0001d7d8\u00b2"
PHRASES = [
    "The quick brown fox jumps over 13 lazy dogs' tails; isn't it? WE'LL see they'VE DONE it, I'm sure you'd agree.",
    "Été à Zürich: naïve façade, smörgåsbord, Ångström, œuvre, ßtraße, İstanbul, ĳsvrij",
    "Съешь же ещё этих мягких французских булок, да выпей чаю 2024 года",
    "Η γρήγορη αλεπού πηδάει πάνω από το σκυλί ΣΊΣΥΦΟΣ",
    "敏捷的棕色狐狸跳过了懒狗。第１２３章　天気がいいから、散歩しましょう。カタカナ ｶﾀｶﾅ",
    "빠른 갈색 여우가 게으른 개를 뛰어넘습니다. \u1112\u1161\u11ab\u1100\u1173\u11af",
    "الثعلب البني السريع يقفز فوق الكلب الكسول ١٢٣ \u200fمرحبا\u200e",
    "השועל החום המהיר קופץ מעל הכלב העצלן שָׁלוֹם",
    "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है १२३ क्षत्रिय",
    "สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ ๑๒๓",
    "👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 👍🏽 ☃️ 🤷🏿‍♀️ ∑∫√∞ ≠ ½ ² ℵ № ™",
    "def f(x):\n\tif x == 0:\n\t\treturn  {'a': [1,2.5e-10], \"b\": None}\r\n\n\n    # comment   \n\treturn x**2;",
    "https://example.org/a?b=c&d=%20#e user@mail.example 192.168.0.1 1,234,567.89 $5 €10 10% (a+b)*c",
    "<s> </s> <unk> <0x41> <0x0A> <|endoftext|> [INST] ▁▁word Ġhello Ċ <pad>\u2581",
    "cafe\u0301 A\u030a \u212b \ufb01 \u1e9b\u0323 q\u0307\u0323 \u0958 \u0f73 \uac00\u11a8",
]
TAGS = ["<s>", "</s>", "<unk>", "<|begin_of_text|>", "<|end|>", "<tool>", "<TOOL>", "[X]", "wordy", "Mixed", "É",
        "<|im_start|>", "<left>", "<right>", "<both>", "   ", "<pad>", "ab", "abc", "<user>", "▁tag"]


def any_char(r):
    while True:
        c = r.randrange(0x110000)
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def letter(r):
    block = r.choice([0x41, 0x61, 0xC0, 0x180, 0x370, 0x400, 0x5D0, 0x620, 0x904, 0xE01, 0x1100, 0x1E00, 0x3041,
                      0x4E00, 0xAC00, 0x10400, 0x1F600, 0x2000, 0x2190, 0x2460])
    return chr(block + r.randrange(64))


def pieces(r, texts):
    kind = r.randrange(14)
    if kind == 0:
        return "".join(any_char(r) for _ in range(r.randint(1, 30)))
    if kind == 1:
        return "".join(letter(r) for _ in range(r.randint(1, 30)))
    if kind == 2:
        return "".join(r.choice(SPACES) for _ in range(r.randint(1, 8)))
    if kind == 3:
        return "".join(r.choice(DIGITS) for _ in range(r.randint(1, 12)))
    if kind == 4:
        return letter(r) + "".join(r.choice(MARKS) for _ in range(r.randint(1, 6)))
    if kind == 5:
        return r.choice(["'", "’"]) + r.choice(["s", "S", "t", "re", "RE", "vE", "m", "ll", "LL", "d", "ſ", "x", "ß", "K"])
    if kind == 6:
        return r.choice(TAGS)
    if kind == 7:
        p = r.choice(PHRASES)
        a = r.randrange(len(p))
        return p[a:a + r.randint(1, 60)]
    if kind == 8:
        t = r.choice(texts)
        a = r.randrange(len(t))
        return t[a:a + r.randint(1, 80)]
    if kind == 9:
        return r.choice(SPECIALS + NEWER)
    if kind == 10:
        return r.choice([" ", "\n", "\t", "a", "é", "的", "_", "-", "\r\n", "\u0301", "▁", "!", "  \n"]) * r.randint(1, 40)
    if kind == 11:
        return "".join(chr(r.randrange(128)) for _ in range(r.randint(1, 20)))
    if kind == 12:
        return r.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") * r.randint(1, 4)
    return r.choice(["", " ", "  ", "\n\n"])


def broken(r, s):
    """Bytes that are not UTF-8: truncated, spliced, random."""
    b = bytearray(s.encode())
    for _ in range(r.randint(1, 4)):
        at = r.randrange(len(b) + 1)
        how = r.randrange(3)
        if how == 0:
            b[at:at] = bytes([r.randrange(128, 256)])
        elif how == 1:
            del b[at:at + 1]
        else:
            b[at:at] = r.choice([b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xe2\x96", b"\xff\xfe", b"\xf0\x9f\x98"])
    return bytes(b)


def strings(count, texts, seed=1):
    r = random.Random(seed)
    out = [b""] + [chr(c).encode() for c in range(0, 128, 7)] + [p.encode() for p in PHRASES]
    out += [(t + " " + t + t.upper()).encode() for t in TAGS]
    while len(out) < count:
        s = "".join(pieces(r, texts) for _ in range(r.choice([1, 1, 2, 3, 5, 8])))
        out.append(broken(r, s) if r.randrange(12) == 0 else s.encode())
    return out[:count]


def all_characters(step=1):
    """Every code point once, in strings of 64, each between letters so that it touches words."""
    cps = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Co"]
    for i in range(0, len(cps), 64 * step):
        yield "".join(f"a{chr(c)}'{chr(c)} 1{chr(c)}" for c in cps[i:i + 64]).encode()
