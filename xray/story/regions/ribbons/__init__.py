"""Ribbons between columns: where they begin, which way they take, and what is written at them."""
