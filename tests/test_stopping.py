"""Signals are noted, not acted on, until the work says where it may stop."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from electralab.errors import Stopped
from electralab.stopping import StopSignal, handle_signals


def test_quiet_signal_lets_work_go_on() -> None:
    StopSignal().check()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_is_raised_where_the_work_checks_and_not_before(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # under nohup, where tests may run too, a hangup is ignored
    try:
        with handle_signals() as stop:
            os.kill(os.getpid(), number)
            step_that_must_not_be_torn = "finished"
            with pytest.raises(Stopped) as caught:
                stop.check()
    finally:
        signal.signal(number, before)
    assert step_that_must_not_be_torn == "finished"
    assert caught.value.status == 128 + number


def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handle_signals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            stop.check()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_second_signal_does_not_change_the_first() -> None:
    with handle_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.number == signal.SIGTERM


def test_check_serves_as_a_hook_with_any_arguments() -> None:
    with handle_signals() as stop:
        stop.check("module", ("inputs",))


def test_handlers_are_put_back_after_a_stop() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with contextlib.suppress(Stopped), handle_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        stop.check()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_work_in_another_thread_runs_without_listening() -> None:
    seen = []

    def work() -> None:
        with handle_signals() as stop:
            stop.check()
            seen.append(stop.number)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0]


def test_process_stops_with_the_status_of_its_signal() -> None:
    program = """
import sys, time
from electralab.errors import Stopped
from electralab.stopping import handle_signals
try:
    with handle_signals() as stop:
        print("ready", flush=True)
        while True:
            time.sleep(0.01)
            stop.check()
except Stopped as stopped:
    sys.exit(stopped.status)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 143
