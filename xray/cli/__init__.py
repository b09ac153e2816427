"""The command line: one thin file a command; the only room that writes files or prints."""
