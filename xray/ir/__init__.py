"""The facts of a recording: frozen, without torch, JSON in and out."""
