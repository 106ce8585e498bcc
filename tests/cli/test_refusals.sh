#!/bin/sh
# What cannot be opened, read or written says why, and leaves nothing; what is asked for is taken or refused.
set -u
. tests/cli/lib.sh
text=$probe/eval.txt
echo "{{ messages[0].content }}" >"$work/talk.jinja"
"$pith" quantize "$probe" -o "$work/w4" -r rtn --quiet || fail "a model"

# As somebody who may not do all: root may.
if [ "$(id -u)" -eq 0 ]; then
    if command -v setpriv >/dev/null && setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null; then
        cp "$pith" "$work/pith" && cp -r "$probe" "$work/probe" && chmod 755 "$work" "$work/pith" && chmod -R a+rX "$work/probe" "$work/w4" "$work/talk.jinja"
        somebody() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent "$@"; }
    else
        skip "permissions" "root, and no setpriv"
        somebody() { false; }
    fi
else
    cp "$pith" "$work/pith" && cp -r "$probe" "$work/probe"
    somebody() { "$@"; }
fi
mkdir "$work/open" && chmod 777 "$work/open"
denied() { # NAME COMMAND...: refused for a permission, and that is said; the folder "open" has nothing new
    name=$1
    shift
    ls -A "$work/open" >"$work/before"
    refuse "$name" 1 'Permission denied' somebody "$@"
    ls -A "$work/open" | cmp -s - "$work/before" || fail "$name: leaves $(ls -A "$work/open")"
}
if somebody true; then
    p=$work/pith
    cp -r "$work/probe" "$work/closed" && chmod 0 "$work/closed"
    denied "a model's folder" "$p" inspect "$work/closed"
    denied "to run" "$p" run "$work/closed" -p a
    denied "to quantize" "$p" quantize "$work/closed" -o "$work/open/o" -r rtn
    for file in config.json model.safetensors tokenizer.json; do
        cp -r "$work/probe" "$work/without" && chmod 0 "$work/without/$file"
        denied "$file" "$p" run "$work/without" -p a
        rm -rf "$work/without"
    done
    printf 'GGUF' >"$work/x.gguf" && chmod 0 "$work/x.gguf"
    denied "a GGUF file" "$p" inspect "$work/x.gguf"
    cp "$text" "$work/secret" && chmod 0 "$work/secret"
    denied "a text" "$p" eval "$work/probe" --text "$work/secret"
    denied "calibration" "$p" quantize "$work/probe" -o "$work/open/o" -r gptq --calib "$work/secret"
    denied "a baseline" "$p" eval "$work/probe" --baseline "$work/closed" --text "$text"
    denied "tasks" "$p" eval "$work/probe" --tasks "$work/secret"
    denied "a conversation" "$p" chat "$work/probe" --mode exact --load "$work/secret" -p a --chat-template "$work/talk.jinja"
    denied "a chat template" "$p" chat "$work/probe" --mode exact --chat-template "$work/secret" -p a
    denied "keys of a server" "$p" serve "$work/probe" --port 0 --api-key-file "$work/secret"
    denied "a key for a server" "$p" bench --serve http://127.0.0.1:9 --api-key-file "$work/secret"
    denied "a recipe" "$p" quantize "$work/probe" -o "$work/open/o" -r "$work/closed/r.json"
    denied "an account" "$p" verify "$work/closed" --for vllm
    mkdir "$work/shut" && chmod 755 "$work/shut"
    if [ "$(id -u)" -eq 0 ]; then
        denied "a folder to write to" "$p" quantize "$work/probe" -o "$work/shut/o" -r rtn
        denied "a file to write" "$p" convert "$work/w4" -o "$work/shut/o.gguf"
        denied "a page" "$p" compare "$work/probe" "$work/w4" --text "$text" --max-tokens 100 -o "$work/shut/page.html"
    fi
    denied "out of a closed folder" "$p" quantize "$work/probe" -o "$work/closed/o" -r rtn
    chmod -R u+rwX "$work/closed"
fi

# Missing folders, files in the place of folders, folders in the place of files.
refuse "no such model" 1 'nowhere: no such file or folder' "$pith" run "$work/nowhere" -p a
refuse "a file as a folder" 1 'no such file or folder|Not a directory' "$pith" run "$text/model" -p a
refuse "a folder that is missing" 1 'No such file or directory' "$pith" quantize "$probe" -o "$work/no/such/o" -r rtn
refuse "a page there" 1 'cannot write: No such file' "$pith" inspect "$work/w4" -o "$work/no/page.html"
refuse "a folder as a page" 1 'cannot write: Is a directory' "$pith" inspect "$work/w4" -o "$work/w4"
refuse "a folder as a key" 1 'Is a directory' "$pith" bench --serve http://127.0.0.1:9 --api-key-file "$work/w4"
refuse "a folder as keys" 1 'Is a directory' "$pith" serve "$probe" --port 0 --api-key-file "$work/w4"
refuse "a folder as a conversation" 1 'Is a directory' "$pith" chat "$probe" --mode exact --load "$work/w4" -p a --chat-template "$work/talk.jinja"
: >"$work/empty.gguf"
refuse "an empty GGUF" 1 'not a GGUF file: it is empty' "$pith" inspect "$work/empty.gguf"
cp "$text" "$work/foreign.gguf"
refuse "a foreign GGUF" 1 'not a GGUF file: it does not begin' "$pith" run "$work/foreign.gguf" -p a

# Full disks: of standard output, of pages.
refuse "full standard output" 1 'standard output: No space left' sh -c "'$pith' formats >/dev/full"
refuse "much of it" 1 'standard output: No space left' sh -c "'$pith' recipes --json >/dev/full"
refuse "a page on a full disk" 1 'cannot write: No space left' sh -c "'$pith' inspect '$work/w4' -o /dev/full >/dev/null"
if faulty=$(faulty && echo "$faulty") && [ -n "$faulty" ]; then
    for fault in full:1 full:2 full:3; do
        with_fault $fault "$pith" quantize "$probe" -o "$work/open/o" -r rtn >/dev/null 2>"$work/stderr"
        [ $? -eq 1 ] && grep -q 'No space left' "$work/stderr" && [ -z "$(find "$work/open" -type f -empty)" ] && pass "a disk that is full: $fault" ||
            fail "a disk that is full: $fault: $(tail -n 1 "$work/stderr") $(find "$work/open" -type f -empty)"
        rm -rf "$work/open/o.partial" "$work/open/o"
    done
fi
# A page on what is no plain file goes through it, and that stays.
ln -s kept "$work/link" && : >"$work/kept"
check "a page by a link" "$pith" inspect "$work/w4" -o "$work/link"
[ -L "$work/link" ] && grep -q '<html' "$work/kept" && pass "through it" || fail "through the link"
check "a page to nowhere" "$pith" inspect "$work/w4" -o /dev/null
[ -c /dev/null ] && pass "which stays" || fail "/dev/null is gone"
: >"$work/mine.html"
refuse "what is there stays when nothing comes" 1 . "$pith" compare "$probe" "$work/nowhere" --text "$text" -o "$work/mine.html"
[ -e "$work/mine.html" ] && pass "an empty file of somebody's stays" || fail "an empty file of somebody's is gone"

# Counts and sizes: taken or refused.
refuse "no threads" 2 'threads 0: at least 1' "$pith" eval "$probe" --text "$text" --threads 0
for option in "serve --context" "serve --memory" "plan --fit" "plan --offload" "plan --pool-link" "plan --max-latency" "plan --min-users" \
    "plan --max-cost" "quantize --memory" "quantize --max-shard" "quantize --allow-error" "recover --rate" "chat --context"; do
    # shellcheck disable=SC2086
    refuse "nothing for $option" 2 'at least|above 0' "$pith" $option 0 "$probe"
done
refuse "one byte of memory" 2 '1 byte; sizes are written 512M, 6G' "$pith" quantize "$probe" -o "$work/o" -r rtn --memory 1
refuse "as many as a phone number" 2 'sizes are written' "$pith" quantize "$probe" -o "$work/o" -r rtn --memory 512
refuse "no tokens of calibration" 2 'calib-tokens' "$pith" quantize "$probe" -o "$work/o" -r gptq --calib-tokens 0
said() { # NAME PATTERN COMMAND...: it succeeds, and that is said
    name=$1
    pattern=$2
    shift 2
    "$@" >"$work/stdout" 2>"$work/stderr" && cat "$work/stdout" "$work/stderr" | grep -q "$pattern" && pass "$name" || fail "$name: $(cat "$work/stdout" "$work/stderr" | tail -n 3)"
}
said "fewer tokens than a window" '10 were wanted: whole windows' "$pith" quantize "$probe" -o "$work/ten" -r gptq --calib-tokens 10
head -c 3000 "$text" >"$work/short"
said "more than the text has" '8589934592 were wanted; the text has' "$pith" quantize "$probe" -o "$work/many" -r rtn --transform awq --calib-tokens 8G --calib "$work/short"
refuse "int9 is near int8" 2 'did you mean int8' "$pith" quantize "$probe" -o "$work/o" -r rtn --weights int9
said "a finished run" 'finished already' "$pith" quantize "$probe" -o "$work/ten" -r gptq --calib-tokens 10 --resume
# Models in other forms are named for what they are.
foreign() { # FILE WHAT
    mkdir "$work/foreign" && cp "$probe/tokenizer.json" "$work/foreign" && echo '{}' >"$work/foreign/$1"
    for command in "run -p a" inspect plan; do
        refuse "$command, $1" 1 "foreign: no config.json, but $1: $2" "$pith" ${command%% *} "$work/foreign" ${command#"${command%% *}"}
    done
    rm -r "$work/foreign"
}
foreign consolidated.safetensors "Mistral's own form"
foreign consolidated.00.pth "Meta's own form"
foreign params.json "Mistral's or Meta's own form"
foreign adapter_config.json "an adapter: 'pith convert MODEL --adapter DIR"
foreign model_index.json "a pipeline of diffusers"
foreign genai_config.json "a model for ONNX Runtime"
foreign __0_0.distcp "a checkpoint as torch.distributed shards it"
cp -r "$probe" "$work/foreign" && sed 's/"model.embed_tokens.weight/    "tok_embeddings.weight/' \
    "$work/foreign/model.safetensors" >"$work/foreign/consolidated.safetensors" && rm "$work/foreign/model.safetensors"
refuse "tensors of another form" 1 'foreign: holds "tok_embeddings.weight", which is of Mistral.s own form' "$pith" run "$work/foreign" -p a
mkdir "$work/none"
refuse "a folder of nothing" 1 'none/config.json: cannot open: No such file' "$pith" run "$work/none" -p a

cp -r "$probe" "$work/bare" && rm "$work/bare/tokenizer.json" "$work/bare/tokenizer_config.json"
said "a model without a tokenizer" 'has no tokenizer' "$pith" quantize "$work/bare" -o "$work/bare4" -r rtn
said "a cut answer in a pipe" 'cut by --tokens' "$pith" chat "$probe" --chat-template "$work/talk.jinja" -p "Once" -n 2
said "a full context" 'context is full' "$pith" chat "$probe" --chat-template "$work/talk.jinja" -p "Once" --context 32
refuse "no chat template" 1 "'pith run'" "$pith" chat "$probe" --mode exact -p a
finish
