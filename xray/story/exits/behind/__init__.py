"""Behind the last layer: what goes on there, and with which step it ends."""
