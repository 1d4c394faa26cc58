"""What the examples and the README show is run as it stands there."""
