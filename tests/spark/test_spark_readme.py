"""Runs the Spark example of the README unchanged, with a broker on another port."""

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_example_for_spark(spark, topics, bootstrap, capsys):
    [block] = [b for b in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "spark" in b]
    topics.create(name="greetings").produce("hello from a topic")
    exec(compile(block.replace("127.0.0.1:9092", bootstrap), "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "|hello from a topic|     0|" in shown
