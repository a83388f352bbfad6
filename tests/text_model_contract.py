"""What every TextModel must keep, whatever stands behind it: run `hold` on each implementation."""

import pytest

from harness_adapters.errors import EngineError
from harness_adapters.trace import Message
from hinting.model import TextModel
from hinting.together import together

_CONVERSATION: tuple[Message, ...] = (
    {"role": "system", "content": "You help people."},
    {"role": "user", "content": "What is a ferry?"},
)


async def hold(model: TextModel) -> None:
    """Check the whole contract."""
    first, again = [await model.answer(_CONVERSATION, temperature=0.8, max_tokens=8, seed=7) for _ in range(2)]
    assert first
    assert first == again, "a seed makes an answer repeatable"
    short = await model.answer(_CONVERSATION, temperature=0.8, max_tokens=1, seed=7)
    assert len(short) < len(first), "max_tokens cuts an answer"
    at_once = await together(model.answer(_CONVERSATION, temperature=0.8, max_tokens=8, seed=7) for _ in range(3))
    assert at_once == [first] * 3, "several may be asked for at once"
    assert isinstance(await model.answer(_CONVERSATION, temperature=0.0, max_tokens=4), str), "a seed may be left out"
    odd: Message = {"role": "user", "content": "naïve \ud83d 北京 \x00\u2028"}
    assert isinstance(await model.answer([odd], temperature=0.0, max_tokens=4), str), "any text can be asked"
    for messages, temperature, max_tokens in (((), 0.0, 4), (_CONVERSATION, -1.0, 4), (_CONVERSATION, 0.0, 0)):
        with pytest.raises(EngineError) as caught:
            await model.answer(messages, temperature=temperature, max_tokens=max_tokens)
        assert caught.value.status == 400
        assert not caught.value.passing
