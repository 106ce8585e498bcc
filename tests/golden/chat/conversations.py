"""The conversations that every chat template is rendered over."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather in a city, now or soon.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Which city: \"Zürich\", <b>Genève</b> & more"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": "integer", "minimum": 0, "description": "How many days ahead"},
        "places": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
        "exact": {"type": ["boolean", "null"]}}, "required": ["city"]},
    "return": {"type": "string", "description": "A sentence"}}}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "The time.",
                                          "parameters": {"type": "object", "properties": {}}}}
SYSTEM = {"role": "system", "content": "You are terse.\nNever shout."}
ASK = {"role": "user", "content": "  What's the weather in \"Zürich\"? 天気 <|im_end|> 😀 \n"}


def call(arguments, id="call00001", name="get_weather", **more):
    return {"role": "assistant", "content": more.pop("content", ""), **more,
            "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]}


def result(content="12.5 degrees, rain", id="call00001", name="get_weather"):
    return {"role": "tool", "tool_call_id": id, "name": name, "content": content}


TURNS = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi there! "}, {"role": "user", "content": "Count to 3."},
         {"role": "assistant", "content": "1, 2, 3\n"}, {"role": "user", "content": "More"}]
ARGS = {"city": "Zürich", "days": 2, "exact": True, "places": [{"name": "Oerlikon"}], "ratio": 0.1, "none": None}
THOUGHT = [{"role": "user", "content": "Think."}, {"role": "assistant", "reasoning_content": "Step 1.\nStep 2.", "content": "Done."},
           {"role": "user", "content": "Again."}]
INLINE = [{"role": "user", "content": "Think."}, {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nDone."},
          {"role": "user", "content": "Again."}, {"role": "assistant", "content": "<think>x</think>Twice."}]
CALLED = [ASK, call(ARGS), result(), {"role": "assistant", "content": "It rains."}, {"role": "user", "content": "Thanks"}]
TWICE = [ASK, {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Bern"}}},
    {"id": "call00002", "type": "function", "function": {"name": "clock", "arguments": {}}}]},
    result("rain"), result("{\"time\": \"12:00\"}", "call00002", "clock")]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "Look at this:"}, {"type": "image", "image": "x.png"}, {"type": "text", "text": " nice?"}]},
         {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}, {"role": "user", "content": "Why?"}]
THINK_CALL = [SYSTEM, ASK, call(ARGS, reasoning_content="I need the weather.", content="Let me look."), result()]
TOOLS = [WEATHER, CLOCK]

CONVERSATIONS = {
    "one": {"messages": [ASK]},
    "system": {"messages": [SYSTEM, ASK]},
    "turns": {"messages": TURNS},
    "system_turns": {"messages": [SYSTEM, *TURNS]},
    "answered": {"messages": [SYSTEM, *TURNS[:2]]},
    "tools": {"messages": [ASK], "tools": TOOLS},
    "system_tools": {"messages": [SYSTEM, ASK], "tools": TOOLS},
    "called": {"messages": CALLED, "tools": TOOLS},
    "system_called": {"messages": [SYSTEM, *CALLED], "tools": TOOLS},
    "called_text": {"messages": [ASK, call("{\"city\": \"Zürich\", \"days\": 2}"), result()], "tools": TOOLS},
    "called_without_tools": {"messages": CALLED},
    "waiting": {"messages": CALLED[:2], "tools": TOOLS},
    "resulted": {"messages": [SYSTEM, *CALLED[:3]], "tools": TOOLS},
    "twice": {"messages": TWICE, "tools": TOOLS},
    "thought": {"messages": THOUGHT},
    "thought_off": {"messages": THOUGHT, "enable_thinking": False},
    "thought_on": {"messages": THOUGHT, "enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    "inline_thought": {"messages": INLINE},
    "think_call": {"messages": THINK_CALL, "tools": TOOLS},
    "think_call_on": {"messages": THINK_CALL, "tools": TOOLS, "enable_thinking": True, "thinking": True},
    "parts": {"messages": PARTS},
    "documents": {"messages": [SYSTEM, ASK], "documents": [{"title": "Rain", "text": "It rains.", "doc_id": 1}, {"title": "Sun", "text": "No sun.\n"}]},
    "wrong_order": {"messages": [TURNS[0], TURNS[0], TURNS[1]]},
    "assistant_first": {"messages": [TURNS[1], TURNS[0]]},
    "unknown_role": {"messages": [{"role": "narrator", "content": "Night."}, TURNS[0]]},
    "developer": {"messages": [{"role": "developer", "content": "Be kind."}, TURNS[0]]},
    "empty_content": {"messages": [{"role": "system", "content": ""}, {"role": "user", "content": ""}, {"role": "assistant", "content": ""}]},
    "no_content": {"messages": [{"role": "user"}]},
    "date": {"messages": [SYSTEM, TURNS[0]], "date_string": "26 Jul 2024", "builtin_tools": ["browser", "code_interpreter"], "model_identity": "You are pith."},
}
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def all_cases():
    """(name, variables) of every conversation, with and without the prompt for an answer."""
    for name, c in CONVERSATIONS.items():
        for prompt in (False, True):
            yield name + ("+" if prompt else ""), {**c, "add_generation_prompt": prompt}
