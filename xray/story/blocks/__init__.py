"""How any model is told by blocks: which are opened, which fold into one, and what stands in for long runs."""
