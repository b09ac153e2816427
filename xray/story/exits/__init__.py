"""Exits: what stands above the last layer: a last norm, a head, a loss or the next word, and a comparison."""
