"""Which adapters the embedded engine has loaded, and what it refuses, as vLLM would."""

import json
from pathlib import Path

from safetensors import SafetensorError

from daemon.embedded_api import ApiError, LoadAdapterRequest
from daemon.embedded_batch import BASE
from daemon.embedded_worker import Adapter, Worker

FILES = ("adapter_config.json", "adapter_model.safetensors")


class Adapters:
    """The registry of loaded adapters by public name."""

    def __init__(self, worker: Worker, *, base_name: str, max_loras: int, max_rank: int) -> None:
        self._worker = worker
        self._base_name, self._max_loras, self._max_rank = base_name, max_loras, max_rank
        self._loaded: dict[str, Adapter] = {}
        self._loading: set[str] = set()

    def slot(self, model: str | None) -> str:
        """Return the name inside the batch of a public model name. Raises ApiError (404) for an unknown one."""
        if model is None or model == self._base_name:
            return BASE
        adapter = self._loaded.get(model)
        if adapter is None:
            raise ApiError(404, f"The model `{model}` does not exist.", kind="NotFoundError", param="model")
        return adapter.slot

    def listed(self) -> list[tuple[str, Path]]:
        """Return the loaded adapters and their folders, oldest first."""
        return [(name, adapter.path) for name, adapter in self._loaded.items()]

    async def load(self, request: LoadAdapterRequest) -> None:
        """Load an adapter. Raises ApiError: 404 without its files, 400 for a name that cannot be used, else 500."""
        name, path = request.lora_name, Path(request.lora_path)
        if not name or not request.lora_path:
            raise ApiError(400, "Both 'lora_name' and 'lora_path' must be provided.", kind="InvalidUserInput")
        if request.load_inplace:
            raise ApiError(
                400,
                "load_inplace would change weights under running requests: load the adapter under a new name and path",
                kind="InvalidUserInput",
            )
        if name == self._base_name:
            raise ApiError(
                400, f"The lora adapter '{name}' conflicts with a served base model.", kind="InvalidUserInput"
            )
        if name in self._loaded or name in self._loading:
            raise ApiError(400, f"The lora adapter '{name}' has already been loaded.", kind="InvalidUserInput")
        if not all((path / file).is_file() for file in FILES):
            raise ApiError(404, f"Loading lora {name} failed: No adapter found for {path}", kind="NotFoundError")
        if len(self._loaded) + len(self._loading) >= self._max_loras:
            raise _refused(name, f"{self._max_loras} adapters are loaded already; unload one, or raise --max-loras")
        self._check(name, path)
        self._loading.add(name)
        try:
            self._loaded[name] = await self._worker.load(path)
        except (ValueError, KeyError, TypeError, RuntimeError, OSError, SafetensorError) as error:
            raise _refused(name, str(error)) from error
        finally:
            self._loading.discard(name)

    def unload(self, name: str) -> None:
        """Forget an adapter; requests already running on it go on. Raises ApiError (404) for an unknown name."""
        adapter = self._loaded.pop(name, None)
        if adapter is None:
            raise ApiError(404, f"The lora adapter '{name}' cannot be found.", kind="NotFoundError")
        self._worker.retire(adapter)

    def _check(self, name: str, path: Path) -> None:
        """Refuse what vLLM refuses, so that an adapter that loads here loads there."""
        try:
            config = json.loads((path / FILES[0]).read_bytes())
            rank, bias = config["r"], config.get("bias", "none")
        except (ValueError, KeyError, TypeError) as error:
            raise _refused(name, f"{path / FILES[0]} cannot be read: {error!r}") from error
        if config.get("peft_type") != "LORA":
            raise _refused(name, f"it is a {config.get('peft_type')} adapter; only LoRA can be loaded")
        if config.get("use_dora"):
            raise _refused(name, "it uses DoRA, which vLLM does not load")
        if config.get("modules_to_save"):
            raise _refused(name, "it has modules_to_save, which vLLM does not load")
        if bias != "none":
            raise _refused(name, f"it trains biases (bias={bias!r}), which vLLM does not load")
        if rank > self._max_rank:
            raise _refused(name, f"its rank {rank} is above --max-lora-rank {self._max_rank}")


def _refused(name: str, reason: str) -> ApiError:
    return ApiError(500, f"Loading lora {name} failed: {reason}", kind="InternalServerError")
