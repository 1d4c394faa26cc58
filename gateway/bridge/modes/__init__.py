"""Modes of the addresses of a facade that has two upstreams, and the change between them."""
