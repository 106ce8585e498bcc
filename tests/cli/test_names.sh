#!/bin/sh
# Models by name: paths first, then the cache that Hugging Face's tools share, never the network.
set -u
. tests/cli/lib.sh
commit=0123456789abcdef0123456789abcdef01234567
other=89abcdef0123456789abcdef0123456789abcdef
cache=$work/cache/hub

# A model in the cache, as other tools lay it out: model ORG--NAME COMMIT REVISION.
model() {
    into=$cache/models--$1
    mkdir -p "$into/blobs" "$into/refs" "$into/snapshots/$2"
    for f in "$probe"/*.json "$probe"/*.safetensors; do
        ln -sf "$f" "$into/blobs/$(basename "$f").blob"
        ln -sf "../../blobs/$(basename "$f").blob" "$into/snapshots/$2/$(basename "$f")"
    done
    printf %s "$2" >"$into/refs/$3"
}
model acme--probe $commit main
model acme--probe $other v2
export HF_HUB_CACHE="$cache"
unset HF_HOME XDG_CACHE_HOME HUGGINGFACE_HUB_CACHE
inspect() {
    "$pith" inspect "$1" --json
}

check "by name" inspect acme/probe
check "by name and branch" inspect acme/probe@v2
check "by name and commit" inspect acme/probe@$other
places="HF_HUB_CACHE=$cache HUGGINGFACE_HUB_CACHE=$cache HF_HOME=$work/cache XDG_CACHE_HOME=$work/xdg HOME=$work/home"
mkdir -p "$work/xdg/huggingface" "$work/home/.cache/huggingface"
ln -s "$cache" "$work/xdg/huggingface/hub"
ln -s "$cache" "$work/home/.cache/huggingface/hub"
for place in $places; do
    check "by ${place%%=*}" env -u HF_HUB_CACHE HOME=/nonexistent "$place" "$pith" inspect acme/probe
done
refuse "a cache of its own comes before a home" 1 'no such model in the cache' \
    env HF_HUB_CACHE="$work/empty" HF_HOME="$work/cache" "$pith" inspect acme/probe

mkdir -p "$work/here/acme/probe"
refuse "a path comes first" 1 'acme/probe' sh -c "cd '$work/here' && '$pith' inspect acme/probe"
refuse "not in the cache" 1 "'pith pull acme/other' downloads it" "$pith" inspect acme/other
refuse "another revision" 1 "'pith pull acme/probe@v3' downloads it" "$pith" inspect acme/probe@v3
refuse "a commit that is not there" 1 "'pith pull" "$pith" inspect acme/probe@0000000000000000000000000000000000000000
refuse "wrong usage comes before a missing model" 2 'gptqq' "$pith" quantize acme/other -o "$work/o" -r gptqq
refuse "no name" 1 'a/b/c' "$pith" inspect a/b/c
refuse "no name: it leads out" 1 'a/..' "$pith" inspect a/..
printf 'not a commit' >"$cache/models--acme--probe/refs/bad"
refuse "a damaged ref" 1 'holds no commit' "$pith" inspect acme/probe@bad
check "as the original of verify" sh -c "
    '$pith' quantize acme/probe -o '$work/out' -r rtn --quiet &&
    '$pith' verify '$work/out' --against acme/probe"
check "as the baseline of eval" "$pith" eval acme/probe --baseline acme/probe@v2 --text "$probe/eval.txt" \
    --context 64 --max-tokens 64
check "in compare, by name" "$pith" compare acme/probe "$probe" acme/probe@v2 --text "$probe/eval.txt" --context 64 \
    --max-tokens 64
grep -q "^$commit/acme/probe " "$work/stdout" && grep -q "^$other/acme/probe " "$work/stdout" &&
    pass "names tell commits apart" || fail "names tell commits apart"

rm "$cache/models--acme--probe/blobs/config.json.blob"
refuse "a link without its blob" 1 "holds a part of it" "$pith" inspect acme/probe
gguf=$cache/models--acme--gguf
mkdir -p "$gguf/refs" "$gguf/snapshots/$commit"
check "a .gguf file is made" "$pith" quantize "$probe" -o "$work/p.gguf" -r rtn --weights q8_0
printf %s $commit >"$gguf/refs/main"
ln -s "$work/p.gguf" "$gguf/snapshots/$commit/p.gguf"
check "a repository of one .gguf file" inspect acme/gguf
ln -s "$work/p.gguf" "$gguf/snapshots/$commit/q.gguf"
refuse "of two of them" 1 'name one of them' "$pith" inspect acme/gguf
shard=$cache/models--acme--shard/snapshots/$commit
mkdir -p "$shard" "$cache/models--acme--shard/refs"
printf %s $commit >"$cache/models--acme--shard/refs/main"
cp "$probe/config.json" "$shard"
: >"$shard/model-00001-of-00002.safetensors"
refuse "a shard is missing" 1 "'pith pull acme/shard' gets the rest" "$pith" inspect acme/shard
finish
