#!/bin/sh
# pith verify names what is wrong with tokens: ends, templates, flags, ids, and files that engines do not load.
set -u
. tests/cli/lib.sh
mkdir "$work/m"
cp "$probe"/* "$work/m"
chmod -R u+w "$work/m"
mkdir "$work/m/additional_chat_templates"
printf '{{ messages[0].content }}' >"$work/m/chat_template.jinja"
printf 'tools {{ messages[0].content }}' >"$work/m/additional_chat_templates/tool_use.jinja"
printf 'rag {{ documents }}' >"$work/m/additional_chat_templates/rag.jinja"
edit() { # FILE CODE: the JSON of a file is x
    python3 - "$1" "$2" <<'EOF'
import json, sys
x = json.load(open(sys.argv[1]))
exec(sys.argv[2])
json.dump(x, open(sys.argv[1], "w"))
EOF
}
edit "$work/m/generation_config.json" 'x["eos_token_id"] = [4095, 260]'
check "a file is made" "$pith" quantize "$work/m" -o "$work/q.gguf" -r rtn --weights q8_0 --quiet
check "a folder is made" "$pith" quantize "$work/m" -o "$work/q" -r w8a16 --quiet
check "it is right" "$pith" verify "$work/q" --against "$work/m" --for transformers --for vllm
check "so is the file" "$pith" verify "$work/q.gguf" --against "$work/m" --for llama.cpp
rm "$work/q/pith.json"
check "without an account, too" "$pith" verify "$work/q" --against "$work/m" --for transformers

named() { # NAME PATTERN OPTIONS...: verify fails, and says so
    name=$1 pattern=$2
    shift 2
    "$pith" verify "$@" >"$work/stdout" 2>&1 && got=0 || got=$?
    [ "$got" -eq 1 ] && grep -qE -e "$pattern" "$work/stdout" && pass "$name" || {
        fail "$name: status $got, without '$pattern'"
        cat "$work/stdout"
    }
}
damaged() { # NAME PATTERN FILE CODE [OPTIONS...]
    title=$1 text=$2 file=$3 code=$4
    shift 4
    cp -r "$work/q" "$work/d"
    edit "$work/d/$file" "$code"
    named "$title" "$text" "$work/d" --against "$work/m" "$@"
    rm -r "$work/d"
}
damaged "an end is gone" 'ends of generation: 260' generation_config.json 'x["eos_token_id"] = 4095'
damaged "the list of ends is gone" 'ends of generation: 260' generation_config.json 'del x["eos_token_id"]'
damaged "an end more" 'ends of generation: 300' generation_config.json 'x["eos_token_id"].append(300)'
damaged "a token is not special any more" 'token 4094, .*, is text, and special' tokenizer.json \
    '[t for t in x["added_tokens"] if t["id"] == 4094][0]["special"] = False'
damaged "a token takes blanks now" 'becomes other ids' tokenizer.json \
    '[t for t in x["added_tokens"] if t["id"] == 4094][0]["lstrip"] = True'
damaged "two ids changed places" 'token 300 is' tokenizer.json \
    'v = x["model"]["vocab"]; a, b = [k for k in v if v[k] in (300, 301)]; v[a], v[b] = v[b], v[a]'
damaged "a merge is gone" 'merges' tokenizer.json 'x["model"]["merges"].pop()'
damaged "what begins a text" 'BOS is' tokenizer_config.json 'x["bos_token"] = x["eos_token"]'
damaged "a flag is missing" 'tokenizer.json: added_tokens: entry 0: has no "single_word"' tokenizer.json \
    'del x["added_tokens"][0]["single_word"]' --for transformers
damaged "an unknown version" 'vllm: tokenizer.json: "version" is not' tokenizer.json 'x["version"] = "2.0"' --for vllm
damaged "an unknown member" 'no member that is known' tokenizer.json 'x["made_by"] = "me"' --for sglang
damaged "a way to cut without a name" 'llama.cpp: .*cuts a text' tokenizer.json \
    'x["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": False}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}' --for llama.cpp

template() { # NAME PATTERN COMMAND
    cp -r "$work/q" "$work/d"
    (cd "$work/d" && eval "$3")
    named "$1" "$2" "$work/d" --against "$work/m"
    rm -r "$work/d"
}
template "the template is another" 'the chat template is not the original' 'echo x >>chat_template.jinja'
template "the template is gone" 'the chat template of the original is missing' 'rm chat_template.jinja'
template "that for tools is another" 'the chat template "tool_use" is not' 'echo x >additional_chat_templates/tool_use.jinja'
template "one of several is gone" 'the chat template "rag" of the original is missing' 'rm additional_chat_templates/rag.jinja'

# A file: its keys are changed to others of the same length.
key() { # NAME PATTERN OLD NEW
    python3 - "$work/q.gguf" "$work/d.gguf" "$3" "$4" <<'EOF'
import sys
data, old, new = open(sys.argv[1], "rb").read(), sys.argv[3].encode(), sys.argv[4].encode()
assert old in data and len(old) == len(new)
open(sys.argv[2], "wb").write(data.replace(old, new))
EOF
    named "$1" "$2" "$work/d.gguf" --against "$work/m"
}
key "a file without an end" 'ends of generation: 260' tokenizer.ggml.eot_token_id tokenizer.ggml.xxx_token_id
key "a file whose template for tools has another name" 'template "tool_use" of the original is missing' chat_template.tool_use chat_template.fool_use
finish
