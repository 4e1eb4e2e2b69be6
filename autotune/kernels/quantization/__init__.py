"""Number formats of MoE kernels in plain torch: references to check kernels against, not to run."""
