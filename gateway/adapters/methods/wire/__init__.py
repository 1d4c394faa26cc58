"""Generated records, layouts and tables of the class-and-method family."""
