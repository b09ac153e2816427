"""Tables and other text for a terminal, for Markdown and for spreadsheets."""
