"""How the sums of a stream are cut into layers."""
