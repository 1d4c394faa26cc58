"""Authentication, authorization and quotas of HTTP."""
