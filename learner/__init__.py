"""Hints in, checkpoints and verdicts out. Runs as a program over a round directory."""
