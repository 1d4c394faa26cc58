"""The journal: recording, reading, sealing."""
