"""Recording: hooks on any nn.Module turn a run into a Trace, and leave no mark on the model."""
