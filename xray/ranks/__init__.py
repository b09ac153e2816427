"""One rank of many, on one machine: a model divided as a mesh says, and recorded where no other rank is there."""
