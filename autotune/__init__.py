"""Measure which MoE backend is right and fast on this GPU, and start servers from the answer."""

__version__ = "0.1.0"
