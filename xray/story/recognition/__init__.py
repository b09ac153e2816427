"""Recognition: what steps are, by the data flow between them: norms, projections, attentions, values that follow."""
