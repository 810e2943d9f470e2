"""The process from which Spark's Python processes are forked, and the program that asks for it."""

import importlib
import os
import signal
import subprocess
import sys

import pytest

from odradek.spark import fork_server
from odradek.spark.fork_server import SAME_PACKAGES, Job, refusal
from odradek.spark.launch import LENGTH_BYTES, message

LOOK = """
import gc, os, sys
from odradek.spark import fork_server
os.environ.update(fork_server.WITHOUT_THREADS)
fork_server.preload()
assert set(fork_server.PRELOADED) <= set(sys.modules)
print(len(os.listdir("/proc/self/task")), gc.get_freeze_count() > 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_preloaded_modules_start_no_thread_and_are_frozen():
    ran = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["1", "True"], ran.stderr


def job(*arguments, directory="/cwd", **environment):
    return Job(directory, list(arguments), environment)


def test_a_message_is_parsed_to_what_was_sent(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODD", "a=b\nc")
    monkeypatch.setitem(os.environb, b"RAW", b"\xff")
    sent = message(["-m", "some.module", ""])
    assert int.from_bytes(sent[:LENGTH_BYTES], "big") == len(sent) - LENGTH_BYTES
    found = Job.parse(sent[LENGTH_BYTES:])
    assert found.directory == str(tmp_path)
    assert found.arguments == ["-m", "some.module", ""]
    assert found.environment == dict(os.environ)


def test_the_module_path_begins_as_python_would_make_it():
    asked = job("-m", "x", PYTHONPATH="/zips:other")
    own = {"PYTHONPATH": "/mine"}
    assert asked.path(own, ["/here", "/mine", "/lib", "/site"]) == [
        "/cwd",
        "/zips",
        "/cwd/other",
        "/lib",
        "/site",
    ]


def test_the_module_path_is_without_the_jar_of_spark_in_which_there_is_no_python():
    jar = "/jars/spark-core_2.13-4.3.0.jar"
    asked = job("-m", "x", PYTHONPATH=f"/zips:{jar}:/graphframes.jar")
    assert asked.path({}, ["/here", "/lib"]) == ["/cwd", "/zips", "/graphframes.jar", "/lib"]


def test_no_empty_pythonpath_is_searched():
    assert job("-m", "x").path({}, ["/here", "/lib"]) == ["/cwd", "/lib"]


@pytest.fixture(scope="module")
def own():
    """The environment of a server with the packages of this process, and its module path."""
    for package in SAME_PACKAGES:
        importlib.import_module(package)
    return {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "YES"}, ["/", *sys.path[1:]]


def test_a_module_with_the_servers_environment_is_forked(own):
    environment, path = own
    asked = job("-m", "m", **environment, PYTHON_UNIX_DOMAIN_ENABLED="True", OTHER="1")
    assert refusal(asked, environment, path) is None


def test_a_process_without_a_hash_seed_may_have_the_servers(own):
    environment, path = own
    assert refusal(job("-m", "m", PYTHONUNBUFFERED="YES"), environment, path) is None


@pytest.mark.parametrize(
    ("arguments", "environment", "reason"),
    [
        (["-c", "pass"], {}, "only modules are run"),
        (["-m"], {}, "only modules are run"),
        (["-m", "m"], {"PYTHONHASHSEED": "7"}, "PYTHONHASHSEED is 7"),
        (["-m", "m"], {"PYTHONDONTWRITEBYTECODE": "1"}, "PYTHONDONTWRITEBYTECODE is 1"),
    ],
)
def test_a_process_that_would_start_differently_is_refused(own, arguments, environment, reason):
    server, path = own
    asked = job(*arguments, **{**server, **environment})
    assert refusal(asked, server, path) == reason


def test_a_process_with_another_package_first_on_its_path_is_refused(own, tmp_path):
    environment, path = own
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("")
    asked = job("-m", "m", **environment, PYTHONPATH=str(tmp_path))
    assert refusal(asked, environment, path) == "pyspark would be another"


MODULE = """
import os, signal, sys
print(__name__, *sys.argv[1:], os.environ["GREETING"], os.getcwd(), sys.stdin.read())
print("to stderr", file=sys.stderr)
if "stay" in sys.argv:
    print("staying", flush=True)
    signal.pause()
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def server():
    started = fork_server.start()
    yield started
    assert started.close() == 0
    assert not started.python.parent.exists()


@pytest.fixture
def launch(server, tmp_path):
    """Starts the module above as Spark would, in a directory where it lies."""
    (tmp_path / "greeting.py").write_text(MODULE)

    def start(*arguments, **environment):
        return subprocess.Popen(
            [str(server.python), "-m", "greeting", *arguments],
            cwd=tmp_path,
            env={**os.environ, **fork_server.UNBUFFERED, "GREETING": "hello", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.mark.parametrize("hash_seed", ["0", "99"], ids=["forked", "refused"])
def test_a_process_has_its_arguments_environment_directory_and_streams(launch, tmp_path, hash_seed):
    process = launch("3", "more", PYTHONHASHSEED=hash_seed)
    out, err = process.communicate("text", timeout=60)
    assert out.split() == ["__main__", "3", "more", "hello", str(tmp_path), "text"]
    assert "to stderr" in err
    assert ("-m greeting 3 more starts from nothing: PYTHONHASHSEED is 99" in err) == bool(
        int(hash_seed)
    )
    assert process.returncode == 3


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_forked_process_is_known_by_its_command_line_and_in_the_drivers_session(launch, tmp_path):
    program = "import os; print(open('/proc/self/cmdline').read().split(chr(0)), os.getsid(0))"
    (tmp_path / "greeting.py").write_text(program)
    output_of = launch("more", PYTHONHASHSEED="0").communicate("", timeout=60)[0]
    assert output_of.startswith("['python', '-m', 'greeting', 'more', ''")
    assert output_of.split()[-1] == str(os.getsid(0))


def test_each_process_has_other_random_numbers(launch, tmp_path):
    program = "import numpy, os; print(numpy.random.random(), os.getpid())"
    (tmp_path / "greeting.py").write_text(program)
    numbers = {launch().communicate("", timeout=60)[0].split()[0] for _ in range(2)}
    assert len(numbers) == 2


WITHOUT_PANDAS = """
import sys
import odradek.client.arrow.record_batches, odradek.spark.reader, odradek.spark.stream_reader
assert "pyarrow" in sys.modules
print("pandas" in sys.modules)
"""


def test_reading_imports_no_pandas():
    command = [sys.executable, "-c", WITHOUT_PANDAS]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout == "False\n", ran.stderr


def test_an_error_ends_a_process_with_a_traceback(launch):
    process = launch("no number")
    _, err = process.communicate("", timeout=60)
    assert "ValueError" in err
    assert process.returncode == 1


def test_processes_end_when_their_launcher_is_killed(launch):
    process = launch("0", "stay")
    process.stdin.close()
    assert process.stdout.readline()
    assert process.stdout.readline() == "staying\n"
    process.send_signal(signal.SIGKILL)
    assert process.stdout.read() == ""  # The stream is closed when the forked process ends.
    process.stdout.close()
    process.stderr.close()
    process.wait()


def test_without_its_server_a_process_is_a_plain_python(tmp_path):
    gone = fork_server.start()
    gone.server.kill()
    gone.close()

    def output_of(*arguments):
        command = [str(gone.python), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "loop" in output_of("-m", "timeit", "-n1", "-r1")
    shown = output_of("-c", "import sys; print(sys.argv, sys.executable)", "x")
    assert shown == f"['-c', 'x'] {sys.executable}\n"


def test_a_running_server_is_used_again(monkeypatch):
    monkeypatch.setattr(fork_server, "_started", None)
    python = fork_server.python_of_server()
    assert fork_server.python_of_server() == python
    first = fork_server._started
    assert first is not None
    first.server.kill()
    first.close()
    assert fork_server.python_of_server() != python
    second = fork_server._started
    assert second is not None
    second.close()


def test_the_environment_names_the_plain_python_afterwards(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "before")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "before")
    with fork_server.spark_starts("/forks", then="/plain"):
        assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == "/forks"
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == "/plain"
