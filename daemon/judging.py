"""The judge as configured: the model behind it, its budget and its connections."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp

from daemon.config_sections import JudgeSettings
from daemon.endpoint import Endpoint
from hinting.judge import Budget, Judge


@asynccontextmanager
async def open_judge(settings: JudgeSettings) -> AsyncGenerator[Judge | None]:
    """Open the configured judge, and close its connections at the end; None where there is to be none."""
    if settings.url is None:
        yield None
        return
    async with open_endpoint(settings) as endpoint:
        yield Judge(
            endpoint,
            Budget(settings.max_calls_per_day),
            votes=settings.votes,
            temperature=settings.temperature,
            timeout_s=settings.timeout_s,
            max_concurrency=settings.max_concurrency,
        )


@asynccontextmanager
async def open_endpoint(settings: JudgeSettings) -> AsyncGenerator[Endpoint]:
    """Open the model behind a judge that is configured, and close its connections at the end."""
    assert settings.url is not None, "a judge is configured"
    assert settings.model is not None, "the settings say so"
    key = settings.api_key
    async with aiohttp.ClientSession() as session:
        yield Endpoint(
            settings.url,
            settings.model,
            session,
            api_key=key.get_secret_value() if key else None,
            timeout_s=settings.timeout_s,
        )
