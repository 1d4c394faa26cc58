"""The inventory of an old broker: a transparent proxy in front of it, the features that its clients
use, and the needs of each feature on 1.0."""
