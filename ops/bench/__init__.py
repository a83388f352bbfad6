"""Benchmarks: programs that measure, each run as `python -m ops.bench.NAME`."""
