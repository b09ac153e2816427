"""Axis words: which axis of a tensor is which, known by where it came from and by what moves at other sizes."""
