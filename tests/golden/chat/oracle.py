"""Chat templates as transformers renders them (jinja2 in its sandboxed environment), at a fixed time.

What transformers refuses and pith has, for llama.cpp has it too, is rendered in the same environment with it: the filter
from_json, and methods that change lists and dicts.
"""
import datetime
import json
import os
import re
import time

import jinja2
import jinja2.sandbox
import transformers.utils.chat_template_utils as hf

NOW = 1753700000  # Mon Jul 28 2025, 10:53:20 UTC
os.environ["TZ"] = "UTC"
time.tzset()


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(NOW)


hf.datetime = Clock


def prepared(conversation):
    """What apply_chat_template() makes of a conversation before it renders it."""
    c = dict(conversation)
    messages = [{k: v for k, v in m.items() if v is not None} for m in c.pop("messages")]
    c["messages"] = hf._alias_reasoning_fields(messages)
    return {"tools": None, "documents": None, "add_generation_prompt": False, **c}


def lenient(template):
    """The environment of transformers with what pith adds."""
    env = hf._compile_jinja_template("").environment
    other = env.overlay()
    other.filters = {**env.filters, "from_json": json.loads}
    other.is_safe_attribute = lambda obj, attr, value: jinja2.sandbox.SandboxedEnvironment.is_safe_attribute(env, obj, attr, value)
    return other.from_string(template)


def rendered(template, variables):
    """(text, None) or (None, message)."""
    try:
        return hf._compile_jinja_template(template).render(**variables), None
    except Exception as e:
        if not isinstance(e, jinja2.exceptions.SecurityError) and not re.match("No filter named 'from_json'", str(e)):
            return None, str(e)
    try:
        return lenient(template).render(**variables), None
    except Exception as e:
        return None, str(e)
