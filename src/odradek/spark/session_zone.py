"""The time zone of the Spark session, as a Python worker can know it.

Spark sends the settings of a session along with every task; the zone is among them if anybody set
it (`local_session` does). Else it is the JVM's default, which on one machine is that of the system.
"""

from __future__ import annotations

import os
from datetime import tzinfo
from pathlib import Path

from pyspark import TaskContext

from odradek.spark.json.times import NoTime, zone_of

SETTING = "spark.sql.session.timeZone"
SYSTEM_ZONE = Path("/etc/localtime")
ZONE_TABLE = "/zoneinfo/"


def session_zone() -> tzinfo:
    """The zone of timestamps that have none. Raises `ValueError` if it is not known."""
    context = TaskContext.get()
    name = context.getLocalProperty(SETTING) if context is not None else None
    if name is None:
        name = system_zone_name()
    try:
        return zone_of(name)
    except NoTime as error:
        raise ValueError(
            f"a timestamp has no time zone, and that of the session is not known ({error}): "
            f"set {SETTING}"
        ) from None


def system_zone_name() -> str:
    """The zone of this machine, as Java finds it."""
    given = os.environ.get("TZ", "").lstrip(":")
    if given:
        return given
    _, _, name = str(SYSTEM_ZONE.resolve()).rpartition(ZONE_TABLE)
    return name if SYSTEM_ZONE.exists() else "UTC"
