"""Adapters of SGLang's MoE kernels to one layer; written against SGLang 0.5.23."""
