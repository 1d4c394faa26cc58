"""The transitional 0-10 of July 2007, in two revisions."""
