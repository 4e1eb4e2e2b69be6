"""What a sweep is asked to do: the config's types, reading it and writing it back."""

from autotune.config.file import changed_keys, config_digest, dump_config, parse_config, read_config
from autotune.config.schema import SweepConfig

__all__ = [
    "SweepConfig",
    "changed_keys",
    "config_digest",
    "dump_config",
    "parse_config",
    "read_config",
]
