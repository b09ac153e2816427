"""Operands of an attention: how queries, keys and values are made, normalised, and turned by their places."""
