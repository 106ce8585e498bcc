"""Small templates, a feature or two each; variables are those of VARIABLES unless a case has its own."""

VARIABLES = {
    "messages": [{"role": "user", "content": "Hi <b>"}, {"role": "assistant", "content": "Oh & \"so\""}, {"role": "user", "content": "Ünï\n"}],
    "n": 3, "x": 2.5, "yes": True, "no": False, "nothing": None, "empty": "", "name": "pith", "words": "one two  three",
    "list": [3, 1, 2], "names": ["b", "A", "c", "B"], "d": {"b": 1, "a": [1, {"k": None}], "C": "x'y"}, "bos_token": "<s>",
    "rows": [{"id": 2, "tag": "x"}, {"id": 1, "tag": "y"}, {"id": 3}],
}

TEMPLATES = r'''
a{{ n }}b
{{ x }} {{ yes }} {{ no }} {{ nothing }} {{ missing }}|
{{ list }} {{ d }} {{ names[1:] }} {{ (1, 'a') }} {{ (1,) }} {{ () }} {{ [] }} {{ {} }}
{{ "it's" }} {{ ["it's", 'a"b', 'both\'"', 'n\n\t\\\x01\u200b\xe9'] }}
{{ 1e16 }} {{ 1.0 }} {{ 0.1 }} {{ 1e-5 }} {{ 123456789.125 }} {{ 1e15 }} {{ 3.0e22 }} {{ 1_000 }} {{ 0x1f }} {{ 0b11 }} {{ 0o17 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 * 3 + 4 }} {{ 2 + 3 * 4 }} {{ -2 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ "a" ~ 1 ~ none ~ 2.0 ~ [1] }} {{ "ab" * 2 }} {{ [1] * 2 + [3] }} {{ "a" "b" 'c' }}
{{ 1 == 1.0 }} {{ 1 == true }} {{ "a" < "b" }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ [1, 2] < [1, 3] }} {{ "1" == 1 }} {{ missing == other }}
{{ not yes }} {{ yes and n }} {{ no or "z" }} {{ empty or nothing }} {{ not n == 4 }} {{ not (n in list) }}
{{ n in list }} {{ 9 not in list }} {{ "it" in name }} {{ "b" in d }} {{ "a" in missing }}
{{ "y" if yes else "n" }} {{ "y" if no }} {{ "a" if no else "b" if no else "c" }}
{{ name[0] }} {{ name[-1] }} {{ name[1:3] }} {{ name[::-1] }} {{ name[:-1] }} {{ name[::2] }} {{ list[::-1] }} {{ list[-2:] }} {{ list[5:] }} {{ "Ünï"[1:] }} {{ name[9:1] }}
{{ d.a[1].k }} {{ d['b'] }} {{ d.C }} {{ d["a"][0] }} {{ messages[0].role }} {{ messages[-1]['content'] }} {{ list.0 }}
{{ d.missing }}|{{ d["missing"] }}|{{ list[10] }}|{{ name.foo }}|
{{ missing.a }}
{{ d.missing.a }}
{{ nothing.content }}
{{ list[10].x }}
{{ missing + 1 }}
{{ "a" + 1 }}
{{ 1 + "a" }}
{{ list + "a" }}
{{ -name }}
{{ 1 / 0 }}
{{ missing() }}
{{ n() }}
{{ d.x.y.z is defined }}
{% if missing %}a{% else %}b{% endif %}
{% if n == 1 %}1{% elif n == 2 %}2{% elif n == 3 %}3{% else %}x{% endif %}
{% if no %}1{% elif no %}2{% else %}{% if yes %}in{% endif %}out{% endif %}
{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for i in list %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
{% for i in list %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}
{% for i in list %}{% for j in "ab" %}{{ loop.depth }}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{% endfor %}
{% for i in list %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}
{% for i in list if i > 1 %}{{ i }}{{ loop.last }} {% else %}none{% endfor %}
{% for i in list if i > 10 %}{{ i }}{% else %}none{% endfor %}
{% for i in [] %}x{% else %}empty{% endfor %}{% for i in missing %}x{% else %}undefined{% endfor %}
{% for i in nothing %}x{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }}{% endfor %}{% for c in "Ünï" %}[{{ c }}]{% endfor %}
{% for a, (b, c) in [(1, (2, 3)), (4, (5, 6))] %}{{ a }}{{ b }}{{ c }} {% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for a, b in [(1,)] %}{{ a }}{% endfor %}
{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in list %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }} {% endfor %}
{% set a = 1 %}{% for i in list %}{% set a = a + i %}{{ a }} {% endfor %}{{ a }}
{% set ns = namespace(a=1) %}{% for i in list %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }} {{ ns.b }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}
{% set ns = 1 %}{% set ns.a = 2 %}
{% set ns = namespace() %}{% set ns._a = 2 %}
{% set t %}x{{ n }}y{% endset %}{{ t }}{{ t|length }}
{% set t | upper | trim %} x{{ n }}y {% endset %}[{{ t }}]
{% if yes %}{% set a = 5 %}{% endif %}{{ a }}
{% for i in [1] %}{% set inner = i %}{% endfor %}{{ inner }}|
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}|
{% with a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{% endwith %}
{% macro m(a, b=2, c=none) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c=4) }} {{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, z=4) }}
{% macro m(a) %}{{ a + 1 }}{% endmacro %}{{ m() }}
{% macro fact(k) %}{% if k < 2 %}1{% else %}{{ k * fact(k - 1)|int }}{% endif %}{% endmacro %}{{ fact(5) }}
{% macro wrap(t) %}<{{ t }}>{{ caller(1, b=2) }}</{{ t }}>{% endmacro %}{% call(a, b) wrap("p") %}body{{ a }}{{ b }}{{ n }}{% endcall %}
{% macro m() %}{{ late }}{% endmacro %}{% set late = 4 %}{{ m() }}
{% macro m() %}{% set inner = 1 %}{{ inner }}{% endmacro %}{{ m() }}{{ inner }}|
{% filter upper %}a{{ name }}{% endfilter %}{% filter replace("a", "b") | upper %}banana{% endfilter %}
{% generation %}made {{ n }}{% endgeneration %}.
{% raw %}{{ not }} {% this %}{% endraw %}|{%- raw -%}  x  {%- endraw -%}  |
a {# comment {{ }} #} b {#- tight -#} c
  {% if yes %}
    line
  {% endif %}
    after
  {%+ if yes %}kept{% endif +%}

next
a
  {%- if yes -%}
  b
  {%- endif -%}
c
a  {{- n -}}  b {{ n -}}
   c
x {% set a = 1 %}
y
{% print n, 2 %} {% print name %}
{{ {"a": {"b": {"c": 1}}}.a.b.c }}{{ {'x': 1}['x'] }}{{ {1: 2}[1] }}
{{ "%s is %d and %.2f, %5s|%-5s|%05d|%x %%" % ("a", 3, 2.5, "b", "c", 42, 255) }}
{{ "%s" % name }} {{ "%s-%s" | format("a", 1) }}
{{ "{} {} {1} {0}".format(1) }}
{{ "{} and {}".format("a", 2) }} {{ "{1}{0}{n}".format("a", "b", n=5) }} {{ "{:>5}|{:<5}|{:^5}|{:05.1f}|{!r}".format("a", "b", "c", 2.25, "q") }} {{ "{{}}".format() }}
{{ d | tojson }} {{ list | tojson }} {{ "ü<>&'\"\n\u2028" | tojson }} {{ nothing | tojson }} {{ x | tojson }} {{ true | tojson }}
{{ d | tojson(indent=2) }}
{{ d | tojson(sort_keys=true, separators=(",", ":")) }} {{ "ü😀" | tojson(ensure_ascii=true) }} {{ {} | tojson(indent=4) }} {{ [] | tojson(indent=4) }}
{{ missing | tojson }}
{{ messages | length }} {{ name | length }} {{ "Ünï" | length }} {{ d | count }} {{ missing | length }}
{{ n | length }}
{{ "  a b \n" | trim }}| {{ "xxaxx" | trim("x") }} {{ 5 | trim }}
{{ name | upper }} {{ "ÀÉß" | lower }} {{ "àéß" | upper }} {{ "hello wORLD" | capitalize }} {{ "hello wORLD-foo (bar)" | title }}
{{ missing | default("x") }} {{ empty | default("x") }} {{ empty | default("x", true) }} {{ nothing | default("x", boolean=true) }} {{ nothing | d("x") }}
{{ list | join }} {{ list | join(", ") }} {{ rows | join("-", attribute="id") }} {{ "abc" | join(".") }}
{{ list | first }} {{ list | last }} {{ name | first }} {{ [] | first }}|
{{ list | list }} {{ "abc" | list }} {{ d | list }} {{ range(3) | list }} {{ range(1, 8, 3) | list }} {{ range(3, 0, -1) | list }}
{{ names | sort }} {{ list | sort(reverse=true) }} {{ rows | sort(attribute="id") | map(attribute="id") | list }} {{ names | sort(case_sensitive=true) }}
{{ names | unique | list }} {{ names | unique(case_sensitive=true) | list }} {{ list | max }} {{ list | min }} {{ names | min }} {{ rows | max(attribute="id") }}
{{ d | dictsort }} {{ d | dictsort(true) }} {{ {"a": 2, "b": 1} | dictsort(by="value") }} {{ d | dictsort(reverse=true) | first }}
{{ d | items | list }} {{ missing | items | list }}
{{ names | map("upper") | list }} {{ rows | map(attribute="tag", default="-") | join }} {{ ["1", "2"] | map("int") | sum }} {{ names | map("replace", "b", "X") | list }}
{{ list | select("odd") | list }} {{ list | reject("odd") | list }} {{ [0, 1, "", "a"] | select | list }} {{ list | select("gt", 1) | list }}
{{ rows | selectattr("tag") | list }} {{ rows | selectattr("tag", "defined") | map(attribute="id") | list }} {{ rows | rejectattr("id", "equalto", 2) | map(attribute="id") | list }} {{ messages | selectattr("role", "eq", "user") | list | length }}
{{ list | reverse | list }} {{ name | reverse }} {{ list | sum }} {{ rows | sum(attribute="id") }} {{ list | sum(start=10) }}
{{ "5" | int }} {{ "x" | int }} {{ "x" | int(7) }} {{ "42.7" | int }} {{ " 12 " | int }} {{ "ff" | int(base=16) }} {{ 3.9 | int }} {{ true | int }} {{ "2.5" | float }} {{ "x" | float(1.5) }} {{ 3 | float }}
{{ 2.5 | round }} {{ 3.14159 | round(2) }} {{ 3.1 | round(method="ceil") }} {{ 2.7 | round(0, "floor") }} {{ 5 | round }} {{ -3 | abs }} {{ -2.5 | abs }}
{{ "a\nb\n\nc" | indent }} {{ "a\nb" | indent(2, true) }} {{ "a\n\nb\n" | indent(2, blank=true) }} {{ "a\nb" | indent("> ") }}
{{ "aXbXc" | replace("X", "-") }} {{ "aXbXc" | replace("X", "-", 1) }} {{ "abc" | replace("", "-") }}
{{ "<b>" | safe }} {{ "<b>" | escape }} {{ "<a>" | safe + "<b>" }} {{ "<&'\">" | e | length }} {{ ("<" | safe) ~ "<" }}
{{ 5 | string + "a" }} {{ list | string }} {{ "a b  c" | wordcount }} {{ "ab" | center(6) }}| {{ name | attr("upper") is defined }} {{ d | attr("b") }}|
{{ '{"a": [1, 2.5, null, true, "ü"]}' | from_json }} {{ "3" | from_json }}
{{ name | nofilter }}
{{ name is notest }}
{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ nothing is none }} {{ n is not none }} {{ yes is boolean }} {{ yes is true }} {{ no is false }} {{ 1 is true }}
{{ n is number }} {{ n is integer }} {{ x is float }} {{ yes is integer }} {{ yes is number }} {{ name is string }} {{ d is mapping }} {{ list is sequence }} {{ name is sequence }} {{ n is sequence }} {{ d is iterable }} {{ n is iterable }} {{ list is mapping }}
{{ n is odd }} {{ n is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ n is eq 3 }} {{ n is equalto(3) }} {{ n is ne 3 }} {{ n is gt 2 }} {{ n is lt 2 }} {{ n is ge 3 }} {{ n is le 2 }} {{ n is in list }} {{ n is sameas 3 }} {{ none is sameas none }}
{{ "abc" is lower }} {{ "ABC" is upper }} {{ "aB" is lower }} {{ range is callable }} {{ n is callable }} {{ "upper" is filter }} {{ "zz" is filter }} {{ "odd" is test }}
{{ n is defined and name is string or no }} {{ not n is none }} {{ 1 + 1 is number }} {{ -n is number }}
{{ words.split() }} {{ words.split(" ") }} {{ words.split(" ", 1) }} {{ words.rsplit(" ", 1) }} {{ "a,b,c".split(",", maxsplit=1) }} {{ "".split() }} {{ "".split(",") }} {{ "a  b ".rsplit(None, 1) }}
{{ words.split("") }}
{{ " ab ".strip() }}|{{ " ab ".lstrip() }}|{{ " ab ".rstrip() }}|{{ "xxabxx".strip("x") }}|{{ "xyab".lstrip("yx") }}|{{ "\u00a0a\u3000".strip() }}|
{{ name.startswith("pi") }} {{ name.endswith("th") }} {{ name.startswith(("x", "p")) }} {{ name.endswith(("x",)) }}
{{ name.upper() }} {{ "AbC".lower() }} {{ "they're bill's".title() }} {{ "hELLO".capitalize() }} {{ name.replace("p", "b") }} {{ "aaa".replace("a", "b", 2) }}
{{ name.find("t") }} {{ name.find("z") }} {{ "ünüü".rfind("ü") }} {{ "aXbX".index("X", 2) }} {{ "banana".count("an") }} {{ name.count("") }}
{{ name.index("z") }}
{{ ", ".join(["a", "b"]) }} {{ "-".join("abc") }} {{ "a-b-c".partition("-") }} {{ "a-b-c".rpartition("-") }} {{ "abc".partition("x") }}
{{ ", ".join([1]) }}
{{ "a\nb\r\nc\n".splitlines() }} {{ "a\nb".splitlines(true) }} {{ "ab".ljust(4) }}|{{ "ab".rjust(4, "*") }}|{{ "-7".zfill(4) }}|{{ "abc".removeprefix("a") }}{{ "abc".removesuffix("c") }}
{{ "12".isdigit() }} {{ "ab".isalpha() }} {{ "a1".isalnum() }} {{ " ".isspace() }} {{ "".isalpha() }} {{ "Ab".isupper() }} {{ "AB1".isupper() }} {{ "ab!".islower() }}
{{ d.get("b") }} {{ d.get("z") }} {{ d.get("z", 5) }} {{ d.keys() }} {{ d.values() }} {{ d.items() }} {{ d.keys() | list }}
{% set l = [] %}{% set _ = l.append(1) %}{% set _ = l.extend([2, 3]) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}{{ l.index(2) }}{{ [1, 1].count(1) }}
{% set e = {} %}{% set _ = e.update({"a": 1}) %}{% set _ = e.update(b=2) %}{{ e }}{{ e.pop("a") }}{{ e.setdefault("c", 3) }}{{ e }}
{{ dict(a=1, b=2) }} {{ dict({"x": 1}, y=2) }} {{ dict([("k", "v")]).k }}
{{ raise_exception("No: " ~ name) }}
{% if yes %}

{{ raise_exception("line four") }}{% endif %}
{{ strftime_now("%Y-%m-%d %H:%M:%S %d %b %B %A %j %%") }}
{{ range(1000000) }}
{{ bos_token }}{{ eos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m['content'] | trim }}{% endfor %}
{{ m(**{"a": 1}) if m is defined }}{% macro k(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ k(*[1, 2]) }}{{ k(**{"b": 1, "a": 2}) }}
{{ namespace(a=1).a }} {{ (namespace(a=[1]).a)[0] }}
{{ "a" is in("abc") }} {{ 3 is in [1, 3] }} {{ "x" is in d }}
{{ loop }}|{{ 'tab\there' }}{{ "\u00e9\x41\101\q" }}
{{ n if n else }}
{% if %}x{% endif %}
{% if yes %}x
{{ n
{{ n + }}
{% unknown %}
{% endif %}
{% for x in %}{% endfor %}
{{ "abc }}
{{ (1, 2 }}
{% set 1 = 2 %}
{% break %}
{{ n !! }}
{# open
{% raw %}open
'''


def small_cases():
    """(template, variables), in the order of TEMPLATES; blank lines go with what is before them."""
    cases, block = [], []
    lines = TEMPLATES.strip("\n").split("\n")
    joined = {"  {% if yes %}": 7, "a": 5, "a  {{- n -}}  b {{ n -}}": 2, "x {% set a = 1 %}": 2, "{% if yes %}": 3}
    i = 0
    while i < len(lines):
        n = joined.get(lines[i], 1)
        cases.append("\n".join(lines[i:i + n]))
        i += n
    cases += ["", "a\n", "a\n\n", "a\r\nb\rc\r\n", "{{ n }}\n", "{% if yes %}\r\nx{% endif %}\r\n", "\n{%- if yes %} {{ n }}{% endif %}\n\n"]
    return [(c, VARIABLES) for c in cases]
