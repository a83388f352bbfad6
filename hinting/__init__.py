"""Traces in, hints out. Talks to a model only through the small protocols of `hinting.model`."""
