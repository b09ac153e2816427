"""Sentences: all that a sheet says of a model, each with the fact that it needs; they stand nowhere else."""
