"""Kernels that do in one step what a reader knows as several: seen from below, and opened."""
