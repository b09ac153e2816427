"""The page of a trace: one HTML file, its maps, its data, its colours and its scripts."""
