"""How a transformer is recognised in any trace: data flow, attentions, sublayers, stacks, and the retelling of each."""
