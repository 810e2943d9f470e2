"""The lines that `odradek spark pack` prints, run as they stand: a job whose driver and executors
have no Python package but those of the archive."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from cluster.jobs import Records
from cluster.packed import Packed
from cluster.standalone import DISTRIBUTION, EXECUTORS, Cluster
from odradek.spark.java import java_home

JOB = """\
import sys
from pyspark.sql import SparkSession

bootstrap, topic = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
reader = spark.read.format("odradek").option("kafka.bootstrap.servers", bootstrap)
rows = reader.option("subscribe", topic).load().selectExpr("cast(value as string) value").collect()
print(sorted(row.value for row in rows), sys.executable)
"""


def test_a_submitted_job_runs_out_of_the_archive(
    cluster: Cluster, packed: Packed, bootstrap: str, tmp_path: Path
) -> None:
    records = Records(bootstrap)
    topic = records.topic("submitted")
    records.produce(topic, ["one", "two", "three"])
    (tmp_path / "environment.tar.gz").symlink_to(packed.archive)
    (tmp_path / "JOB.py").write_text(JOB)
    one_executor = EXECUTORS | {"spark.cores.max": "1"}
    settings = " ".join(f"--conf {name}={value}" for name, value in one_executor.items())
    printed = re.findall(r"^  (mkdir .*|PYSPARK_PYTHON=.*\\|  --archives .*)$", packed.said, re.M)
    assert len(printed) == 3
    shell = "\n".join(printed).replace("spark://HOST:7077", f"{cluster.url} {settings}")
    ran = subprocess.run(
        ["bash", "-ec", f"{shell} {bootstrap} {topic}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            "PATH": f"{DISTRIBUTION / 'bin'}:{os.environ['PATH']}",
            "JAVA_HOME": str(java_home()),
            "JDK_JAVA_OPTIONS": os.environ.get("JDK_JAVA_OPTIONS", ""),
            "SPARK_HOME": str(DISTRIBUTION),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    values, _, python = ran.stdout.strip().rpartition(" ")
    assert values == "['one', 'three', 'two']"
    assert Path(python).is_relative_to(tmp_path)
    assert python != sys.executable
