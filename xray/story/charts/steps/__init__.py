"""The chart of any steps: which of them are drawn, in what boxes, and what these are called."""
