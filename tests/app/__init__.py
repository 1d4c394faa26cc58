"""The command line and the process as a whole."""
