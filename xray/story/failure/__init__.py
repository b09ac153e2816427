"""What goes wrong: the rule that a failed step breaks, and the operands that do not fit."""
