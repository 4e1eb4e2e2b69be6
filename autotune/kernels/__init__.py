"""The layer alone: one MoE layer, computed by many backends, without a server.

It shows which backends are right and how they rank by batch size. It never decides: what a server
makes of a layer (its routing, graphs, communication) is measured by `autotune.sweep`.
"""
