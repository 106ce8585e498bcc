"""lm-eval's local-completions: log-likelihoods and an answer, with the tokenizer that the server tells of (/tokenizer_info)."""
from common import *
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI

lm = LocalCompletionsAPI(base_url=URL + "/completions", model=MODEL, tokenizer_backend="remote", max_length=2048, max_retries=1)


def score():
    pairs = [("The capital of France is", " Paris"), ("The capital of France is", " cheese")]
    right, wrong = lm.loglikelihood([Instance("loglikelihood", {}, p, i) for i, p in enumerate(pairs)])
    need(wrong[0] < right[0] < 0, (right, wrong))


def generate():
    text = lm.generate_until([Instance("generate_until", {}, ("Once upon a time", {"until": ["\n\n"], "max_gen_toks": 16}), 0)])
    need(text and text[0], text)


main(score=score, generate=generate)
