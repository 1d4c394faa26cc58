"""Messages between 0-8/0-9/0-9-1 and 1.0: natural for who reads them, and back without loss."""
