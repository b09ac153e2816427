"""What is said at stations: of stages, of their branches, and of memory that a tower looks at."""
