"""Passages: what a stream goes through between its layers, and what scales, shifts and gates it from beside."""
