"""The embedded engine as a process: batching, leaving clients, what it refuses, and how it ends."""

import asyncio
import io
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import openai
import psutil
import pytest
import pytest_asyncio
from tiny_model import make_tiny_adapter

from daemon.config import load
from daemon.embedded_process import EmbeddedEngine
from daemon.engine import EngineClient
from daemon.engine_source import EngineSource
from daemon.health import EngineWatch
from daemon.metrics import Metrics
from harness_adapters.errors import ConfigError, EngineError
from hinting.model import Sampling

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEADLINE_S = 60.0
PROMPTS = [[1, 385, 201, *range(70, 70 + n), 2, 201, 1, 277, 459, 201] for n in (1, 5, 9, 30, 2, 17)]
ASK: dict[str, Any] = {"role": "user", "content": "Where is my parcel?"}
CHAT, COMPLETION, TOKENIZE = "/v1/chat/completions", "/v1/completions", "/tokenize"
ENDLESS: dict[str, Any] = {"model": "base", "prompt": PROMPTS[0], "max_tokens": 1900, "ignore_eos": True}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[EmbeddedEngine]:
    """A running engine whose batch holds four rows, so that requests have to wait for each other."""
    log = tmp_path_factory.mktemp("embedded") / "engine.log"
    running = await EmbeddedEngine.start(tiny_base, log=log, threads=1, max_batch=4, max_loras=2)
    yield running
    await running.stop()
    assert not running.alive


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncGenerator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture(scope="module")
def client(engine: EmbeddedEngine, session: aiohttp.ClientSession) -> EngineClient:
    return EngineClient(engine.base_url, session)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory, tiny_base: Path) -> Path:
    return make_tiny_adapter(tmp_path_factory.mktemp("adapter") / "one", tiny_base, seed=1)


async def figure(session: aiohttp.ClientSession, engine: EmbeddedEngine, name: str) -> int:
    """Return one of the engine's metrics."""
    async with session.get(f"{engine.base_url}/metrics") as response:
        lines = (await response.text()).splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"secondnature_engine_{name} "))


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not await holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_replies_do_not_depend_on_who_shares_the_batch(client: EngineClient, adapter: Path) -> None:
    await client.load_adapter("mixed@v1", adapter)
    jobs = [
        (name, prompt, Sampling(temperature=0.9, top_p=0.9, max_tokens=4 + 3 * i, seed=i))
        for i, prompt in enumerate(PROMPTS)
        for name in ("base", "mixed@v1")
    ]
    alone = [await client.complete(*job) for job in jobs]
    assert await asyncio.gather(*(client.complete(*job) for job in jobs)) == alone
    await client.unload_adapter("mixed@v1")


async def test_loading_and_unloading_leave_running_rows_alone(
    client: EngineClient, adapter: Path, session: aiohttp.ClientSession, engine: EmbeddedEngine
) -> None:
    async def reply(model: str) -> Any:
        body = {**ENDLESS, "model": model, "max_tokens": 500, "temperature": 0.9, "seed": 4}
        async with session.post(f"{engine.base_url}{COMPLETION}", json=body) as response:
            return (await response.json())["choices"]

    quiet = await reply("base")
    await client.load_adapter("busy@v1", adapter)
    quiet_adapted = await reply("busy@v1")
    running = [asyncio.create_task(reply(name)) for name in ("base", "busy@v1")]

    async def both_run() -> bool:
        return await figure(session, engine, "running_requests") == 2

    await until(both_run)
    await client.unload_adapter("busy@v1")
    await client.load_adapter("busy@v2", adapter)
    assert not any(task.done() for task in running), "the reply must be long enough to be disturbed"
    assert await asyncio.gather(*running) == [quiet, quiet_adapted]
    await client.unload_adapter("busy@v2")


@pytest.mark.parametrize("stream", [False, True])
async def test_client_that_leaves_frees_its_row(
    session: aiohttp.ClientSession, engine: EmbeddedEngine, client: EngineClient, stream: bool
) -> None:
    async def ask() -> None:
        body = {**ENDLESS, "stream": stream}
        async with session.post(f"{engine.base_url}/v1/completions", json=body) as response:
            await response.read()

    # More than the batch holds: one leaves from the queue.
    asking = [asyncio.create_task(ask()) for _ in range(5)]

    async def full() -> bool:
        return await figure(session, engine, "running_requests") == 4

    await until(full)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)

    async def empty() -> bool:
        names = ("running_requests", "waiting_requests")
        return [await figure(session, engine, name) for name in names] == [0, 0]

    await until(empty)
    assert (await client.complete("base", PROMPTS[0], Sampling(max_tokens=2))).ids


async def test_more_adapters_than_room_are_refused(client: EngineClient, adapter: Path) -> None:
    for name in ("room@v1", "room@v2"):
        await client.load_adapter(name, adapter)
    with pytest.raises(EngineError, match="--max-loras") as caught:
        await client.load_adapter("room@v3", adapter)
    assert caught.value.status == 500
    await client.unload_adapter("room@v1")
    await client.load_adapter("room@v3", adapter)
    for name in ("room@v2", "room@v3"):
        await client.unload_adapter(name)


@pytest.mark.parametrize("broken", ["other_shape", "missing_weights", "not_safetensors", "unknown_modules"])
async def test_broken_adapter_is_refused_and_forgotten(
    client: EngineClient, adapter: Path, tmp_path: Path, broken: str
) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "broken"
    shutil.copytree(adapter, folder)
    weights = folder / "adapter_model.safetensors"
    tensors = load_file(weights)
    first = next(iter(tensors))
    if broken == "other_shape":
        save_file({**tensors, first: tensors[first][:, :-1].contiguous()}, weights)
    elif broken == "missing_weights":
        save_file({key: value for key, value in tensors.items() if key != first}, weights)
    elif broken == "not_safetensors":
        weights.write_bytes(b"not safetensors")
    else:
        # vLLM loads such an adapter and serves base output (vllm #34186).
        config = folder / "adapter_config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"target_modules": ["w_qkv"]}))
    before = await client.complete("base", PROMPTS[1], Sampling(temperature=0, max_tokens=6))
    with pytest.raises(EngineError, match=r"broken@v1 failed") as caught:
        await client.load_adapter("broken@v1", folder)
    assert caught.value.status == 500
    assert await client.models() == ["base"]
    assert await client.complete("base", PROMPTS[1], Sampling(temperature=0, max_tokens=6)) == before
    await client.load_adapter("broken@v1", adapter)
    await client.unload_adapter("broken@v1")


@pytest.mark.parametrize(
    "extra",
    [
        {"n": 2},
        {"frequency_penalty": 0.5},
        {"response_format": {"type": "json_object"}},
        {"logit_bias": {"5": 10}},
        {"echo": True},
        {"min_tokens": 3},
        {"prompt_logprobs": 0, "stream": True},
    ],
)
async def test_unsupported_parameter_is_named_not_ignored(
    session: aiohttp.ClientSession, engine: EmbeddedEngine, extra: dict[str, Any]
) -> None:
    body = {"model": "base", "prompt": PROMPTS[0], **extra}
    async with session.post(f"{engine.base_url}/v1/completions", json=body) as response:
        assert response.status == 400
        message = (await response.json())["error"]["message"]
    assert next(iter(extra)) in message


async def post(
    session: aiohttp.ClientSession, engine: EmbeddedEngine, path: str, body: dict[str, Any]
) -> tuple[int, Any]:
    """Return status and body of the engine's answer."""
    data, headers = io.BytesIO(json.dumps(body).encode()), {"content-type": "application/json"}
    async with session.post(engine.base_url + path, data=data, headers=headers) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("path", [CHAT, TOKENIZE])
@pytest.mark.parametrize(
    ("other", "neutral"),
    [
        ({"continue_final_message": True}, {"continue_final_message": False}),
        ({"documents": [{"title": "a", "text": "b"}]}, {"documents": []}),
        ({"chat_template": "mine"}, {"chat_template": None}),
    ],
)
async def test_a_member_that_would_change_the_prompt_is_refused(
    session: aiohttp.ClientSession, engine: EmbeddedEngine, path: str, other: dict[str, Any], neutral: dict[str, Any]
) -> None:
    body = {"model": "base", "messages": [ASK], "add_generation_prompt": False, "max_tokens": 1}
    status, answer = await post(session, engine, path, {**body, **other})
    assert status == 400
    assert next(iter(other)) in answer["error"]["message"]
    assert (await post(session, engine, path, {**body, **neutral}))[0] == 200


@pytest.mark.parametrize("path", [CHAT, TOKENIZE])
@pytest.mark.parametrize(
    "options",
    [
        {"chat_template": "mine"},
        {"tokenize": True},
        {"add_generation_prompt": True},
        {"documents": []},
        {"messages": []},
        {"enable_thinking": False, "return_tensors": "pt"},
    ],
)
async def test_only_variables_reach_the_chat_template(
    session: aiohttp.ClientSession, engine: EmbeddedEngine, path: str, options: dict[str, Any]
) -> None:
    body = {"model": "base", "messages": [ASK], "max_tokens": 1}
    status, answer = await post(session, engine, path, {**body, "chat_template_kwargs": options})
    assert status == 400
    assert answer["error"]["param"] == "chat_template_kwargs"
    assert f"sets {list(options)[-1]}, which" in answer["error"]["message"]
    thinking = {**body, "chat_template_kwargs": {"enable_thinking": False}}
    assert (await post(session, engine, path, thinking))[0] == 200


@pytest.mark.parametrize("path", [CHAT, COMPLETION, TOKENIZE])
async def test_text_that_cannot_fit_is_refused_unread(
    session: aiohttp.ClientSession, engine: EmbeddedEngine, client: EngineClient, path: str
) -> None:
    text = "hello " * 1_700_000
    field = {"prompt": text} if path == COMPLETION else {"messages": [{**ASK, "content": text}]}
    async with asyncio.timeout(DEADLINE_S):
        asking = asyncio.create_task(post(session, engine, path, {"model": "base", **field}))
        while not asking.done():
            assert await client.health()
        status, answer = await asking
    assert status == 400
    assert "context length is 2048 tokens, and a prompt of 102000" in answer["error"]["message"]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "a\ud83d b"},
        {"role": "user\ud83d", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "a\ud83d"}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f\ud83d", "arguments": '{"a": "\ud83d"}'}}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"\\ud83d": 1}'}}]},
    ],
)
async def test_half_a_surrogate_pair_is_read_as_a_question_mark(
    session: aiohttp.ClientSession, engine: EmbeddedEngine, message: dict[str, Any]
) -> None:
    tools = [{"type": "function", "function": {"name": "f\ud83d", "parameters": {}}}]
    body = {"model": "base", "messages": [ASK, message], "tools": tools}
    mended = json.loads(json.dumps(body).replace("\\\\ud83d", "?").replace("\\ud83d", "?"))
    status, answer = await post(session, engine, TOKENIZE, body)
    assert status == 200
    assert answer == (await post(session, engine, TOKENIZE, mended))[1]
    assert (await post(session, engine, CHAT, {**body, "max_tokens": 1}))[0] == 200


async def test_half_a_surrogate_pair_in_a_plain_prompt_or_a_name_is_no_fault_of_the_engine(
    session: aiohttp.ClientSession, engine: EmbeddedEngine
) -> None:
    body = {"model": "base", "prompt": "a\ud83d b", "stop": ["\ud83d"], "max_tokens": 1, "return_token_ids": True}
    status, answer = await post(session, engine, COMPLETION, body)
    assert status == 200
    tokens = answer["choices"][0]["prompt_token_ids"]
    assert (await post(session, engine, "/detokenize", {"tokens": tokens}))[1] == {"prompt": "a? b"}
    status, answer = await post(session, engine, COMPLETION, {**body, "model": "nobody\ud83d"})
    assert status == 404
    assert "nobody?" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (COMPLETION, {"prompt": [-1] * 9}),
        (COMPLETION, {"prompt": "a", "stop_token_ids": ["a"] * 9}),
        (COMPLETION, {"prompt": "a", "stop": [1] * 9}),
        (CHAT, {"messages": [1] * 9}),
        (TOKENIZE, {"messages": [ASK], "tools": [1] * 9}),
        ("/detokenize", {"tokens": [-1] * 9}),
    ],
)
async def test_only_the_first_fault_of_a_list_is_reported(
    session: aiohttp.ClientSession, engine: EmbeddedEngine, path: str, field: dict[str, Any]
) -> None:
    status, answer = await post(session, engine, path, {"model": "base", **field})
    assert status == 400
    assert ".0: " in answer["error"]["message"]
    assert ".1: " not in answer["error"]["message"]


async def test_pictures_are_refused(session: aiohttp.ClientSession, engine: EmbeddedEngine) -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:,"}}]
    body = {"model": "base", "messages": [{"role": "user", "content": parts}]}
    async with session.post(f"{engine.base_url}/v1/chat/completions", json=body) as response:
        assert response.status == 400
        assert "text only" in (await response.json())["error"]["message"]


async def test_stock_client_is_served(engine: EmbeddedEngine) -> None:
    async with openai.AsyncOpenAI(base_url=f"{engine.base_url}/v1", api_key="unused") as stock:
        question: Any = [{"role": "user", "content": "Where is my parcel?"}]
        whole = await stock.chat.completions.create(model="base", messages=question, max_tokens=8, seed=1)
        parts: list[str] = []
        async for chunk in await stock.chat.completions.create(
            model="base", messages=question, max_tokens=8, seed=1, stream=True
        ):
            parts += [choice.delta.content or "" for choice in chunk.choices]
        assert "".join(parts) == whole.choices[0].message.content
        assert [model.id async for model in stock.models.list()] == ["base"]
        with pytest.raises(openai.NotFoundError, match="nobody"):
            await stock.chat.completions.create(model="nobody", messages=question)


async def test_folder_without_a_model_is_explained(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with pytest.raises(EngineError, match=r"(?s)ended with status 2.*has no config\.json") as caught:
        await EmbeddedEngine.start(tmp_path, log=log, threads=1)
    assert str(log) in str(caught.value)


@pytest.mark.parametrize("folder", ["empty", "missing"])
async def test_wrong_model_path_is_a_fault_of_the_configuration(
    session: aiohttp.ClientSession, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "empty").mkdir()
    metrics = Metrics()
    settings = load(None, {"data_dir": tmp_path, "model": {"path": tmp_path / folder}})
    source = EngineSource(settings, session, metrics, EngineWatch(metrics))
    with pytest.raises(ConfigError, match=r"no config\.json: give the folder") as caught:
        await source.start()
    assert f"model.path is {tmp_path / folder}," in str(caught.value)


async def test_engine_ends_when_its_parent_is_killed(tiny_base: Path, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    program = (
        "import asyncio, json, sys\n"
        "from pathlib import Path\n"
        "import aiohttp\n"
        "from daemon.embedded_process import EmbeddedEngine\n"
        "async def main():\n"
        "    engine = await EmbeddedEngine.start(Path(sys.argv[1]), log=Path(sys.argv[2]), threads=1)\n"
        "    async with aiohttp.ClientSession() as session:\n"
        "        body = json.loads(sys.argv[3])\n"
        "        asked = [await session.post(engine.base_url + '/v1/completions', json=body) for _ in range(4)]\n"
        "        for stream in asked:\n"
        "            await stream.content.readline()\n"
        "        print(json.dumps([engine.process.pid, engine.base_url]), flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, str(tiny_base), str(log), json.dumps({**ENDLESS, "stream": True})),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)},
    )
    assert parent.stdout
    pid, url = json.loads(await asyncio.wait_for(parent.stdout.readline(), DEADLINE_S))
    async with aiohttp.ClientSession() as session:
        assert await EngineClient(url, session).health()
        parent.send_signal(signal.SIGKILL)
        await parent.wait()

        async def gone() -> bool:
            return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE

        await until(gone)
        assert not await EngineClient(url, session).health()
    assert "Traceback" not in log.read_text()


async def test_daemon_side_never_loads_torch() -> None:
    program = "import sys, daemon.engine, daemon.embedded_process, ops.convert; sys.exit('torch' in sys.modules)"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=Path(__file__).parent.parent.parent)
    assert await child.wait() == 0
