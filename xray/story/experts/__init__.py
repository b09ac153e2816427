"""Experts: how many there are, which of them a router chooses, and how what they give is weighed."""
