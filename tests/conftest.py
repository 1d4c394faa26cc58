"""Property tests draw the same examples every time, so that a red run means a change, and take as
long as they take: a busy machine is no mistake. ``FUZZ=1`` draws others each time."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "same",
    derandomize="FUZZ" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same")
