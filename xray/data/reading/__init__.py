"""Where pairs come from: files, folders and data sets, read as rows."""
