"""The jobs of the pipeline: each a function from frames to a frame, and a command that runs it."""
