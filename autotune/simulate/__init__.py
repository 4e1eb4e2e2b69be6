"""Simulated sweeps: what the race costs and how often it is right, by trying it. Pure."""

from autotune.simulate.noise import Noise
from autotune.simulate.summary import Summary, simulate
from autotune.simulate.sweeps import Scenario, SimulatedSweep, simulate_sweep

__all__ = ["Noise", "Scenario", "SimulatedSweep", "Summary", "simulate", "simulate_sweep"]
