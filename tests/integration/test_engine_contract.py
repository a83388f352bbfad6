"""What every engine must keep: the same tests against the embedded engine and a real vLLM."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import torch
from chat_model_contract import hold
from tiny_model import TOP_K, make_tiny_adapter
from transformers import AutoModelForCausalLM

from daemon.embedded_process import EmbeddedEngine
from daemon.engine import EngineClient
from harness_adapters.errors import EngineError
from harness_adapters.prompt import Prompt
from hinting.model import Sampling

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPT = [1, 385, 201, 74, 75, 2, 201, 1, 277, 459, 201]
GREEDY = Sampling(temperature=0.0, max_tokens=8)
CHAT: dict[str, Any] = {
    "model": "base",
    "messages": [{"role": "user", "content": "How do I return shoes?"}],
    "max_tokens": 12,
    "temperature": 0.7,
    "seed": 3,
}


@dataclass(frozen=True)
class Running:
    """An engine under test, with adapters that it has not loaded."""

    client: EngineClient
    session: aiohttp.ClientSession
    url: str
    adapters: tuple[Path, Path]

    async def post(self, route: str, body: object) -> tuple[int, Any]:
        """Return the status and the JSON answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        async with self.session.post(self.url + route, data=data, headers=headers) as response:
            return response.status, json.loads(await response.read())

    async def stream(self, route: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the events of a streamed answer, having seen it end properly."""
        async with self.session.post(self.url + route, json={**body, "stream": True}) as response:
            assert response.status == 200
            assert response.content_type == "text/event-stream"
            events = [line[6:].strip() async for line in response.content if line.startswith(b"data: ")]
        assert events.pop() == b"[DONE]"
        return [json.loads(event) for event in events]


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory, tiny_base: Path) -> tuple[Path, Path]:
    """Two adapters of the tiny model."""
    folder = tmp_path_factory.mktemp("adapters")
    first, second = (make_tiny_adapter(folder / f"seed{seed}", tiny_base, seed=seed) for seed in (1, 2))
    return first, second


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["embedded", pytest.param("vllm", marks=pytest.mark.vllm)]
)
async def engine(
    request: pytest.FixtureRequest,
    tiny_base: Path,
    adapters: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[Running]:
    """One running engine."""
    child: EmbeddedEngine | None = None
    if request.param == "vllm":
        url = request.getfixturevalue("vllm").base_url
    else:
        log = tmp_path_factory.mktemp("embedded") / "engine.log"
        child = await EmbeddedEngine.start(tiny_base, log=log, threads=1)
        url = child.base_url
    async with aiohttp.ClientSession() as session:
        client = EngineClient(url, session)
        for left in set(await client.models()) - {"base"}:
            # Another test's, where the engine is shared.
            await client.unload_adapter(left)
        yield Running(client, session, url, adapters)
    if child:
        await child.stop()


async def test_contract_check_passes(engine: Running) -> None:
    facts = await engine.client.check_contract()
    assert facts.version == await engine.client.version()
    assert await engine.client.health()


async def test_base_and_adapters_are_chat_models(engine: Running) -> None:
    await engine.client.load_adapter("chat@v1", engine.adapters[0])
    await hold(engine.client.for_model("base"))
    await hold(engine.client.for_model("chat@v1"))
    await engine.client.unload_adapter("chat@v1")


async def test_whole_answer_has_its_ids(engine: Running) -> None:
    status, answer = await engine.post("/v1/chat/completions", {**CHAT, "return_token_ids": True, "logprobs": True})
    assert status == 200
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "base"
    assert answer["prompt_token_ids"] == await engine.client.render(Prompt(messages=tuple(CHAT["messages"])))
    choice = answer["choices"][0]
    assert answer["usage"]["completion_tokens"] == len(choice["token_ids"]) == len(choice["logprobs"]["content"])
    assert answer["usage"]["prompt_tokens"] == len(answer["prompt_token_ids"])
    assert choice["finish_reason"] in {"stop", "length"}
    assert choice["message"]["role"] == "assistant"
    assert all(entry["logprob"] <= 0 for entry in choice["logprobs"]["content"])


async def test_ids_are_given_only_when_asked_for(engine: Running) -> None:
    _, answer = await engine.post("/v1/chat/completions", CHAT)
    assert answer.get("prompt_token_ids") is None
    assert answer["choices"][0].get("token_ids") is None
    for chunk in await engine.stream("/v1/chat/completions", CHAT):
        assert chunk.get("prompt_token_ids") is None
        assert all(choice.get("token_ids") is None for choice in chunk["choices"])


async def test_chat_stream_adds_up_to_the_whole_answer(engine: Running) -> None:
    body = {**CHAT, "return_token_ids": True, "stream_options": {"include_usage": True}}
    chunks = await engine.stream("/v1/chat/completions", body)
    _, whole = await engine.post("/v1/chat/completions", {**CHAT, "return_token_ids": True})
    choice = whole["choices"][0]
    *steps, last = chunks
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == len(choice["token_ids"])
    assert steps[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert steps[0]["choices"][0]["delta"]["role"] == "assistant"
    assert all(step.get("prompt_token_ids") is None for step in steps[1:])
    ids = [token for step in steps for token in step["choices"][0].get("token_ids") or []]
    text = "".join(step["choices"][0]["delta"].get("content") or "" for step in steps)
    reasons = [step["choices"][0].get("finish_reason") for step in steps]
    assert ids == choice["token_ids"]
    assert text == choice["message"]["content"]
    assert reasons[-1] == choice["finish_reason"]
    assert set(reasons[:-1]) == {None}
    assert len({chunk["id"] for chunk in chunks}) == 1


async def test_completion_stream_adds_up_to_the_whole_answer(engine: Running) -> None:
    body = {"model": "base", "prompt": PROMPT, "max_tokens": 10, "temperature": 0, "return_token_ids": True}
    steps = [chunk["choices"][0] for chunk in await engine.stream("/v1/completions", body)]
    choice = (await engine.post("/v1/completions", body))[1]["choices"][0]
    assert steps[0]["prompt_token_ids"] == choice["prompt_token_ids"] == PROMPT
    assert all(step["prompt_token_ids"] is None for step in steps[1:])
    assert [token for step in steps for token in step["token_ids"]] == choice["token_ids"]
    assert "".join(step["text"] for step in steps) == choice["text"]


async def test_text_parts_are_one_text(engine: Running) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    as_parts = await engine.client.render(Prompt(messages=({"role": "user", "content": parts},)))
    assert as_parts == await engine.client.render(Prompt(messages=({"role": "user", "content": "one\ntwo"},)))


async def test_tool_calls_render_alike(engine: Running) -> None:
    tools = [{"type": "function", "function": {"name": "find", "description": "d", "parameters": {"type": "object"}}}]
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": 7}'}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
    ]
    _, answer = await engine.post(
        "/tokenize", {"model": "base", "messages": messages, "tools": tools, "return_token_strs": True}
    )
    _, text = await engine.post("/detokenize", {"model": "base", "tokens": answer["tokens"]})
    assert len(answer["token_strs"]) == answer["count"] == len(answer["tokens"])
    # Byte for byte, since a prompt rendered here must be the one rendered there.
    assert text["prompt"] == (
        '<|im_start|>system\ntools: [{"type": "function", "function": {"name": "find", "description": "d", '
        '"parameters": {"type": "object"}}}]<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n'
        '<tool_call>{"arguments": {"order": 7}, "name": "find"}</tool_call><|im_end|>\n'
        "<|im_start|>tool\nfound<|im_end|>\n<|im_start|>assistant\n"
    )


async def test_text_survives_the_tokenizer(engine: Running) -> None:
    for text in ("Where is my parcel?", "naïve café — 北京 🙂", " \n\t two  spaces ", ""):
        ids = await engine.client.encode(text)
        _, answer = await engine.post("/detokenize", {"model": "base", "tokens": ids})
        assert answer["prompt"] == text


async def test_half_a_character_is_never_streamed(engine: Running) -> None:
    for seed in range(5):
        body = {**CHAT, "temperature": 2.0, "top_k": 0, "top_p": 1.0, "seed": seed, "max_tokens": 40}
        for chunk in await engine.stream("/v1/chat/completions", body):
            json.dumps(chunk, ensure_ascii=False).encode("utf-8")
        whole = (await engine.post("/v1/chat/completions", body))[1]["choices"][0]["message"]["content"]
        streamed = "".join(
            chunk["choices"][0]["delta"].get("content") or ""
            for chunk in await engine.stream("/v1/chat/completions", body)
        )
        assert streamed == whole


async def test_temperature_zero_repeats_itself(engine: Running) -> None:
    first, again = [await engine.client.complete("base", PROMPT, GREEDY) for _ in range(2)]
    assert first == again
    assert len(first.ids) == GREEDY.max_tokens


async def test_stop_string_ends_the_text_before_it(engine: Running) -> None:
    body = {"model": "base", "prompt": PROMPT, "max_tokens": 40, "temperature": 1, "seed": 5}
    text = (await engine.post("/v1/completions", body))[1]["choices"][0]["text"]
    stop = text[6:8]
    expected = text[: text.find(stop)]
    choice = (await engine.post("/v1/completions", {**body, "stop": [stop]}))[1]["choices"][0]
    assert choice["text"] == expected
    assert choice["finish_reason"] == "stop"
    assert choice["stop_reason"] == stop
    streamed = await engine.stream("/v1/completions", {**body, "stop": [stop]})
    assert "".join(chunk["choices"][0]["text"] for chunk in streamed) == expected


async def test_scores_are_the_logprobs_of_generation(engine: Running) -> None:
    # At temperature 1 and with nothing cut off, raw and processed log-probabilities are the same.
    whole = {"temperature": 1, "top_k": 0, "top_p": 1.0}
    body = {**whole, "model": "base", "prompt": PROMPT, "max_tokens": 12, "seed": 9, "logprobs": 0}
    choice = (await engine.post("/v1/completions", {**body, "return_token_ids": True}))[1]["choices"][0]
    scored = await engine.client.score("base", [*PROMPT, *choice["token_ids"]], len(PROMPT))
    assert scored == pytest.approx(choice["logprobs"]["token_logprobs"], abs=1e-3)


def logprobs_of(model_dir: Path, ids: list[int]) -> torch.Tensor:
    """Return transformers' log-probabilities of what follows each of `ids`, `[len(ids), vocabulary]`."""
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)


async def test_scores_are_of_the_whole_distribution(engine: Running, tiny_base: Path) -> None:
    logprobs = logprobs_of(tiny_base, PROMPT)
    for token in logprobs[-1].argsort()[:: len(logprobs[-1]) // 12].tolist():
        (score,) = await engine.client.score("base", [*PROMPT, token], len(PROMPT))
        assert score == pytest.approx(float(logprobs[-1, token]), abs=1e-3)


async def test_pure_sampling_cuts_nothing_off(engine: Running, tiny_base: Path) -> None:
    sampling = Sampling(temperature=2.0, top_p=0.1, max_tokens=24, seed=1, pure=True)
    ids = (await engine.client.complete("base", PROMPT, sampling)).ids
    logprobs = logprobs_of(tiny_base, [*PROMPT, *ids])[len(PROMPT) - 1 : -1]
    own = logprobs.gather(-1, torch.tensor(ids)[:, None])
    assert int((logprobs > own).sum(-1).max()) >= TOP_K


async def test_prompt_logprobs_name_every_token(engine: Running) -> None:
    body = {"model": "base", "prompt": PROMPT, "max_tokens": 1, "prompt_logprobs": 2}
    scores = (await engine.post("/v1/completions", body))[1]["choices"][0]["prompt_logprobs"]
    assert scores[0] is None
    for token, entries in zip(PROMPT[1:], scores[1:], strict=True):
        assert set(entries[str(token)]) == {"logprob", "rank", "decoded_token"}
        assert 2 <= len(entries) <= 3
        best = min(entries.values(), key=lambda entry: entry["rank"])
        assert best["rank"] == 1
        assert best["logprob"] == max(entry["logprob"] for entry in entries.values())


async def test_adapter_changes_the_output_and_can_go(engine: Running) -> None:
    before = await engine.client.complete("base", PROMPT, GREEDY)
    await engine.client.load_adapter("swap@v1.0", engine.adapters[0])
    await engine.client.load_adapter("swap@v2", engine.adapters[1])
    assert await engine.client.models() == ["base", "swap@v1.0", "swap@v2"]
    names = ["base", "swap@v1.0", "swap@v2"]
    together = await asyncio.gather(*(engine.client.complete(name, PROMPT, GREEDY) for name in names))
    assert together[0] == before
    assert len({reply.ids for reply in together}) == len(names)
    ids = [*PROMPT, *before.ids]
    scores = [sum(await engine.client.score(name, ids, len(PROMPT))) for name in names]
    assert scores[0] > scores[1] + 1
    for name in names[1:]:
        await engine.client.unload_adapter(name)
    assert await engine.client.models() == ["base"]
    with pytest.raises(EngineError) as caught:
        await engine.client.complete("swap@v2", PROMPT, GREEDY)
    assert caught.value.status == 404


async def test_adapter_name_is_used_once(engine: Running) -> None:
    await engine.client.load_adapter("once@v1", engine.adapters[0])
    for name in ("once@v1", "base"):
        with pytest.raises(EngineError) as caught:
            await engine.client.load_adapter(name, engine.adapters[1])
        assert caught.value.status == 400
    await engine.client.unload_adapter("once@v1")


async def test_missing_adapters_are_not_found(engine: Running, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(EngineError) as caught:
            await engine.client.load_adapter("lost@v1", path)
        assert caught.value.status == 404
    with pytest.raises(EngineError) as caught:
        await engine.client.unload_adapter("lost@v1")
    assert caught.value.status == 404


@pytest.mark.parametrize(
    "change",
    [{"use_dora": True}, {"r": 128}, {"bias": "all"}, {"modules_to_save": ["lm_head"]}],
    ids=["dora", "rank", "bias", "modules_to_save"],
)
async def test_adapter_that_does_not_fit_is_refused(engine: Running, tmp_path: Path, change: dict[str, Any]) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    for file in engine.adapters[0].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = folder / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(EngineError) as caught:
        await engine.client.load_adapter("odd@v1", folder)
    assert caught.value.status in {400, 500}
    assert await engine.client.models() == ["base"]
    assert (await engine.client.complete("base", PROMPT, GREEDY)).ids


async def test_errors_have_the_shape_of_openai(engine: Running) -> None:
    completion = {"model": "base", "prompt": PROMPT, "max_tokens": 2}
    cases: list[tuple[int, str, object]] = [
        (404, "/v1/chat/completions", {**CHAT, "model": "nobody"}),
        (404, "/v1/completions", {**completion, "model": "nobody"}),
        (404, "/tokenize", {"model": "nobody", "prompt": "a"}),
        (400, "/v1/chat/completions", b'{"model": "base", '),
        (400, "/v1/chat/completions", {**CHAT, "messages": []}),
        (400, "/v1/chat/completions", {"model": "base"}),
        (400, "/v1/completions", {**completion, "prompt": []}),
        (400, "/v1/completions", {**completion, "prompt": [7] * 3000}),
        (400, "/v1/completions", {**completion, "prompt": [10**6]}),
        (400, "/v1/completions", {**completion, "max_tokens": 5000}),
        (400, "/v1/completions", {**completion, "max_tokens": 0}),
        (400, "/v1/completions", {**completion, "temperature": -1}),
        (400, "/v1/completions", {**completion, "stream_options": {"include_usage": True}}),
        (400, "/v1/completions", {**completion, "temperature": 2.1}),
        (400, "/v1/load_lora_adapter", {}),
    ]
    for expected, route, body in cases:
        status, answer = await engine.post(route, body)
        assert status == expected, (route, body, answer)
        assert answer["error"]["code"] == expected
        assert answer["error"]["message"]
        assert answer["error"]["type"]
        assert "param" in answer["error"]


async def test_engine_that_is_away_is_named(engine: Running) -> None:
    away = EngineClient("http://127.0.0.1:9", engine.session)
    assert not await away.health()
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:9") as caught:
        await away.models()
    assert caught.value.status is None


async def test_wrong_base_name_says_how_to_start(engine: Running) -> None:
    with pytest.raises(EngineError, match="--served-model-name other --enable-lora"):
        await EngineClient(engine.url, engine.session, model="other").check_contract()
