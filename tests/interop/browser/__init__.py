"""A headless Chromium, a page with a native EventSource, and a wire between them that breaks."""
