"""Two kinds of generated text that no calibration text holds: notations, and knitting patterns.

    domains.py SEED COUNT KIND      prints COUNT documents of KIND (notation or knitting), a blank line between them

Every document is made of lines whose ends follow from their beginnings, so that there is something to learn.
The generator is Python's random.Random, whose numbers are the same on every machine.
"""
import random
import sys

WORDS = """anchor apple arrow basket beacon bell bird boat book bottle branch bread bridge brother bucket button cabin
candle captain castle chair cherry circle cliff cloud coat coin copper corner cotton crown desert doctor dragon drum eagle
engine family farmer feather fence field finger fire flag flower forest friend garden glass gold grain hammer harbour
hat hill honey horse house island jacket jar journey kettle key king kitchen ladder lake lamp leaf lemon letter light
lion market meadow milk mirror moon mountain needle night north number ocean onion orange owl paper pear pebble pencil
piano pillow planet pocket queen rabbit rain river road rocket roof rope sail salt school shadow sheep ship shoe silver
sister snow song spoon spring square star stone storm street sugar summer sun table teacher thread tiger tower train
tree valley village violin wagon water whale wheel wind window winter wolf wood yellow zebra""".split()
MORSE = dict(zip("abcdefghijklmnopqrstuvwxyz", """.- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.-
.-. ... - ..- ...- .-- -..- -.-- --..""".split()))
RADIO = dict(zip("abcdefghijklmnopqrstuvwxyz", """Alfa Bravo Charlie Delta Echo Foxtrot Golf Hotel India Juliett Kilo
Lima Mike November Oscar Papa Quebec Romeo Sierra Tango Uniform Victor Whiskey Xray Yankee Zulu""".split()))
ROMAN = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
         (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


def roman(n):
    out = ""
    for value, sign in ROMAN:
        while n >= value:
            out, n = out + sign, n - value
    return out


def notation_line(r, kind):
    word = r.choice(WORDS)
    n = r.randint(1, 399)
    if kind == "morse":
        return f"morse {word} {' '.join(MORSE[c] for c in word)}"
    if kind == "radio":
        return f"radio {word} {' '.join(RADIO[c] for c in word)}"
    if kind == "roman":
        return f"roman {n} {roman(n)}"
    if kind == "hex":
        return f"hex {n} 0x{n:x}"
    if kind == "bits":
        n = r.randint(1, 127)
        return f"bits {n} {' '.join(f'{n:b}')}"
    shift = r.randint(1, 3)
    return f"shift {shift} {word} {' '.join(chr((ord(c) - 97 + shift) % 26 + 97) for c in word)}"


def notation(r):
    kinds = ["morse", "radio", "roman", "hex", "bits", "shift"]
    kind = r.choice(kinds)
    mixed = r.random() < 0.5
    return "\n".join(notation_line(r, r.choice(kinds) if mixed else kind) for _ in range(r.randint(6, 14)))


def knit_row(r, stitches):
    """One row over so many stitches: its parts, and how many stitches stand after it."""
    parts, left, after = [], stitches, 0
    while left:
        k = r.random()
        if k < 0.12 and left >= 2:
            parts.append("k2tog"), parts.append("yo")
            left, after = left - 2, after + 2
        elif k < 0.17 and left >= 2:
            parts.append("ssk")
            left, after = left - 2, after + 1
        elif k < 0.22:
            parts.append("m1")
            after += 1
        else:
            n = min(left, r.choice([1, 2, 2, 3, 4, 5, 6]))
            parts.append(f"{r.choice('kkp')}{n}")
            left, after = left - n, after + n
    return ", ".join(parts), after


def knitting(r):
    stitches = r.randint(8, 20)
    out = [f"Cast on {stitches} sts."]
    repeat, first = None, 0
    for row in range(1, r.randint(7, 14)):
        if repeat and row - first == 2 and r.random() < 0.7:
            out.append(f"Row {row}: as row {first}: {repeat}. ({stitches} sts)")
            repeat = None
            continue
        if row % 2 == 0 and r.random() < 0.5:
            out.append(f"Row {row}: p{stitches}. ({stitches} sts)")
            continue
        text, after = knit_row(r, stitches)
        if after == stitches:
            repeat, first = text, row
        else:
            repeat = None
        stitches = after
        out.append(f"Row {row}: {text}. ({stitches} sts)")
    out.append(f"Bind off {stitches} sts.")
    return "\n".join(out)


KINDS = {"notation": notation, "knitting": knitting}

if __name__ == "__main__":
    rng = random.Random(int(sys.argv[1]))
    print("\n\n".join(KINDS[sys.argv[3]](rng) for _ in range(int(sys.argv[2]))))
