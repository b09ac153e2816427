"""Training steps: the loop, what it needs, and the processes that share it."""
