"""The rules by which the pipeline rejects flights, and the names of the reasons.

The rules follow from the data. They are tried in this order, and the first that applies is the
reason:

| reason | rule | flights of 2013 |
|---|---|---|
| `unreadable` | no JSON object with carrier, origin, scheduled times and `time_hour` | 0 |
| `calendar disagrees` | `time_hour` or `sched_dep_time` does not match the date and hour | 0 |
| `unknown airline` | the carrier is not in the list of airlines | 0 |
| `no departure time` | `dep_time` or `dep_delay` is missing: cancelled | 8,255 |
| `no arrival time` | `arr_time` is missing: departed, without a known arrival | 458 |
| `no arrival delay` | `arr_delay` or `air_time` is missing: diverted | 717 |
| `impossible clock time` | a time of day is not HHMM from 0001 to 2400 | 0 |
| `times disagree` | scheduled time plus delay is not the actual time of day | 0 |
| `impossible speed` | faster than 600 mph over ground, or no distance or air time at all | 4 |

Airliners of 2013 did not reach 600 mph: the next fastest of the 327,342 others stays below 592 mph,
while the four are at 641 to 703 mph (one of them, Atlanta in 65 minutes, is a well-known error of
this data set).

Rules that no flight breaks are kept, because the pipeline guards against future data. This module
is apart because the two implementations share it: `odradek.demo.pipeline` applies the rules in
Spark, `odradek.demo.reference` in plain pandas, independently, so that their agreement means
something.
"""

from __future__ import annotations

UNREADABLE = "unreadable"
CALENDAR = "calendar disagrees"
UNKNOWN_AIRLINE = "unknown airline"
NO_DEPARTURE = "no departure time"
NO_ARRIVAL = "no arrival time"
NO_ARRIVAL_DELAY = "no arrival delay"
CLOCK = "impossible clock time"
TIMES = "times disagree"
SPEED = "impossible speed"

TIME_ZONE = "America/New_York"
FASTEST_MPH = 600
# The U.S. Department of Transportation counts an arrival as late from 15 minutes on.
LATE_MINUTES = 15
