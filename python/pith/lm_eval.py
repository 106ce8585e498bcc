"""A model class for EleutherAI's lm-evaluation-harness, registered as "pith".

    import pith.lm_eval
    lm_eval.simple_evaluate(model="pith", model_args="model=out,kv=f32", tasks=["hellaswag"])

or `python -m pith.lm_eval run --model pith --model_args model=out --tasks hellaswag`: the harness' own command line with the class in it.
"""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

from .engine import Engine
from .errors import ArgumentError
from .requests import Answer

# Names that tasks give to how an answer is sampled, and those of Engine.submit().
_SAMPLING = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "repetition_penalty": "repetition",
             "typical_p": "typical", "seed": "seed"}
_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")


@register_model("pith")
class PithLM(TemplateLM):  # type: ignore[misc]
    """model: as of Engine, whose other keywords may be given, too. max_length: tokens of a window (None: what the context has room for).
    add_bos_token: BOS in front where the tokenizer says so. think_end_token: what stands before it is no answer. The harness
    hands over a batch size and a device ("cuda:0" where none was named), which are not used: the engine batches by itself, on the CPU."""

    def __init__(self, model: str, *, max_length: Optional[int] = None, max_gen_toks: int = 256, add_bos_token: bool = True,
                 think_end_token: Optional[str] = None, batch_size: Any = None, max_batch_size: Any = None, device: Optional[str] = None,
                 **engine: Any) -> None:
        super().__init__()
        self.engine = Engine(str(model), **engine)
        self.max_gen_toks = int(max_gen_toks)
        self._add_bos, self._think_end = bool(add_bos_token), think_end_token
        self._bos = self.engine.encode("")[:1]
        self._bos_text = self.engine.decode(self._bos, special=True) if self._bos else ""
        # A scored window is its tokens, one in front and one that is made behind it.
        room = self.engine.state().context - 2
        self.max_length = room if max_length is None else int(max_length)
        if not 0 < self.max_length <= room:
            raise ArgumentError(f"max_length: from 1 to {room}")

    # --- what the harness asks of a tokenizer -------------------------------------------------------------------------------------------

    @property
    def eot_token_id(self) -> int:
        """The token that ends a text, as the checkpoint's config has it."""
        for name in ("generation_config.json", "config.json"):
            path = Path(self.engine.model) / name
            if path.is_file():
                found = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
                if isinstance(found, list) and found:
                    found = found[0]
                if isinstance(found, int):
                    return found
        raise ArgumentError(f"{self.engine.model}: no eos_token_id in config.json")

    @property
    def prefix_token_id(self) -> int:
        """What stands in front of a text that has no context: BOS, or the end of the one before."""
        return self._bos[0] if self._bos else self.eot_token_id

    @property
    def tokenizer_name(self) -> str:
        return str(self.engine.model).replace("/", "__")

    def tok_encode(self, string: str, add_special_tokens: Optional[bool] = None, **_: Any) -> List[int]:
        special = self._add_bos if add_special_tokens is None else add_special_tokens
        if special and self._bos_text and string.startswith(self._bos_text):  # a chat template put it there
            special = False
        return self.engine.encode(string, special=special)

    def chat_template(self, chat_template: Any = False) -> str:
        return ""

    def apply_chat_template(self, chat_history: List[Dict[str, Any]], add_generation_prompt: bool = True) -> str:
        return self.engine.render({"messages": chat_history, "add_generation_prompt": add_generation_prompt,
                                   "continue_final_message": not add_generation_prompt})

    # --- scores -------------------------------------------------------------------------------------------------------------------------

    def _scores(self, windows: Sequence[Tuple[Sequence[int], Sequence[int]]], what: str, quiet: bool) -> Iterator[Tuple[float, bool]]:
        """Of each window (context, continuation): the continuation's log-likelihood, and whether it is what a greedy answer would be."""
        prompts = (self._cut(c, t) for c, t in windows)
        answers = self.engine.generate_many(prompts, max_tokens=1, prompt_logprobs=1)
        for (_, continuation), answer in zip(windows, tqdm(answers, total=len(windows), desc=what, disable=quiet)):
            yield _score(answer, len(continuation))

    def _cut(self, context: Sequence[int], continuation: Sequence[int]) -> List[int]:
        return [*context, *continuation][-(self.max_length + 1):]

    def _loglikelihood_tokens(self, requests: List[Tuple[Any, List[int], List[int]]], disable_tqdm: bool = False,
                              **_: Any) -> List[Tuple[float, bool]]:
        found = []
        windows = [(context, continuation) for _, context, continuation in requests]
        for (key, *_ids), score in zip(requests, self._scores(windows, "Log-likelihoods", disable_tqdm)):
            self.cache_hook.add_partial("loglikelihood", key, score)
            found.append(score)
        return found

    def loglikelihood_rolling(self, requests: List[Any], disable_tqdm: bool = False) -> List[float]:
        windows: List[Tuple[List[int], List[int]]] = []
        counts = []
        for (text,) in (r.args for r in requests):
            ids = self.tok_encode(text, add_special_tokens=False)  # the first window has the prefix in front
            made = [make_disjoint_window(w) for w in
                    get_rolling_token_windows(token_list=ids, prefix_token=self.prefix_token_id, max_seq_len=self.max_length, context_len=1)]
            windows.extend(made)
            counts.append(len(made))
        scores = self._scores(windows, "Rolling log-likelihoods", disable_tqdm)
        found = []
        for request, count in zip(requests, counts):
            total = sum(next(scores)[0] for _ in range(count))
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
            found.append(total)
        return found

    # --- answers ------------------------------------------------------------------------------------------------------------------------

    def _asked(self, context: str, given: Dict[str, Any]) -> Dict[str, Any]:
        """The keywords of Engine.submit() that a task's mean."""
        how = dict(given)
        until = how.pop("until", None) or []
        lengths = [int(how.pop(name)) for name in _LENGTHS if how.get(name) is not None]
        most = lengths[0] if lengths else self.max_gen_toks
        sampled = how.pop("do_sample", None)
        asked = {ours: how.pop(theirs) for theirs, ours in _SAMPLING.items() if how.get(theirs) is not None}
        if sampled is False or (sampled is None and "temperature" not in asked):
            asked["temperature"] = 0.0
        elif "temperature" not in asked:
            asked["temperature"] = 1.0
        how = {k: v for k, v in how.items() if v is not None}
        if how:
            raise ArgumentError(f"generation_kwargs: {', '.join(sorted(how))}: not known")
        room = self.max_length + 2 - most
        if room < 1:
            raise ArgumentError(f"max_gen_toks: {most} tokens leave no room for a prompt in a context of {self.max_length + 2}")
        stops = [until] if isinstance(until, str) else list(until)
        return {"prompt": self.tok_encode(context)[-room:], "max_tokens": most, **asked,
                "stop": [] if self._think_end else [s for s in stops if s]}

    def generate_until(self, requests: List[Any], disable_tqdm: bool = False) -> List[str]:
        found: List[str] = []
        answers = self.engine.generate_many(self._asked(*r.args) for r in requests)
        for request, answer in zip(requests, tqdm(answers, total=len(requests), desc="Answers", disable=disable_tqdm)):
            text = answer.text
            if self._think_end:  # texts that end an answer may stand in its thoughts
                text = text.split(self._think_end)[-1].lstrip()
                until = request.args[1].get("until") or []
                for stop in [until] if isinstance(until, str) else until:
                    text = text.split(stop)[0] if stop else text
            self.cache_hook.add_partial("generate_until", request.args, text)
            found.append(text)
        return found


def _score(answer: Answer, count: int) -> Tuple[float, bool]:
    tokens = answer.prompt[len(answer.prompt) - count:]
    return sum(t.logprob for t in tokens), all(t.id == t.top[0][0] for t in tokens)


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
