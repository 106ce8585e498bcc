"""llm: its program with a model of `extra-openai-models.yaml`: a schema, a stream, a tool and its answer, its error."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from common import *

home = tempfile.TemporaryDirectory()
pathlib.Path(home.name, "extra-openai-models.yaml").write_text(
    f"- model_id: pith\n  model_name: {MODEL}\n  api_base: {URL}\n  supports_tools: true\n  supports_schema: true\n")


def llm(*arguments):
    return subprocess.run([os.path.join(os.path.dirname(sys.executable), "llm"), "-m", "pith", "--key", KEY, *arguments],
                          input="", capture_output=True, text=True, env={**os.environ, "LLM_USER_PATH": home.name})


def right(*arguments):
    done = llm(*arguments)
    need(done.returncode == 0 and done.stdout.strip(), done.stderr)
    return done.stdout


def tool():
    # This program cannot force a call; the tool is offered, in two turns of one conversation.
    code = "def weather(city: str) -> str:\n    'The weather of a city.'\n    return 'Sunny.'"
    right("--functions", code, "-o", "max_tokens", "40", QUESTION)
    right("-c", "--functions", code, "-o", "max_tokens", "40", "And in Rome?")


def schema():
    City(**json.loads(right("--schema", json.dumps(City.model_json_schema()), "-o", "max_tokens", "100", "Name a city.")))


def stream():
    right("-o", "max_tokens", "16", "Hello")
    right("--no-stream", "-o", "max_tokens", "16", "Hello")


def overflow():
    done = llm(LONG)
    need(done.returncode != 0 and "maximum context length is" in done.stderr, done.stderr)


main(tool=tool, schema=schema, stream=stream, overflow=overflow)
