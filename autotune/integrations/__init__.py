"""Thin plugins that start a server from a decision file; each engine's own file holds its own.

Like `autotune.decisions`, these import the standard library and msgspec alone, beside the engine
that loads them.
"""
