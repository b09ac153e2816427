"""The data flow of a pass: who made what and who reads it; and every attention in it, wherever it stands."""
