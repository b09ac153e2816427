"""What each step of a recording is for, in a few words: the column "role" of tables and pages."""
