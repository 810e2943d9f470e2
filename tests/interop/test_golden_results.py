"""The golden results of the assignors are those of Kafka's own classes."""

from __future__ import annotations

import gzip
import json

import pytest

from golden.regenerate_assignors import RESULTS, answers

pytestmark = pytest.mark.interop


def test_golden_assignor_results_are_those_of_kafka(jars: str) -> None:
    kept = [json.loads(line) for line in gzip.decompress(RESULTS.read_bytes()).splitlines()]
    asked = [{key: case[key] for key in "ats"} for case in kept]
    told = answers(asked, jars)
    assert told == [{key: case[key] for key in "wr"} for case in kept]
