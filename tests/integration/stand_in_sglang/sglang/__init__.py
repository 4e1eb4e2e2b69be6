"""A stand-in for SGLang's server where SGLang can't serve: its flags, endpoints and last words."""
