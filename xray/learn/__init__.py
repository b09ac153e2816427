"""Learning and what is learnt: training, answering, and the run folders in which both are kept."""
