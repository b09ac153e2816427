"""The walk through a model, station by station, with its quiz and its worksheet; the prose stands in templates/walk."""
