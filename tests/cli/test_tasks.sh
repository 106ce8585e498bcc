#!/bin/sh
# Tasks in published forms, examples in front, your own prompts, three signals side by side.
set -u
. tests/cli/lib.sh
tasks=$root/tests/golden/tasks
tiny=$root/tests/golden/eval/tiny

# shown NAME PATTERN: standard output of the last command has such a line.
shown() {
    grep -qE "$2" "$work/stdout" && pass "$1" || { fail "$1"; cat "$work/stdout"; }
}

check "every form at once" "$pith" eval "$tiny" --tasks "$tasks/mmlu" --tasks "$tasks/arc_test.jsonl" \
    --tasks "hellaswag:$tasks/hellaswag.txt.bz2" --tasks "$tasks/piqa/valid.jsonl" --tasks "$tasks/lambada_own.jsonl" \
    --shots 1 --quiet
shown "MMLU is weighted by size" '^  accuracy         34\.62% of 26,'
shown "its categories" '^  humanities       .* of 11,'
shown "what was too long" '^  shortened        26 items'
shown "a name without its endings" '^hellaswag \(1 example'
shown "a file named for its split is called by its form" '^piqa \(1 example'
shown "accuracy by characters" '^  by characters    '
shown "perplexity of words" '^  perplexity       [0-9.e+]+ \+/- '

check "as conversations" "$pith" eval "$tiny" --tasks "$tasks/mmlu" --tasks "$tasks/arc_test.jsonl" --shots 1 \
    --chat --chat-template "$tasks/turns.jinja" --quiet
shown "which is told" '^arc_test \(1 example in front of each question\) \(as conversations\)'
shown "and gives another accuracy" '^  accuracy         46\.15% of 26,'
shown "that of the harness" '^  accuracy         33\.33% of 30,'
cp -r "$tiny" "$work/chatty"
cp "$tasks/turns.jinja" "$work/chatty/chat_template.jinja"
check "the model's own template" "$pith" eval "$work/chatty" --tasks "$tasks/arc_test.jsonl" --task-limit 2 --chat --quiet
refuse "a model without a template" 1 'has no chat template' "$pith" eval "$tiny" --tasks "$tasks/arc_test.jsonl" --chat --quiet
check "JSON" "$pith" eval "$tiny" --baseline "$tiny" --tasks "$tasks/mmlu" --tasks "$tasks/piqa/valid.jsonl" --json --quiet
cat >"$work/keys.py" <<'PY'
import json, sys

mmlu, piqa = json.load(open(sys.argv[1]))["tasks"]
assert mmlu["form"] == "mmlu" and mmlu["n"] == 26 and mmlu["delta"] == 0 and "accuracy_norm" not in mmlu
names = [g["name"] for g in mmlu["groups"]]
assert names[-3:] == ["anatomy", "own_subject", "world_religions"], names
assert abs(sum(g["accuracy"] * g["n"] for g in mmlu["groups"][-3:]) / 26 - mmlu["accuracy"]) < 1e-6
assert piqa["accuracy_norm_ci95"][0] <= piqa["accuracy_norm"] and piqa["verdict_norm"] == "indistinguishable"
PY
cp "$work/stdout" "$work/report.json"
check "its keys" python3 "$work/keys.py" "$work/report.json"

printf 'The lamp on the quay\n\n{"prompt": "So they ate"}\n' >"$work/mine.txt"
check "signals" "$pith" eval "$tiny" --baseline "$tiny" --signals --prompts "$work/mine.txt" --tasks "$tasks/arc_test.jsonl" --quiet
shown "a line for the prompts" '^mine.txt +same token, % +100 +100\.00 +0\.0000 to 0\.0000 +none$'
shown "a line for the task" '^arc_test +right, % .* indistinguishable$'
shown "what is missing" '^No text: give --text FILE'

probe=$root/models/probe
check "what is made" "$pith" eval "$probe" --tasks kv --tasks needles:200 --length 100 --seed 4 --task-limit 1 --quiet
shown "its length and seed" '^kv \(100 tokens, seed 4\)$'
shown "a length of its own" '^needles \(200 tokens, seed 4\)$'
shown "by depth" '^  by depth         0%: (0|100)%, 10%: '
shown "word for word" '^  word for word    .* of 11,'
check "what is made, as JSON" "$pith" eval "$probe" --baseline "$probe" --tasks copy:80 --task-limit 1 --json --quiet
cat >"$work/made.py" <<'PY'
import json, sys

task, = json.load(open(sys.argv[1]))["tasks"]
assert (task["name"], task["form"], task["length"], task["seed"], task["n"]) == ("copy", "copy", 80, 0, 11), task
assert [g["depth"] for g in task["groups"]] == [i / 10 for i in range(11)] and task["delta_exact"] == 0
PY
cp "$work/stdout" "$work/made.json"
check "its keys" python3 "$work/made.py" "$work/made.json"
check "a model that looks things up" "$pith" eval "$root/models/recall" --tasks kv:256 --task-limit 2 --quiet
shown "it finds most" '^  accuracy         (7[0-9]|[89][0-9]|100)\.[0-9]+%'
refuse "a length that is none" 2 'behind the colon stands a length' "$pith" eval "$probe" --tasks kv:long --quiet
refuse "a name that is none" 2 'did you mean "needle"' "$pith" eval "$probe" --tasks needlse:100 --quiet
refuse "too long for the model" 2 '600 tokens, the model takes 512' "$pith" eval "$probe" --tasks kv:600 --quiet
refuse "too long for a model compared" 2 '600 tokens, the model takes 512' "$pith" compare "$probe" "$probe" --tasks kv:600 --quiet
refuse "a length for files" 2 'none of the tasks is one that is made' "$pith" eval "$probe" --tasks "$tasks/mmlu" --length 100

# Answers in a model's own words.
check "numbers behind words" "$pith" eval "$probe" --baseline "$probe" --tasks "$tasks/gsm8k_own.jsonl" --task-limit 3 --shots 2 --json
cp "$work/stdout" "$work/report"
check "both rules" python3 -c "
import json
t = json.load(open('$work/report'))['tasks'][0]
assert [t['form'], t['n'], t['shots'], t['undecided']] == ['gsm8k', 3, 2, 0], t
assert t['accuracy'] <= t['accuracy_flexible'] and t['delta'] == t['delta_flexible'] == 0 and t['mcnemar_p'] == 1, t
assert 'accuracy_norm' not in t and 'accuracy_exact' not in t, t"
cat >"$work/sums.jsonl" <<'JSON'
{"prompt": "75 - 62 =", "target": "13."}
{"prompt": "9 - 4 =", "target": " 5. "}
{"prompt": "9 - 4 =", "target": "5"}
JSON
check "the text itself" "$pith" eval "$probe" --tasks "$work/sums.jsonl" --json --quiet
cp "$work/stdout" "$work/report"
check "which has one rule" python3 -c "
import json
t = json.load(open('$work/report'))['tasks'][0]
assert [t['form'], t['n']] == ['exact', 3] and 'accuracy_flexible' not in t, t
assert abs(t['accuracy'] - 2 / 3) < 1e-9 or t['accuracy'] in (0, 1 / 3), t"
"$pith" eval "$probe" --tasks "$tasks/gsm8k_own.jsonl" --task-limit 1 --quiet >"$work/stdout" 2>"$work/stderr"
shown "in words" '^  the last number  0.00% of 1,'
cat >"$work/values.jsonl" <<'JSON'
{"prompt": "x", "schema": {"type": "object", "required": ["name"]}}
{"prompt": "75 - 62 = ", "schema": {"type": "integer", "minimum": 0, "maximum": 99}}
JSON
check "a JSON value" "$pith" eval "$probe" --tasks "$work/values.jsonl" --json --quiet
cp "$work/stdout" "$work/report"
check "its form" python3 -c "
import json
t = json.load(open('$work/report'))['tasks'][0]
assert [t['form'], t['n']] == ['json', 2] and t['accuracy'] in (0, 0.5) and 'accuracy_flexible' not in t, t"
echo '{"prompt": "x", "schema": {"properties": {"a": {"pattern": "b"}}}}' >"$work/lacks.jsonl"
refuse "a schema that asks for more" 1 'line 1: "properties" of the schema is not understood' "$pith" eval "$probe" --tasks "$work/lacks.jsonl" --quiet
echo '{"question": "q", "answer": "no number"}' >"$work/gsm8k.jsonl"
refuse "no number" 1 'line 1: .*has no number behind' "$pith" eval "$probe" --tasks "gsm8k:$work/gsm8k.jsonl" --quiet
python3 -c "print('{\"prompt\": \"' + 'word ' * 450 + '\", \"target\": \"x\"}')" >"$work/long.jsonl"
refuse "no room for the answer" 1 'and an answer of up to 128, the model takes 512' "$pith" eval "$probe" --tasks "$work/long.jsonl" --quiet

refuse "a file of another kind" 1 'not valid JSON with the keys of a task' "$pith" eval "$tiny" --tasks README.md --quiet
echo '{"goal": "g", "sol1": "a", "sol2": "b"}' >"$work/piqa.jsonl"
refuse "answers are missing" 1 'line 1: no "label", and no file of answers' "$pith" eval "$tiny" --tasks "$work/piqa.jsonl" --quiet
refuse "too many examples" 2 'anatomy, there are 5' "$pith" eval "$tiny" --tasks "$tasks/mmlu" --shots 6 --quiet
refuse "examples of nothing" 2 'does nothing without --tasks' "$pith" eval "$tiny" --text README.md --shots 6
refuse "prompts without a baseline" 2 'needs --baseline' "$pith" eval "$tiny" --prompts "$work/mine.txt"
refuse "signals without a baseline" 2 'needs --baseline' "$pith" eval "$tiny" --signals --tasks "$tasks/mmlu"
finish
