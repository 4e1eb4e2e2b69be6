"""FlashInfer's fused MoE kernels as backends; `registry` lists them. Nothing heavy is imported."""
