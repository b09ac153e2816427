"""Masks: read while the tensor is there, and what their cells mean settled once it is known how they were used."""
