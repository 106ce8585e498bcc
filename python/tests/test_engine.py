"""The engine: events, answers, constraints, cancellation, lifetimes."""
import asyncio
import gc
import json
import math
import os
import re
import subprocess
import sys
import threading
import time

import pytest

import pith

ONCE = "Once upon a time"


def run(code, **more):
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, **more)


# --- answers ----------------------------------------------------------------------------------------------------------------------------

def test_the_command_line_says_the_same(engine, probe, program):
    said = subprocess.run([program, "run", str(probe), "-p", ONCE, "-n", "24", "--kv", "f32", "--mode", "exact", "--quiet"],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    assert said.strip() == engine.generate(ONCE, max_tokens=24).text.strip()


def test_events_are_the_answer(engine):
    events = list(engine.stream(ONCE, max_tokens=12, logprobs=3))
    assert [e.kind for e in events[-2:]] == ["choice", "end"]
    answer = engine.generate(ONCE, max_tokens=12, logprobs=3)
    assert "".join(e.text for e in events) == answer.text
    assert [t for e in events for t in e.tokens] == answer.tokens
    assert len(answer.tokens) == 12 and answer.finish == "length"
    assert answer.usage.generated == 12 and answer.usage.prompt == len(engine.encode(ONCE))
    for t in answer.tokens:
        assert len(t.top) == 3 and t.top[0] == (t.id, t.logprob) and t.top[0][1] >= t.top[1][1] >= t.top[2][1]
    assert engine.decode(engine.encode(ONCE, special=False) + [t.id for t in answer.tokens]) == ONCE + answer.text


def test_without_logprobs_there_are_none(engine):
    assert all(math.isnan(t.logprob) and not t.top for t in engine.generate(ONCE, max_tokens=2).tokens)


def test_prompt_logprobs_are_those_of_the_answer(engine):
    answer = engine.generate(ONCE, max_tokens=8, logprobs=0)
    ids = engine.encode(ONCE) + [t.id for t in answer.tokens]
    scored = engine.generate(ids, max_tokens=1, prompt_logprobs=1)
    assert [t.id for t in scored.prompt] == ids and math.isnan(scored.prompt[0].logprob)
    assert [t.logprob for t in scored.prompt[-8:]] == [t.logprob for t in answer.tokens]  # to the bit
    alone = engine.generate(ids, prompt_only=True, prompt_logprobs=0)
    assert [t.logprob for t in alone.prompt[1:]] == [t.logprob for t in scored.prompt[1:]] and alone.tokens == []
    assert all((ONCE + answer.text)[t.offset:].encode().startswith(engine.token(t.id)) for t in scored.prompt[1:])


def test_ids_in_several_forms(engine):
    numpy = pytest.importorskip("numpy")
    ids = engine.encode(ONCE)
    text = engine.generate(ONCE, max_tokens=6).text
    for same in (ids, tuple(ids), numpy.array(ids, numpy.int32), numpy.array(ids, numpy.int64), numpy.array(ids, numpy.int32)[::1]):
        assert engine.generate(same, max_tokens=6).text == text
    with pytest.raises(pith.ArgumentError):
        engine.generate([2**40], max_tokens=1)
    with pytest.raises(pith.ArgumentError, match="vocabulary|id"):
        engine.generate([10**6], max_tokens=1)


def test_echo(engine):
    answer = engine.generate(ONCE, max_tokens=2, echo=True)
    assert answer.prompt_text == ONCE and [t.id for t in answer.prompt] == engine.encode(ONCE)


def test_no_tokens_are_refused(engine):
    for how in {}, {"ignore_end": True}:
        with pytest.raises(pith.ArgumentError, match="max_tokens: at least 1"):
            engine.generate(ONCE, max_tokens=0, **how)


def test_sampling(engine):
    how = dict(max_tokens=16, temperature=1.0, top_k=50, top_p=0.95, min_p=0.01, seed=7)
    one = engine.generate(ONCE, **how)
    assert one.text == engine.generate(ONCE, **how).text
    assert one.text != engine.generate(ONCE, **{**how, "seed": 8}).text
    three = engine.generate(ONCE, **how, n=3)
    assert [c.index for c in three.choices] == [0, 1, 2] and three.choices[0].text == one.text
    assert len({c.text for c in three.choices}) == 3
    best = engine.generate(ONCE, **how, n=1, best_of=3, logprobs=0)
    mean = sum(t.logprob for t in best.tokens) / len(best.tokens)
    assert len(best.choices) == 1 and best.text in {c.text for c in three.choices}
    assert all(mean >= sum(t.logprob for t in c.tokens) / len(c.tokens) - 1e-6 for c in engine.generate(ONCE, **how, n=3, logprobs=0).choices)


def test_bias_and_penalties(engine):
    comma = engine.generate(ONCE, max_tokens=1).tokens[0].id
    assert engine.generate(ONCE, max_tokens=1, bias={comma: -100.0}).tokens[0].id != comma
    assert engine.generate(ONCE, max_tokens=1, bias={99: 100.0}).tokens[0].id == 99
    with pytest.raises(pith.ArgumentError):
        engine.generate(ONCE, max_tokens=1, repetition=-1)


def test_stops(engine):
    whole = engine.generate(ONCE, max_tokens=24)
    word = whole.text.split()[3]
    cut = engine.generate(ONCE, max_tokens=24, stop=word)
    assert cut.finish == "stop" and cut.choices[0].stop == word and cut.text == whole.text[:whole.text.index(word)]
    kept = engine.generate(ONCE, max_tokens=24, stop=[word, "@@"], keep_stop=True)
    assert kept.text.endswith(word)
    by_id = engine.generate(ONCE, max_tokens=24, stop_ids=[whole.tokens[4].id])
    assert by_id.finish == "stop" and by_id.choices[0].stop_id == whole.tokens[4].id


def test_lookup_changes_nothing(engine):
    prompt = "one two three four one two three four one two"
    plain, guessed = engine.generate(prompt, max_tokens=32), engine.generate(prompt, max_tokens=32, lookup=4)
    assert plain.text == guessed.text and guessed.usage.guessed >= guessed.usage.guessed_right


# --- answers that have a form -----------------------------------------------------------------------------------------------------------

def test_forms(engine):
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["x", "y"]}},
              "required": ["a", "b"], "additionalProperties": False}
    for how in ({"schema": schema}, {"schema": json.dumps(schema)}):
        made = engine.generate("Give me an object: ", max_tokens=64, temperature=1.0, seed=3, **how)
        assert made.finish == "stop"
        value = json.loads(made.text)
        assert set(value) == {"a", "b"} and value["b"] in ("x", "y") and 0 <= value["a"] <= 99
    made = engine.generate("A date: ", max_tokens=32, expression=r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", made.text)
    made = engine.generate("JSON: ", max_tokens=200, json=True)
    assert made.finish == "length" or isinstance(json.loads(made.text), dict)
    with pytest.raises(pith.ArgumentError):
        engine.generate("x", json=True, schema=schema)
    with pytest.raises((pith.FormatError, pith.Unsupported)):
        engine.generate("x", max_tokens=1, expression="(((")


# --- failures ---------------------------------------------------------------------------------------------------------------------------

def test_refusals(engine, probe, tmp_path):
    with pytest.raises(pith.ArgumentError, match="empty"):
        engine.generate([], max_tokens=1)
    with pytest.raises(pith.LimitExceeded):
        engine.generate(ONCE, max_tokens=10**6)
    with pytest.raises(pith.ArgumentError):
        engine.generate(ONCE, max_tokens=-1)
    with pytest.raises(pith.ArgumentError):
        engine.generate(ONCE, max_tokens=1, top_k=2**32)
    with pytest.raises(pith.ArgumentError):
        engine.generate(ONCE, stop="a\0b")
    with pytest.raises(pith.ArgumentError):
        engine.submit()
    with pytest.raises(pith.FormatError):
        engine.generate("\ud800", max_tokens=1)
    with pytest.raises(TypeError):
        engine.generate(ONCE, temprature=1)
    with pytest.raises(pith.FileError) as e:
        pith.Engine(tmp_path / "nothing")
    assert isinstance(e.value, OSError) and e.value.status == "IO" and "nothing" in str(e.value)
    with pytest.raises(pith.ArgumentError):
        pith.Engine(probe, kv="int99")
    with pytest.raises(pith.ArgumentError):
        pith.Engine(probe, cpu="nosuch")
    with pytest.raises(pith.ArgumentError, match="size"):
        pith.Engine(probe, memory="much")


def test_nothing_is_cut_at_a_nul(engine):
    with pytest.raises(pith.FormatError, match="0x00"):
        engine.generate("a\0b", max_tokens=1)
    with pytest.raises(pith.FormatError, match="0x00"):
        engine.encode("a\0b")


# --- many at once -----------------------------------------------------------------------------------------------------------------------

PROMPTS = ["Once", "The price of", "def f(x):", "12 * 11 =", "sort: 3 1 2 ->", "JSON: {"] * 4


def test_many_get_what_they_get_alone(engine):
    alone = {p: engine.generate(p, max_tokens=8, logprobs=0).tokens for p in set(PROMPTS)}
    for prompt, answer in zip(PROMPTS, engine.generate_many(PROMPTS, max_tokens=8, logprobs=0)):
        assert answer.tokens == alone[prompt]
    got = {}
    threads = [threading.Thread(target=lambda p=p, i=i: got.update({i: engine.generate(p, max_tokens=8, logprobs=0).tokens}))
               for i, p in enumerate(PROMPTS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(got[i] == alone[p] for i, p in enumerate(PROMPTS))


def test_async(engine):
    async def stream(prompt):
        return "".join([e.text async for e in engine.stream(prompt, max_tokens=8)])

    async def all_of_them():
        texts = await asyncio.gather(*[stream(p) for p in PROMPTS])
        answers = await asyncio.gather(*[_awaited(engine, p) for p in PROMPTS])
        return texts, [a.text for a in answers]

    texts, answers = asyncio.run(all_of_them())
    assert texts == answers == [engine.generate(p, max_tokens=8).text for p in PROMPTS]


async def _awaited(engine, prompt):
    return await engine.submit(prompt, max_tokens=8)


def test_a_cancelled_task_cancels(engine):
    async def left():
        request = engine.submit(ONCE, max_tokens=400, ignore_end=True)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_awaited_request(request), 0.02)
        return request

    request = asyncio.run(left())
    assert request.result().finish == "cancelled"


async def _awaited_request(request):
    return await request


def test_a_short_queue(probe):
    with pith.Engine(probe, sequences=1, queue=1, threads=1) as small:
        running = []
        with pytest.raises(pith.Busy):
            for _ in range(50):
                running.append(small.submit(ONCE, max_tokens=400, ignore_end=True))
        for r in running:
            r.cancel()
        assert [a.finish for a in small.generate_many(PROMPTS, max_tokens=2)] == ["length"] * len(PROMPTS)


# --- ends -------------------------------------------------------------------------------------------------------------------------------

def test_cancel(engine):
    with engine.submit(ONCE, max_tokens=450, ignore_end=True) as request:
        next(request)
    assert request.result().finish == "cancelled"
    assert len(request.result().tokens) < 450


def test_a_request_that_nobody_holds_is_cancelled(engine):
    before = engine.state().generated_tokens
    for _ in range(3):
        next(engine.submit(ONCE, max_tokens=450, ignore_end=True))
    gc.collect()
    until = time.time() + 20
    while engine.state().running and time.time() < until:
        time.sleep(0.01)
    assert engine.state().running == 0 and engine.state().generated_tokens - before < 3 * 450


def test_deadline(engine):
    assert engine.generate(ONCE, max_tokens=450, ignore_end=True, deadline=0.03).finish == "deadline"


def test_closing(probe):
    engine = pith.Engine(probe, threads=1)
    request = engine.submit(ONCE, max_tokens=450, ignore_end=True)
    next(request)
    engine.close()
    engine.close()
    assert engine.closed and request.result().finish == "cancelled"
    for refused in (lambda: engine.generate(ONCE), engine.state, lambda: engine.encode("x"), lambda: engine.embed("x")):
        with pytest.raises(pith.Closed):
            refused()


def test_draining(probe):
    with pith.Engine(probe, threads=1) as engine:
        request = engine.submit(ONCE, max_tokens=50, ignore_end=True)
        engine.drain()
        with pytest.raises(pith.Closed):
            engine.submit(ONCE)
        assert request.result().finish == "length"


def test_an_engine_that_nobody_holds_goes(probe):
    def memory():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[0])

    def once():
        pith.Engine(probe, threads=2).generate(ONCE, max_tokens=1)

    def count():
        return len(os.listdir("/proc/self/task"))

    once()
    gc.collect()
    threads, size = count(), memory()
    for _ in range(6):
        once()
    gc.collect()
    assert count() <= threads and memory() < size + 20000


def test_a_program_may_end_amid_requests(probe):
    ran = run(f"import pith; e = pith.Engine({str(probe)!r}); r = e.submit('x', max_tokens=450, ignore_end=True); next(r); print('ended')")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ended\n", "")


def test_a_forked_child_may_end(probe):
    ran = run(f"""
import os, pith
e = pith.Engine({str(probe)!r})
child = os.fork()
if child == 0:
    del e
    raise SystemExit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), e.generate('Once', max_tokens=1).finish)
""")
    assert ran.stdout == "7 length\n", ran.stderr


def test_ctrl_c_ends_a_wait(probe):
    ran = run(f"""
import os, signal, threading, time, pith
e = pith.Engine({str(probe)!r}, threads=1)
r = e.submit('Once', n=8, max_tokens=480, ignore_end=True, temperature=1.0)
next(r)
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    r.result()
    print('too soon')
except KeyboardInterrupt:
    print(r.result().finish)
""")
    assert ran.stdout in ("cancelled\n", "too soon\n"), ran.stderr
    assert ran.stdout == "cancelled\n"


# --- beside answers ---------------------------------------------------------------------------------------------------------------------

def test_embeddings(engine):
    numpy = pytest.importorskip("numpy")
    one, same, ids, other = (engine.embed(x, normal=True) for x in (ONCE, ONCE, engine.encode(ONCE), "def f(x):"))
    assert one.dtype == numpy.float32 and one.ndim == 1 and abs(float(one @ one) - 1) < 1e-5
    assert (one == same).all() and (one == ids).all() and float(one @ other) < 0.999
    raw = engine.embed(ONCE)
    numpy.testing.assert_allclose(raw / numpy.linalg.norm(raw), one, rtol=1e-5, atol=1e-7)
    part = engine.embed(ONCE)[2:5]  # the library's memory lives as long as what shows it
    gc.collect()
    kept = [engine.embed("something else") for _ in range(50)]
    assert (part == raw[2:5]).all() and len(kept) == 50


def test_state(engine):
    before = engine.state()
    engine.generate(ONCE, max_tokens=3)
    after = engine.state()
    assert after.generated_tokens - before.generated_tokens == 3 and after.vocab == 4096 and after.kv == "f32" and after.context == 512


def test_prefix_cache(probe):
    long = "The quick brown fox jumps over the lazy dog. " * 12
    with pith.Engine(probe, threads=1) as keeps, pith.Engine(probe, threads=1, prefix_cache=False) as forgets:
        assert keeps.generate(long, max_tokens=1).usage.cached == 0
        assert keeps.generate(long, max_tokens=1).usage.cached > 0
        assert [forgets.generate(long, max_tokens=1).usage.cached for _ in range(2)] == [0, 0]
