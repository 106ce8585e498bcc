"""guidellm: its program measures streams of the server, with prompts of a file (made ones need a tokenizer of the hub)."""
import os
import subprocess
import sys
import tempfile

from common import *


def run():
    with tempfile.TemporaryDirectory() as work:
        prompts = os.path.join(work, "prompts.json")
        with open(prompts, "w") as f:
            f.write("\n".join('{"prompt": "Tell a story of %d mice."}' % i for i in range(8)))
        done = subprocess.run([os.path.join(os.path.dirname(sys.executable), "guidellm"), "run", "--disable-console-interactive", "--backend",
                               f"kind=openai_http,target={ROOT},model={MODEL},extras.body.max_tokens=8", "--profile", "kind=concurrent,streams=2",
                               "--constraint", "kind=max_requests,count=4", "--data", f"kind=json_file,path={prompts}",
                               "--output", "kind=json,path=" + work], cwd=work, capture_output=True, text=True)
    need(done.returncode == 0, done.stderr[-600:])


main(run=run)
