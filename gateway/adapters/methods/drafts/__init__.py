"""The drafts of 2005, 0-9a0 and 0-9a6: frames, classes and methods that are all their own."""
