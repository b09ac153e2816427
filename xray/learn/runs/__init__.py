"""Runs on disk: begun, taken up again, saved and loaded, each in a folder of its own."""
