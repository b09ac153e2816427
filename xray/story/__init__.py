"""What a trace is of, what is told of it, and where that stands on a sheet; no colour, and never torch."""
