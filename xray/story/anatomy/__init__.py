"""An anatomy: what a network is made of, as a tree of proven facts, and in words."""
