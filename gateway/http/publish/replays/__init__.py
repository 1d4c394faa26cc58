"""Messages of an archive are published once, however often they are sent."""
