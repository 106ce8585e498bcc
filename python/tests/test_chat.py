"""Conversations: templates, and answers split into content, reasoning and calls."""
import asyncio
import json

import pytest

import pith

TEMPLATE = """{%- if tools %}<|im_start|>system
# Tools
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
For each function call, return a json object within <tool_call></tool_call>:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>{# </think> ends it #}
{% endif %}{% endif %}"""
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
HELLO = [{"role": "user", "content": "Hello <b>\u00e9\U0001f600"}]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "chat.jinja"
    path.write_text(TEMPLATE)
    return path


@pytest.fixture(scope="module")
def talker(probe, template):
    with pith.Engine(probe, threads=2, chat_template=template) as engine:
        yield engine


def test_prompts(probe, template, talker):
    expected = "<|im_start|>user\nHello <b>\u00e9\U0001f600<|im_end|>\n"
    assert pith.prompt_of(probe, HELLO, template=template) == expected
    assert talker.render(HELLO) == expected + "<|im_start|>assistant\n"
    assert talker.render({"messages": HELLO, "add_generation_prompt": False}) == expected
    with pytest.raises(pith.Unsupported, match="template"):
        pith.prompt_of(probe, HELLO)
    with pytest.raises(pith.FormatError):
        talker.render({"messages": 3})


def test_what_chat_says_is_what_the_prompt_gets(talker):
    answer = talker.chat(HELLO, max_tokens=24)
    same = talker.generate(talker.render(HELLO), bare=True, max_tokens=24)
    assert answer.content.strip() == same.text.strip() and answer.finish == same.finish
    assert answer.usage.generated == same.usage.generated
    deltas = list(talker.chat_stream(HELLO, max_tokens=24))
    assert "".join(d.text for d in deltas if d.kind == "content") == answer.content

    async def streamed():
        stream = talker.chat_stream(HELLO, max_tokens=24)
        return "".join([d.text async for d in stream]), await stream.result_async()

    text, gathered = asyncio.run(streamed())
    assert text == gathered.content == answer.content
    two = talker.chat(HELLO, max_tokens=8, n=2, temperature=1.0, seed=1)
    assert len(two.messages) == 2 and two.messages[0] != two.messages[1]


def test_calls_of_a_constrained_answer(talker):
    """A model that is made to call: the whole way from masks to a ToolCall."""
    call = r'<tool_call>\n\{"name": "weather", "arguments": \{"city": "(Rome|Oslo)"\}\}\n</tool_call>'
    answer = talker.chat(HELLO, tools=TOOLS, max_tokens=100, expression=call)
    [made] = answer.tool_calls
    assert made.name == "weather" and json.loads(made.arguments)["city"] in ("Rome", "Oslo") and made.id
    assert answer.content == "" and answer.finish == "tool_calls"
    assert talker.chat(HELLO, max_tokens=100, expression=call).tool_calls == []  # none were offered


def test_reasoning(talker):
    answer = talker.chat(HELLO, template={"enable_thinking": True}, max_tokens=40, expression=r"I think</think>\n\nso")
    assert answer.reasoning.strip() == "I think" and answer.content.strip() == "so"


@pytest.mark.parametrize("cut", [1, 3, 1000])
def test_replies(probe, template, cut):
    form = pith.ReplyFormat(probe, template)
    assert form.name == "hermes" and form.reasoning == ("<think>", "</think>")
    text = 'Let me see.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Z\u00fcrich"}}\n</tool_call>'
    reply = pith.Reply(form, tools=TOOLS, seed=5)
    deltas = [d for i in range(0, len(text), cut) for d in reply.push(text[i:i + cut])] + reply.end()
    assert "".join(d.text for d in deltas if d.kind == "content").strip() == "Let me see."
    calls = [d for d in deltas if d.kind == "call"]
    assert reply.calls == 1 and calls[0].name == "weather" and json.loads("".join(d.text for d in calls)) == {"city": "Z\u00fcrich"}
