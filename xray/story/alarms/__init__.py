"""Masks followed from the argument to the kernel, and the alarms that recorded steps and values prove."""
