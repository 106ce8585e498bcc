#!/bin/sh
# Prompts of conversations: where a template is found, what it is given, what it may say.
set -u
. tests/cli/lib.sh
m=$work/model
mkdir "$m" "$m/additional_chat_templates"
cat >"$work/c.json" <<'EOF'
{"messages": [{"role": "user", "content": "Hi <b> \"ü\""}, {"role": "assistant", "content": null, "reasoning": "why"}], "mood": "good"}
EOF
sed 's/"mood"/"tools": [{"name": "f"}], "mood"/' "$work/c.json" >"$work/tools.json"
echo '[{"role": "user", "content": "Hi"}]' >"$work/list.json"
# prints NAME WANTED ARGUMENTS...: the prompt is that, and nothing else is printed.
prints() {
    name=$1
    want=$2
    shift 2
    if "$pith" chat "$@" >"$work/stdout" 2>"$work/stderr" && [ ! -s "$work/stderr" ]; then
        printf '%b' "$want" | cmp -s - "$work/stdout" && pass "$name" || {
            fail "$name"
            cat "$work/stdout"
        }
    else
        fail "$name: status, or something on standard error"
        cat "$work/stderr"
    fi
}

refuse "no message" 1 'standard input is empty' sh -c "'$pith' chat '$m' </dev/null"
refuse "no template" 1 'has no chat template' "$pith" chat "$m" --render "$work/c.json"
refuse "no such file" 1 'nowhere' "$pith" chat "$m" --render "$work/nowhere"
cat >"$m/tokenizer_config.json" <<'EOF'
{"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null,
 "chat_template": "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ m.reasoning_content }}{{ m.thinking }}{% endfor %}{{ mood }}{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ pad_token }}{{ eos_token }}\n"}
EOF
whole='<s>[user]Hi <b> "ü"[assistant]whywhygoodNoneNoneFalse</s>'
prints "tokenizer_config.json" "$whole" "$m" --render "$work/c.json"
prints "the messages alone" '<s>[user]HiNoneNoneFalse</s>' "$m" --render "$work/list.json"
"$pith" chat "$m" --render - <"$work/c.json" >"$work/stdout" && [ "$(cat "$work/stdout")" = "$whole" ] &&
    pass "standard input" || fail "standard input"
check "as JSON" sh -c "'$pith' chat '$m' --render '$work/c.json' --json | python3 -c '
import json, sys
assert json.load(sys.stdin) == {\"prompt\": sys.argv[1]}' '$whole'"
printf '{{ strftime_now("%%Y")|int > 2024 }} {{ messages|length }}\n\n' >"$work/own.jinja"
prints "--chat-template" 'True 2\n' "$m" --render "$work/c.json" --chat-template "$work/own.jinja"
cat >"$m/tokenizer_config.json" <<'EOF'
{"chat_template": [{"name": "tool_use", "template": "with {{ tools[0].name }}"}, {"name": "rag", "template": "{{"},
                   {"name": "default", "template": "usual"}]}
EOF
prints "a list: default" usual "$m" --render "$work/c.json"
prints "a list: tool_use" 'with f' "$m" --render "$work/tools.json"
printf 'file wins{{ tools[0].name if tools }}' >"$m/chat_template.jinja"
prints "chat_template.jinja wins" 'file winsf' "$m" --render "$work/tools.json"
printf 'file with {{ tools[0].name }}' >"$m/additional_chat_templates/tool_use.jinja"
prints "its file for tools" 'file with f' "$m" --render "$work/tools.json"
prints "which is for tools alone" 'file wins' "$m" --render "$work/c.json"
rm -r "$m/additional_chat_templates"
printf '{%% for m in messages %%}[{{ m.role + m.content }}]{%% endfor %%}' >"$m/chat_template.jinja"
check "tools that the template does not know are described, which is said" sh -c "
    '$pith' chat '$m' --render '$work/tools.json' >'$work/stdout' 2>'$work/stderr' &&
    grep -q '{\"name\": \"f\"}' '$work/stdout' && grep -q 'knows no tools' '$work/stderr'"
printf 'a\n{%% if messages[0].role == "user" %%}\n{{ raise_exception("Only the " ~ mood) }}{%% endif %%}' >"$m/chat_template.jinja"
refuse "the template's own words" 1 'line 3: Only the good' "$pith" chat "$m" --render "$work/c.json"
printf 'a\n\n{{ messages | nosuch }}' >"$m/chat_template.jinja"
refuse "an unknown filter" 1 "line 3: No filter named 'nosuch'" "$pith" chat "$m" --render "$work/c.json"
printf '{%% for m in messages %%}' >"$m/chat_template.jinja"
refuse "a broken template" 1 "chat_template.jinja: line 1: Unexpected end of template" "$pith" chat "$m" --render "$work/c.json"
printf '{%% macro m() %%}{{ m() }}{%% endmacro %%}{{ m() }}' >"$m/chat_template.jinja"
refuse "without end" 1 'maximum recursion depth' "$pith" chat "$m" --render "$work/c.json"
printf '{%% for i in range(99999) %%}{%% for j in range(99999) %%}{%% endfor %%}{%% endfor %%}' >"$m/chat_template.jinja"
refuse "too long" 1 'takes more than' "$pith" chat "$m" --render "$work/c.json"
echo '{"messages": "Hi"}' >"$work/bad.json"
refuse "no list of messages" 1 'has "messages", a list' "$pith" chat "$m" --render "$work/bad.json"
echo '{"messages": [1]}' >"$work/bad.json"
refuse "a message that is none" 1 'message 0 is no object' "$pith" chat "$m" --render "$work/bad.json"
echo '{"messages": [' >"$work/bad.json"
refuse "no JSON" 1 'not valid JSON' "$pith" chat "$m" --render "$work/bad.json"
# What begins and ends a text is asked of the tokenizer where no file names it.
printf '{{ bos_token }}|{{ eos_token }}' >"$work/own.jinja"
mkdir "$work/bare"
cp "$probe/tokenizer.json" "$probe/config.json" "$work/bare"
prints "special tokens of a tokenizer alone" '<|begin_of_text|>|<|end_of_text|>' "$work/bare" --render "$work/c.json" \
    --chat-template "$work/own.jinja"
if "$pith" convert "$probe" -o "$work/p.gguf" --container gguf --quiet >"$work/log" 2>&1; then
    prints "special tokens of a GGUF file" '<|begin_of_text|>|<|end_of_text|>' "$work/p.gguf" --render "$work/c.json" \
        --chat-template "$work/own.jinja"
fi
# One turn: the prompt that the template makes goes to the model as it is, BOS once.
cp -r "$probe" "$work/m"
chmod -R u+w "$work/m"
printf '{{ bos_token }}{%% for m in messages %%}{{ m.content }}{%% endfor %%}' >"$work/m/chat_template.jinja"
"$pith" run "$work/m" -p Hi -n 8 --json >"$work/plain" 2>"$work/log" && "$pith" run "$work/m" --chat -p Hi -n 8 --json >"$work/chat" 2>"$work/log" &&
    python3 - "$work/plain" "$work/chat" <<'EOF' && pass "a turn is the template's prompt" || fail "a turn is the template's prompt"
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
assert a["text"] == b["text"] and a["prompt_tokens"] == b["prompt_tokens"], (a, b)
EOF
"$pith" run "$work/m" --chat -p Hi -n 8 --quiet >"$work/stdout" 2>"$work/log" && "$pith" run "$work/m" -p Hi -n 8 --quiet >"$work/plain" 2>"$work/log" &&
    cmp -s "$work/stdout" "$work/plain" && pass "the answer alone is printed" || fail "the answer alone is printed"
python3 - "$work/m" <<'EOF'
import json, sys
ids = json.load(open(sys.argv[1] + "/tokenizer.json"))["model"]["vocab"]
json.dump({"bos_token_id": 4094, "eos_token_id": [4095, ids["\u0120is"]]}, open(sys.argv[1] + "/generation_config.json", "w"))
EOF
"$pith" run "$work/m" --chat -p Hi -n 8 --json >"$work/chat" 2>"$work/log" && grep -q '"finish_reason": "stop"' "$work/chat" &&
    pass "each of the model's ends of text ends an answer" || {
    fail "each of the model's ends of text ends an answer"
    cat "$work/chat"
}
refuse "a turn without a template" 1 'has no chat template' "$pith" run "$probe" --chat -p Hi
refuse "--chat-template alone" 2 'does nothing without --chat' "$pith" run "$probe" --chat-template x -p Hi
printf '{{ raise_exception("no") }}' >"$work/m/chat_template.jinja"
refuse "a turn that the template refuses" 1 'line 1: no' "$pith" run "$work/m" --chat -p Hi
# Conversations.
printf '{{ bos_token }}{%% for m in messages %%}{{ m.role }}: {{ m.content }}\n{%% endfor %%}{%% if add_generation_prompt %%}assistant:{%% endif %%}' \
    >"$work/talk.jinja"
chat() { "$pith" chat "$probe" --mode exact --chat-template "$work/talk.jinja" "$@"; }
printf '{{ bos_token }}user: Once upon a time\nassistant:' >"$work/flat.jinja"
"$pith" run "$probe" --chat --chat-template "$work/flat.jinja" -p x -n 12 --kv bf16 --quiet >"$work/plain" 2>"$work/log" &&
    chat -p "Once upon a time" -n 12 >"$work/stdout" 2>"$work/stderr" && cmp -s "$work/plain" "$work/stdout" && [ "$(cat "$work/stderr")" = "pith: the answer is cut by --tokens" ] &&
    pass "an answer is that of pith run" || fail "an answer is that of pith run"
echo "Once upon a time" | chat -n 12 >"$work/piped" 2>"$work/log" && cmp -s "$work/piped" "$work/stdout" && pass "a message from a pipe" ||
    fail "a message from a pipe"
echo '{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Once"}, {"role": "assistant", "content": "upon"}]}' >"$work/talk.json"
printf '{{ bos_token }}system: S\nuser: Once\nassistant: upon\nuser: a time\nassistant:' >"$work/flat.jinja"
"$pith" run "$probe" --chat --chat-template "$work/flat.jinja" -p x -n 6 --kv bf16 --json >"$work/plain" 2>"$work/log" &&
    chat -p "a time" -n 6 --load "$work/talk.json" --json >"$work/chat" 2>"$work/log" && python3 - "$work/plain" "$work/chat" <<'EOF' &&
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
assert a["text"] == b["content"] and a["prompt_tokens"] == b["prompt_tokens"] and "reasoning" not in b, (a, b)
EOF
    pass "a conversation goes on" || fail "a conversation goes on"
chat -p "a time" -n 6 --system S --json >"$work/one" 2>"$work/log" &&
    chat -p "a time" -n 6 --system S --json --temperature 2 --seed 5 >"$work/two" 2>"$work/log" &&
    chat -p "a time" -n 6 --system S --json --temperature 2 --seed 5 >"$work/three" 2>"$work/log" && python3 - "$work/one" "$work/two" "$work/three" <<'EOF' &&
import json, sys
a, b, c = (json.load(open(f))["content"] for f in sys.argv[1:])
assert b == c and a != b, (a, b, c)
EOF
    pass "sampling, with a seed" || fail "sampling, with a seed"
refuse "a message beyond the context" 1 'maximum context length is 64' sh -c "head -c 2000 '$probe/eval.txt' | '$pith' chat '$probe' \
    --mode exact --chat-template '$work/talk.jinja' --context 64"
refuse "a context that the model has not" 2 'the model has 512' "$pith" chat "$probe" --mode exact --chat-template "$work/talk.jinja" --context 513 -p a
refuse "a conversation that is none" 1 'talk.jinja: cannot be|not valid JSON' "$pith" chat "$probe" --mode exact --chat-template "$work/talk.jinja" \
    --load "$work/talk.jinja" -p a
refuse "an empty message" 2 'it is empty' "$pith" chat "$probe" -p ""
refuse "a penalty out of range" 2 'repetition' "$pith" chat "$probe" -p a --repetition 0
# What is thought: in JSON it stands apart, in a pipe it does not stand at all.
printf '{{ bos_token }}{%% for m in messages %%}{{ m.content.split("</think>")[-1] }}{%% endfor %%}{%% if add_generation_prompt %%}<think>\n{%% endif %%}' \
    >"$work/think.jinja"
"$pith" chat "$probe" --mode exact --chat-template "$work/think.jinja" -p "Once upon a time" -n 6 --json >"$work/chat" 2>"$work/log" &&
    python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); assert j["reasoning"] and not j["content"], j' "$work/chat" &&
    [ -z "$("$pith" chat "$probe" --mode exact --chat-template "$work/think.jinja" -p "Once upon a time" -n 6 2>/dev/null)" ] &&
    pass "reasoning is told apart" || fail "reasoning is told apart"
talk() { # WHAT ARGUMENTS...: at a terminal
    what=$1
    shift
    mkdir -p "$work/talk"
    python3 tests/cli/talk.py "$what" "$work/talk" "$pith" chat "$probe" --mode exact "$@"
}
if ldd "$pith" | grep -q libedit; then
    check "commands of a conversation" talk commands --chat-template "$work/talk.jinja"
    check "the history of what was typed" talk history --chat-template "$work/talk.jinja"
    check "Ctrl-C stops an answer, and ends" talk stops --chat-template "$work/talk.jinja"
    check "reasoning is dimmed, without colours marked" talk reasoning --chat-template "$work/think.jinja"
else
    skip "a conversation" "built without libedit"
fi
# A token whose text would clear the screen.
cp -r "$probe" "$work/escape"
chmod -R u+w "$work/escape"
python3 - "$work/escape/tokenizer.json" <<'EOF'
import json, sys
j = json.load(open(sys.argv[1]))
m, old, new = j["model"], "\u0120little", "\u011b[31m\u00c2\u013d2J\u0121"  # ESC [31m U+009B 2J DEL
pair = lambda x: x.split(" ") if isinstance(x, str) else x
m["vocab"] = {new if k == old else k: v for k, v in m["vocab"].items()}
m["merges"] = [x for x in m["merges"] if "".join(pair(x)) != old and old not in pair(x)]
json.dump(j, open(sys.argv[1], "w"))
EOF
check "no control sequence reaches a terminal" python3 tests/cli/talk.py escapes "$work" "$pith" chat "$work/escape" --mode exact \
    --chat-template "$work/talk.jinja" -p "Once upon a time" -n 20
# Conversations to calibrate on.
python3 -c '
import json
for i in range(40):
    print(json.dumps({"messages": [{"role": "user", "content": "Question %d, what is it?" % i}, {"role": "assistant", "content": "It is %d." % (i * i)}]}))' >"$work/lines.jsonl"
printf '{%% for m in messages %%}{{ bos_token }}{{ m.content }}{%% endfor %%}' >"$work/m/chat_template.jinja"
for how in m:template:chat probe:joined:blank; do
    m=${how%%:*} how=${how#*:}
    [ "$m" = probe ] && m=$probe || m=$work/$m
    "$pith" quantize "$m" -o "$work/out" -r awq --calib "$work/lines.jsonl" --seq-len 64 --calib-tokens 256 >"$work/stdout" 2>"$work/log" &&
        grep -q "\"messages\": \"${how%%:*}\"" "$work/out/pith.json" && grep -q "conversations .*${how#*:}" "$work/stdout" &&
        pass "calibrated on conversations: ${how%%:*}" || {
        fail "calibrated on conversations: ${how%%:*}"
        tail -n 5 "$work/log" "$work/stdout"
    }
    rm -rf "$work/out"
done
finish
