"""What goes wrong: the rule that a failed step breaks, and numbers and masks that a reader must be warned of."""
