"""Streams: residual sums, the chains that they form, and which chains follow one another in one tower."""
