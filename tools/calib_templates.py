"""Templates of make_calib_text.py: exercises, tables and little texts with drawn words and numbers.

Every maker takes (rng, words) and returns one document. Words differ between the calibration and
the evaluation text, so that the two share no sentence.
"""
import json


class Random:
    """SplitMix64: the same numbers on every version of Python."""

    MASK = (1 << 64) - 1

    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & self.MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & self.MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & self.MASK
        return z ^ (z >> 31)

    def between(self, low, high):
        """An integer from low to high, both included."""
        return low + self.bits() % (high - low + 1)

    def pick(self, items):
        return items[self.bits() % len(items)]

    def shuffle(self, items):
        for i in range(len(items) - 1, 0, -1):
            j = self.bits() % (i + 1)
            items[i], items[j] = items[j], items[i]

    def sample(self, items, count):
        items = list(items)
        self.shuffle(items)
        return items[:count]


class Words:
    """The words that one text draws from."""

    def __init__(self, **lists):
        for name, value in lists.items():
            setattr(self, name, [w.strip() for w in value.split("," if "," in value else None)])


CALIB_WORDS = Words(
    people="Ada Boris Clara Daniel Emma Felix Grace Henry Irene Jack Karen Leo Maria Nina Oscar"
    " Paula Quinn Rosa Simon Tara Umar Vera Walter Xenia Yusuf Zoe",
    girls="lily mia anna sue ella ruby poppy tess",
    boys="tim ben sam max tom jake finn otto",
    animals="a small brown bear, a white rabbit, a little mouse, a young fox, a fat hen, a shy"
    " deer, a green frog, a grey goose, a spotted dog, a sleepy cat",
    beasts="pip, dot, fuzz, mo, bubbles, nut, biscuit, patch, tilly, gus",
    things="red ball, wooden boat, paper crown, tin drum, blue kite, toy train, soft blanket,"
    " shiny bell, yellow hat, box of crayons, warm scarf, picture book",
    places="park, garden, forest, barn, beach, market, hill behind the house, library, pond,"
    " school yard, old mill, kitchen",
    colors="red blue green yellow black white orange purple pink grey brown silver",
    fruit="apple pear plum fig lemon grape peach melon cherry mango",
    goods="pencils, eggs, marbles, stickers, buttons, cookies, tickets, seashells, stamps, bricks",
    nouns="key code room price age score locker bus page seat",
    towns="Harrowby, Lindvale, Osterholm, Velden Cross, Marrick, Tarnow Mill, Aldersey, Brackwater,"
    " Quenby, Stellenhof, Dunmarrow, Felsted Green",
    regions="the northern uplands, the lower valley, the coastal plain, the eastern marches,"
    " the lake district, the southern hills",
)

EVAL_WORDS = Words(
    people="Agnes Bruno Celia Dmitri Esther Fatima Gilbert Hanna Ivo Jonas Kirsten Lydia Mateo"
    " Noor Olive Pavel Ramona Stefan Thea Ursula Viktor Wanda Yara Zeno",
    girls="hazel june nora iris", boys="carl theo ned abel",
    animals="a tiny owl, a brave goat, a slow turtle", beasts="flick, olive, bramble",
    things="green lantern, glass jar, silver whistle", places="meadow, attic, harbour",
    colors="amber violet teal ivory crimson olive navy scarlet indigo beige",
    fruit="apricot banana quince guava papaya kiwi coconut raspberry currant date",
    goods="acorns, candles, ribbons, postcards, beads, muffins, tulips, whistles, spoons, coins",
    nouns="badge drawer floor gate weight desk row shelf train prize",
    towns="Corrin Bay, Wethersea, Pollard Heath, Nordhaven", regions="the western isles",
)


# --- exercises ---------------------------------------------------------------------------------


def arithmetic(rng, words):
    lines = []
    for _ in range(rng.between(6, 14)):
        a, b, op = rng.between(1, 99), rng.between(1, 99), rng.pick("++--**/")
        if op == "*":
            a, b = rng.between(2, 19), rng.between(2, 12)
            lines.append(f"{a} * {b} = {a * b}.")
        elif op == "/":
            a, b = rng.between(2, 12), rng.between(2, 12)
            lines.append(f"{a * b} / {b} = {a}.")
        elif op == "+":
            lines.append(f"{a} + {b} = {a + b}.")
        else:
            lines.append(f"{max(a, b)} - {min(a, b)} = {abs(a - b)}.")
    return "\n".join(lines)


def longer_arithmetic(rng, words):
    lines = []
    for _ in range(rng.between(4, 8)):
        a, b, c = rng.between(100, 9999), rng.between(100, 9999), rng.between(2, 99)
        k = rng.between(0, 5)
        if k == 0:
            lines.append(f"{a} + {b} + {c} = {a + b + c}")
        elif k == 1:
            lines.append(f"{a} * {c} = {a * c}")
        elif k == 2:
            lines.append(f"({a} - {c}) * 3 = {a - c} * 3 = {(a - c) * 3}")
        elif k == 3:
            lines.append(f"{a / 100:.2f} + {b / 100:.2f} = {(a + b) / 100:.2f}")
        elif k == 4:
            lines.append(f"{c}% of {b * 100} is {c * b}")
        else:
            lines.append(f"{a} = {c} * {a // c} + {a % c}, so {a} mod {c} = {a % c}")
    return "\n".join(lines)


def order(rng, words):
    lines = []
    for _ in range(rng.between(3, 6)):
        kind, n = rng.pick(["copy", "reverse", "sort"]), rng.between(3, 7)
        if kind == "sort":
            given = [str(x) for x in rng.sample(range(1, 100), n)]
            answer = sorted(given, key=int)
        else:
            given = rng.sample(words.fruit + words.colors, n)
            answer = given[::-1] if kind == "reverse" else given
        lines.append(f"{kind}: {' '.join(given)} -> {' '.join(answer)}.")
    return "\n".join(lines)


def recall(rng, words):
    noun, n = rng.pick(words.nouns), rng.between(3, 12)
    names = rng.sample(words.people, n)
    values = rng.sample(range(10, 1000), n)
    notes = " ".join(f"The {noun} of {a} is {v}." for a, v in zip(names, values))
    k = rng.between(0, n - 1)
    return (f"Notes: {notes}\nQuestion: What is the {noun} of {names[k]}?\n"
            f"Answer: The {noun} of {names[k]} is {values[k]}.")


def nested(rng, words, depth):
    k = rng.between(0, 9)
    if depth > 0 and k < 3:
        return [nested(rng, words, depth - 1) for _ in range(rng.between(1, 3))]
    if depth > 0 and k < 5:
        return nested_object(rng, words, depth - 1)
    return rng.between(0, 99) if k < 8 else rng.pick(words.colors + words.fruit)


def nested_object(rng, words, depth):
    keys = rng.sample(words.nouns + ["name", "color", "fruit", "list", "item"], rng.between(1, 3))
    return {k: nested(rng, words, depth) for k in keys}


def json_lines(rng, words):
    return "\n".join("JSON: " + json.dumps(nested_object(rng, words, 3))
                     for _ in range(rng.between(2, 4)))


def buying(rng, words):
    a, b, thing = rng.between(3, 12), rng.between(2, 9), rng.pick(words.goods)
    who = rng.pick(words.people)
    total = a * b
    paid = (total // 10 + rng.between(1, 3)) * 10
    return (f"Question: {who} buys {a} boxes of {thing}. Each box costs ${b}. {who} pays with"
            f" ${paid}. How much change does {who} get?\n"
            f"Answer: The boxes cost {a} * {b} = ${total}. The change is {paid} - {total} ="
            f" ${paid - total}.\n#### {paid - total}")


def sharing(rng, words):
    first, second = rng.sample(words.people, 2)
    thing, each, bags = rng.pick(words.goods), rng.between(3, 15), rng.between(2, 8)
    given = rng.between(1, each * bags - 1)
    left = each * bags - given
    return (f"Question: {first} has {bags} bags with {each} {thing} in each bag. {first} gives"
            f" {given} {thing} to {second}. How many {thing} does {first} have left?\n"
            f"Answer: At first {first} has {bags} * {each} = {bags * each} {thing}. After giving"
            f" away {given}, {first} has {bags * each} - {given} = {left} {thing}.\n#### {left}")


def travelling(rng, words):
    speed, hours, who = rng.between(3, 18) * 5, rng.between(2, 7), rng.pick(words.people)
    rest = rng.between(2, 9) * 10
    return (f"Question: {who} drives from {rng.pick(words.towns)} at {speed} kilometres an hour"
            f" for {hours} hours and then {rest} kilometres more. How far is that in all?\n"
            f"Answer: In {hours} hours {who} drives {speed} * {hours} = {speed * hours} kilometres."
            f" Together that makes {speed * hours} + {rest} = {speed * hours + rest} kilometres.\n"
            f"#### {speed * hours + rest}")


def ages(rng, words):
    a, b = rng.sample(words.people, 2)
    x, times, later = rng.between(3, 15), rng.between(2, 4), rng.between(2, 12)
    return (f"Question: {a} is {x} years old. {b} is {times} times as old as {a}. How old will {b}"
            f" be in {later} years?\nAnswer: {b} is now {times} * {x} = {times * x} years old. In"
            f" {later} years {b} will be {times * x} + {later} = {times * x + later} years old.\n"
            f"#### {times * x + later}")


def wages(rng, words):
    who, rate, hours = rng.pick(words.people), rng.between(9, 24), rng.between(4, 9)
    days, spent = rng.between(2, 6), rng.between(5, 60)
    total = rate * hours * days
    return (f"Question: {who} earns ${rate} an hour and works {hours} hours a day for {days} days,"
            f" then spends ${spent}. How much is left?\nAnswer: In a day {who} earns {rate} *"
            f" {hours} = ${rate * hours}. In {days} days that is {days} * {rate * hours} ="
            f" ${total}."
            f" After spending ${spent} there is {total} - {spent} = ${total - spent}.\n"
            f"#### {total - spent}")


def halves(rng, words):
    who, thing, n = rng.pick(words.people), rng.pick(words.goods), rng.between(6, 40) * 2
    more = rng.between(2, 20)
    return (f"Question: On Monday {who} sells {n} {thing}. On Tuesday {who} sells half as many and"
            f" on Wednesday {more} more than on Tuesday. How many are sold in the three days?\n"
            f"Answer: On Tuesday {who} sells {n} / 2 = {n // 2}. On Wednesday it is {n // 2} +"
            f" {more} = {n // 2 + more}. In all {n} + {n // 2} + {n // 2 + more} ="
            f" {2 * n + more} {thing}.\n#### {2 * n + more}")


def comparing(rng, words):
    a, b, c = rng.sample(words.people, 3)
    x, y, z = rng.sample(range(11, 99), 3)
    most = max((x, a), (y, b), (z, c))
    least = min((x, a), (y, b), (z, c))
    return (f"{a} has {x} points, {b} has {y} and {c} has {z}.\nQ: Who has the most points?\n"
            f"A: {most[1]}, with {most[0]}.\nQ: Who has the fewest?\nA: {least[1]}, with"
            f" {least[0]}."
            f"\nQ: How many points lie between them?\nA: {most[0]} - {least[0]} ="
            f" {most[0] - least[0]}.")


def progression(rng, words):
    lines = []
    for _ in range(rng.between(3, 5)):
        start, step, n = rng.between(1, 40), rng.between(2, 13), rng.between(5, 7)
        if rng.between(0, 2):
            terms, rule = [start + step * i for i in range(n + 1)], f"add {step}"
        else:
            terms, rule = [(start % 7 + 1) * 2**i for i in range(n + 1)], "double"
        shown = ", ".join(map(str, terms[:-1]))
        lines.append(f"Next after {shown}: {terms[-1]} ({rule} each time).")
    return "\n".join(lines)


def units(rng, words):
    lines = []
    for _ in range(rng.between(4, 7)):
        n = rng.between(2, 60)
        big, small, factor = rng.pick([
            ("kilometres", "metres", 1000), ("hours", "minutes", 60), ("minutes", "seconds", 60),
            ("metres", "centimetres", 100), ("kilograms", "grams", 1000), ("weeks", "days", 7),
            ("dozens", "pieces", 12), ("days", "hours", 24), ("kibibytes", "bytes", 1024)])
        lines.append(f"{n} {big} = {n * factor} {small}." if rng.between(0, 1) else
                     f"{n * factor} {small} = {n} {big}.")
    return "\n".join(lines)


# --- structured text ---------------------------------------------------------------------------


def rows(rng, words, count):
    """Invoice rows: id, person, good, number, price in cents."""
    return [(rng.between(1000, 9999), rng.pick(words.people), rng.pick(words.goods),
             rng.between(1, 40), rng.between(20, 2500)) for _ in range(count)]


def csv_table(rng, words):
    table = rows(rng, words, rng.between(5, 10))
    return "id,customer,item,quantity,unit_price\n" + "\n".join(
        f"{i},{who},{what},{n},{cents / 100:.2f}" for i, who, what, n, cents in table)


def markdown_table(rng, words):
    table = rows(rng, words, rng.between(3, 7))
    total = sum(n * cents for *_, n, cents in table)
    lines = [f"| {what} | {n} | {cents / 100:.2f} | {n * cents / 100:.2f} |"
             for _, _, what, n, cents in table]
    return (f"## Order {table[0][0]}\n\n| item | pieces | each | sum |\n|---|---:|---:|---:|\n"
            + "\n".join(lines) + f"\n\nTotal: **{total / 100:.2f}**, to be paid within"
            f" {rng.pick(['ten', 'fourteen', 'thirty'])} days by {table[0][1]}.")


def json_record(rng, words):
    table = rows(rng, words, rng.between(1, 3))
    record = {"order": table[0][0], "customer": {"name": table[0][1],
              "town": rng.pick(words.towns), "active": rng.between(0, 1) == 1},
              "items": [{"item": what, "quantity": n, "price": cents / 100}
                        for _, _, what, n, cents in table],
              "note": rng.pick([None, "", "leave at the gate", "fragile"])}
    return json.dumps(record, indent=2)


def yaml_config(rng, words):
    name = rng.pick(words.colors) + "-" + rng.pick(words.fruit)
    hosts = "\n".join(f"  - host: node{rng.between(1, 40):02}.{name}.example\n"
                      f"    port: {rng.between(1024, 9999)}\n    weight: {rng.between(1, 100)}"
                      for _ in range(rng.between(1, 3)))
    return (f"# settings of the service {name}\nservice: {name}\nversion: {rng.between(0, 9)}."
            f"{rng.between(0, 20)}.{rng.between(0, 9)}\nlog:\n  level: "
            f"{rng.pick(['debug', 'info', 'warning'])}\n  path: /var/log/{name}.log\nlimits:\n"
            f"  connections: {rng.between(1, 64) * 16}\n  timeout_s: {rng.between(1, 60)}\n"
            f"upstream:\n{hosts}\nfeatures: [{', '.join(rng.sample(words.nouns, 3))}]")


def log_lines(rng, words):
    clock, lines = rng.between(0, 80000), []
    for _ in range(rng.between(6, 11)):
        clock += rng.between(0, 90)
        stamp = f"{clock // 3600 % 24:02}:{clock // 60 % 60:02}:{clock % 60:02}"
        ms = rng.between(1, 900)
        lines.append(f"2031-04-{rng.between(1, 9):02} {stamp} " + rng.pick([
            f"INFO  GET /{rng.pick(words.nouns)}/{rng.between(1, 999)} 200 {ms} ms",
            f"INFO  worker {rng.between(1, 8)} took {ms} ms for job {rng.between(1000, 9999)}",
            f"WARN  queue holds {rng.between(100, 999)} jobs, limit {rng.between(1, 9) * 100}",
            f"ERROR cannot read /srv/{rng.pick(words.fruit)}.db: no such file",
            f"DEBUG cache hit {rng.between(10, 99)}.{rng.between(0, 9)}% of {ms * 7} lookups"]))
    return "\n".join(sorted(lines))


def sql_rows(rng, words):
    table = rows(rng, words, rng.between(3, 6))
    values = ",\n".join(f"    ({i}, '{who}', '{what}', {n}, {cents})"
                        for i, who, what, n, cents in table)
    return (f"INSERT INTO orders (id, customer, item, quantity, cents) VALUES\n{values};\n\n"
            f"SELECT customer, SUM(quantity * cents) / 100.0 AS total\nFROM orders\n"
            f"WHERE quantity >= {rng.between(1, 9)}\nGROUP BY customer\nORDER BY total DESC;")


# --- little texts ------------------------------------------------------------------------------


def child(rng, words):
    girl = rng.between(0, 1)
    name = rng.pick(words.girls if girl else words.boys)
    return (name, "she", "her", "girl") if girl else (name, "he", "his", "boy")


def lost_thing(rng, words):
    name, he, his, kind = child(rng, words)
    beast, animal = rng.pick(words.beasts), rng.pick(words.animals)
    thing, place, other = rng.pick(words.things), *rng.sample(words.places, 2)
    looked = rng.pick(["under the bed", "behind the door", "in every drawer", "under the table"])
    offer = rng.pick(["i will help you", "let us look together", "two can look better than one"])
    return (f"{rng.pick(['one morning', 'one day', 'on a cold day'])}, a {kind} named {name} could"
            f" not find {his} {thing}. {he} looked {looked}, but it was not there. {name} felt"
            f" {rng.pick(['sad', 'very sad', 'worried'])} and went to the {place}.\n\nin the"
            f" {place} {he} met {animal} named {beast}. \"why do you look so sad?\" asked {beast}."
            f" \"my {thing} is gone,\" said {name}. \"{offer},\""
            f" said {beast}. they looked and looked. at last {beast} saw something near the"
            f" {other}."
            f" it was the {thing}! {name} was so happy that {he} "
            f"{rng.pick(['danced', 'laughed out loud', 'jumped up and down'])}. from that day"
            f" {name} and {beast} were good friends.")


def sharing_story(rng, words):
    name, he, his, kind = child(rng, words)
    friend, thing, place = child(rng, words)[0], rng.pick(words.things), rng.pick(words.places)
    if friend == name:
        friend = "nan"
    answer = rng.pick(["it is more fun with two", "come again tomorrow", "i am glad you asked"])
    return (f"{name} had a new {thing}. {he} took it to the {place} to play. then {friend} came and"
            f" said, \"can i play too?\" {rng.pick(['at first', 'for a moment'])} {name} wanted to"
            f" say no. the {thing} was new, and {he} did not want it to break. but {friend} looked"
            f" so {rng.pick(['lonely', 'kind', 'hopeful'])} that {name} said yes. they took turns"
            f" all afternoon and had a lot of fun. when it got dark, {friend} said, \"thank you for"
            f" sharing.\" {name} smiled. \"{answer},\""
            f" {he} said.")


def brave_story(rng, words):
    beast, animal = rng.pick(words.beasts), rng.pick(words.animals)
    place = rng.pick(words.places)
    fear = rng.pick(["the dark", "loud thunder", "deep water", "the big wind"])
    name = child(rng, words)[0]
    where = rng.pick(["in the mud", "up in a tree", "between two rocks"])
    how = rng.pick(["ran as fast as it could",
                    "took a deep breath and went",
                    "did not think about being afraid"])
    return (f"once upon a time there was {animal}. its name was {beast}, and it lived near the"
            f" {place}. {beast} was afraid of {fear}. when the others played, {beast} stayed at"
            f" home.\n\none {rng.pick(['evening', 'afternoon', 'windy day'])} {beast} heard a cry"
            f" for help. it was {name}, who was stuck {where}."
            f" {beast} was scared, but there was nobody else. \"i am coming!\" called {beast}, and"
            f" {how}."
            f" it pulled and pulled until {name} was free. \"you are very brave,\" said {name}."
            f" {beast} was proud. {fear} did not seem so bad any more.")


def baking_story(rng, words):
    name, he, his, kind = child(rng, words)
    elder = rng.pick(["grandma", "dad", "aunt may", "grandpa"])
    fruit = rng.pick([f for f in words.fruit if f != "apple"])
    color = rng.pick([c for c in words.colors if c != "orange"])
    mishap = rng.pick(["some flour flew into the air",
                       "an egg rolled off the table",
                       "the spoon fell on the floor"])
    return (f"\"today we will bake a {fruit} cake,\" said {elder}. {name} put on a {color} apron"
            f" and"
            f" washed {his} hands. they mixed flour, eggs and sugar in a big bowl. {name} wanted to"
            f" stir very fast, and {mishap}."
            f" \"{rng.pick(['slowly', 'gently', 'take your time'])},\" said {elder}, \"a good cake"
            f" does not like to be rushed.\" so {name} stirred slowly. soon the kitchen smelled"
            f" sweet. they ate the cake while it was still warm, and {elder} gave {name} the"
            f" biggest"
            f" piece.")


def village(rng, words):
    town, other = rng.sample(words.towns, 2)
    n, year, high = rng.between(180, 9400), rng.between(1080, 1690), rng.between(12, 880)
    trade = rng.pick(["wool", "timber", "salt", "lime burning", "fishing", "flax"])
    return (f" = {town} =\n\n{town} is a {rng.pick(['village', 'market town', 'parish'])} in"
            f" {rng.pick(words.regions)}, {rng.between(3, 28)} kilometres from {other}. At the last"
            f" census it had {n:,} inhabitants. It lies {high} metres above the sea. The place is"
            f" first named in a {rng.pick(['charter', 'tax roll', 'deed of gift'])} of {year}, and"
            f" for most of its history it lived on {trade}.\n\n"
            f" = = {rng.pick(['Buildings', 'Sights'])} = =\n\nThe church, of"
            f" {rng.pick(['grey limestone', 'brick', 'red sandstone', 'flint'])}, was rebuilt in"
            f" {year + rng.between(60, 190)} after a {rng.pick(['fire', 'storm', 'flood'])}. Its"
            f" tower holds {rng.between(2, 8)} bells. The railway reached {town} in"
            f" {rng.between(1846, 1899)}; the station closed in {rng.between(1952, 1974)} and now"
            f" serves as {rng.pick(['a library', 'a private house', 'a small museum'])}.")


def river(rng, words):
    town, other = rng.sample(words.towns, 2)
    name = rng.pick(["Arlen", "Tove", "Moss", "Wend", "Issel", "Kerra", "Lode", "Ouin"])
    length = rng.between(24, 310)
    also = rng.pick(["Trout and grayling live in the upper reaches",
                     "Three dams make electricity",
                     "Otters have returned in recent decades",
                     "Gold was once washed from its gravel"])
    below = rng.pick(["slow and winding", "navigable for small boats", "held in by dikes"])
    return (f"The {name} is a river {length} kilometres long in {rng.pick(words.regions)}. It rises"
            f" at {rng.between(300, 1900)} metres and falls quickly as far as {town}, below which"
            f" it"
            f" is {below}."
            f" Its basin covers {length * rng.between(9, 31):,} square kilometres. The mean"
            f" discharge"
            f" at {other} is {rng.between(3, 240)} cubic metres a second, and the highest on"
            f" record,"
            f" {rng.between(400, 2900)}, was measured in the flood of {rng.between(1890, 1999)}."
            f" {also}.")


def beetle(rng, words):
    genus = rng.pick(["Calothorax", "Nebrisoma", "Pterocarus", "Lamprodes", "Stenobius"])
    species = rng.pick(["minor", "vestitus", "rufipes", "borealis", "obscurus", "quadratus"])
    mm = rng.between(4, 31)
    home = rng.pick(["under bark", "in rotting oak", "among roots", "in damp moss"])
    return (f"{genus} {species} is a species of beetle in {rng.pick(words.regions)}. Adults measure"
            f" {mm} to {mm + rng.between(1, 6)} millimetres and are {rng.pick(words.colors)} with"
            f" {rng.pick(words.colors)} {rng.pick(['spots', 'bands', 'legs', 'wing cases'])}. The"
            f" larvae live {home}"
            f" and take {rng.pick(['one year', 'two years', 'three years'])} to develop. The"
            f" species"
            f" was described in {rng.between(1790, 1930)} from {rng.between(2, 14)} specimens. It"
            f" is"
            f" {rng.pick(['common', 'seldom seen', 'listed as vulnerable', 'protected'])} over most"
            f" of its range.")


def ship(rng, words):
    name = rng.pick(["Halcyon", "Perseverance", "Corisande", "Northern Star", "Amity", "Dauntless"])
    year, tons = rng.between(1842, 1911), rng.between(320, 8800)
    return (f"The {name} was a {rng.pick(['barque', 'steamship', 'brig', 'cargo steamer'])} of"
            f" {tons:,} tons, launched in {year} at {rng.pick(words.towns)}. She carried"
            f" {rng.pick(['grain', 'timber', 'coal', 'tea', 'emigrants'])} for"
            f" {rng.between(6, 30)} years under {rng.between(2, 5)} owners. In"
            f" {year + rng.between(6, 30)} she ran aground in fog; the crew of"
            f" {rng.between(11, 60)}"
            f" were all {rng.pick(['saved', 'taken off by lifeboat', 'brought ashore'])}. The wreck"
            f" lies in {rng.between(8, 70)} metres of water.")


MAKERS = {
    "stories": [lost_thing, sharing_story, brave_story, baking_story],
    "wiki": [village, river, beetle, ship],
    "maths": [arithmetic, buying, recall, order, sharing, json_lines, travelling, progression,
              longer_arithmetic, ages, order, wages, units, halves, arithmetic, comparing],
    "code": [json_record, csv_table, log_lines, markdown_table, yaml_config, sql_rows],
    "prose": [],
    "lang": [],
    "spaced": [],
    "held out": [arithmetic, buying, recall, order, travelling, json_lines, ages, wages],
}
