"""What quantization schemes are called, and what engines and checkpoints call them. No torch."""

from autotune.errors import UsageError

# How many neighbours share a scale: hidden size and width must be multiples of it.
SCALE_BLOCKS = {"bf16": 1, "fp8": 1, "fp8_block": 128, "nvfp4": 16, "mxfp4": 32, "mxfp8": 32}
SCHEME_NAMES = tuple(SCALE_BLOCKS)
# Engines' and checkpoints' words for what one of the schemes is.
_OTHER_NAMES = {
    "none": "bf16",
    "bfloat16": "bf16",
    "modelopt_fp4": "nvfp4",
    "nvfp4_online": "nvfp4",
    "modelopt_fp8": "fp8",
}


def scheme_name(text: str) -> str:
    """Return the scheme that a quantization's name stands for.

    Raises:
        UsageError: it stands for none.
    """
    name = _OTHER_NAMES.get(text, text)
    if name not in SCHEME_NAMES:
        known = ", ".join((*SCHEME_NAMES, *_OTHER_NAMES))
        raise UsageError(f"--quantization {text[:80]!r}: not one of {known}")
    return name
