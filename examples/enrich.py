"""Orders are enriched exactly once, though the processing is broken off in the middle:
`python examples/enrich.py` (a broker in this process; give an address to use another one).
"""

import sys
import threading
from typing import Any

import odradek
from odradek.testing import Broker

COUNT = 1_000
ORDERS, ENRICHED = "example-orders", "example-enriched"


class PowerFailure(Exception):
    """What breaks the first attempt off."""


def enrich_all(brokers: str) -> None:
    with odradek.Producer(brokers=brokers, value="json") as producer:
        producer.send_many(ORDERS, [{"id": number} for number in range(COUNT)])

    calls = 0

    def enrich(order: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == COUNT // 2:
            raise PowerFailure
        return {**order.value, "price": order.value["id"] * 3}

    def run(stop: threading.Event) -> None:
        odradek.process(
            ORDERS,
            enrich,
            to=ENRICHED,
            group="enricher",
            brokers=brokers,
            value="json",
            transactional_id="enricher-1",
            max_records=100,
            stop=stop,
        )

    stop = threading.Event()
    try:
        run(stop)
    except PowerFailure:
        print(f"broken off at call {calls}; begun again")
    again = threading.Thread(target=run, args=(stop,))
    again.start()
    # A reader of committed records, that stops when it has as many as there are orders.
    seen = []
    with odradek.Consumer(
        ENRICHED, brokers=brokers, value="json", auto_offset_reset="earliest"
    ) as reader:
        for record in reader:
            order: Any = record.value
            seen.append(order["id"])
            if len(seen) == COUNT:
                break
    stop.set()
    again.join()
    print(f"{calls} calls, {len(seen)} outputs, {len(set(seen))} of them distinct")


if __name__ == "__main__":
    if sys.argv[1:]:
        enrich_all(sys.argv[1])
    else:
        with Broker() as broker:
            enrich_all(broker.bootstrap)
