"""Numbers that follow from the steps alone, worked out again without a model."""
