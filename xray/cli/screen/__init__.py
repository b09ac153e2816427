"""The terminal: how wide and how bright it is, its pager, progress, prompts, and a clean stop."""
