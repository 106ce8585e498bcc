#!/bin/sh
# Holds the containers against the libraries whose they are: their code loads what pith writes, pith
# reads what they write, transformers runs a model that `pith quantize` made. Installs what it needs in
# .interop (about 2 GB, mostly PyTorch for CPUs). PITH names the program; libpith.a lies beside it;
# LLAMA_CPP a folder with llama.cpp's programs, LLAMA_SOURCE one with its sources, for what needs them.
set -eu
cd "$(dirname "$0")/../.."
PITH=${PITH:-build/pith}
place=$PWD/.interop
python=$place/venv/bin/python
export PEERS="$place/peers" TMPDIR="$place/tmp" TRANSFORMERS_VERBOSITY=error PITH
here=tests/interop

rm -rf "$TMPDIR" "$place/made"
mkdir -p "$TMPDIR" "$place/made/pith" "$place/made/peers" "$place/made/models"

if [ ! -f "$place/ready" ]; then
    echo "installing the peers in .interop (once)"
    python3 -m venv "$place/venv"
    "$python" -m pip install -q torch==2.13.0
    "$python" -m pip install -q "transformers>=5,<6" compressed-tensors==0.20.0 safetensors numpy bitsandbytes accelerate
    # Without their dependencies: the peers' own would replace the torch above.
    # shellcheck disable=SC2046
    "$python" -m pip install -q --no-deps $("$python" $here/peers.py support)
    # ModelOpt wants CUDA's packages; what its export on a CPU imports is enough.
    "$python" -m pip install -q omegaconf PuLP scipy rich
    "$python" -m pip install -q --no-deps nvidia-modelopt==0.47.0
    "$python" $here/peers.py fetch "$PEERS"
    touch "$place/ready"
fi
"$python" -c "import gguf" 2>/dev/null || "$python" -m pip install -q gguf==0.19.0

flags=$(pkg-config --cflags --libs jansson libpcre2-8 libutf8proc libcrypto)
for tool in containers logits; do
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c17 -O1 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -Itests -o "$place/made/$tool" \
        $here/$tool.c "$(dirname "$PITH")/libpith.a" -lcmocka $flags -lm -pthread
done
export LOGITS="$place/made/logits"

# The libraries talk a lot while they load; what they say is shown when something fails.
quiet() {
    if ! "$@" 2>"$place/made/log"; then
        cat "$place/made/log" >&2
        exit 1
    fi
}
"$place/made/containers" write "$place/made/pith"
quiet "$python" $here/containers.py load "$place/made/pith"
quiet "$python" $here/containers.py make "$place/made/peers"
"$place/made/containers" read "$place/made/peers"
quiet "$python" $here/models.py "$place/made/models"
"$python" $here/gguf_files.py "$place/made/gguf"
quiet "$python" $here/gguf_archs.py "$place/made/gguf-archs"
# Clients of pith serve.
"$python" -c "import openai, lm_eval" 2>/dev/null || "$python" -m pip install -q openai "lm-eval[api]==0.4.13"
quiet "$python" $here/openai_client.py "$PITH" models/probe
quiet "$python" $here/lm_eval_client.py "$PITH" models/probe models/probe/tasks/*.jsonl
rm -rf "$TMPDIR"
echo "interoperation: all equal"
