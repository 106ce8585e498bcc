#!/usr/bin/env python3
"""Writes small.json (small templates with what jinja2 makes of them) and, given a folder of chat templates,
families.json (a hash of each template over each conversation): make_chat.py [FOLDER].

Needs transformers 5 and jinja2 3.1.
"""
import glob
import hashlib
import json
import os
import sys

import jinja2
import transformers.utils.chat_template_utils as hf

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from conversations import SPECIAL, all_cases
from oracle import NOW, prepared, rendered
from small import VARIABLES, small_cases

HERE = os.path.dirname(os.path.abspath(__file__))
DEEP = "maximum recursion depth exceeded"


def outcome(template, variables):
    text, error = rendered(template, variables)
    if error is None:
        return {"text": text}
    try:
        hf._compile_jinja_template(template)
    except jinja2.TemplateAssertionError:
        pass
    except jinja2.TemplateSyntaxError as e:
        return {"syntax": e.lineno}
    except SyntaxError:  # of the Python that jinja2 makes: it knows no line
        return {"syntax": 1}
    return {"error": "".join(c if c >= " " and c != "\x7f" else "?" for c in error)}


def write(name, value):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, indent=1)
        f.write("\n")


def families(folder):
    cases = {name: prepared({**SPECIAL, **v}) for name, v in all_cases()}
    templates = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.jinja"))):
        with open(path, encoding="utf-8", newline="") as f:
            template = f.read()
        row = []
        for variables in cases.values():
            o = outcome(template, variables)
            if "text" in o:
                row.append(hashlib.sha256(o["text"].encode()).hexdigest()[:16])
            else:
                row.append("! " + (DEEP if o["error"].startswith(DEEP) else o["error"]))
        templates[os.path.basename(path)] = row
    write("families.json", {"now": NOW, "conversations": {k: json.dumps(v, ensure_ascii=False) for k, v in cases.items()}, "templates": templates})


def main():
    cases = [{"template": t, **outcome(t, v)} for t, v in small_cases()]
    write("small.json", {"now": NOW, "variables": VARIABLES, "cases": cases})
    if len(sys.argv) > 1:
        families(sys.argv[1])


main()
