"""Odradek: an event-streaming system that a Python team installs with pip.

A broker that speaks the Kafka wire protocol, and data pipelines on Apache Spark. See `README.md`
for a first session and `ARCHITECTURE.md` for the map of this package.
"""

from odradek import leaves

__version__ = "0.1.0"

leaves.install()
