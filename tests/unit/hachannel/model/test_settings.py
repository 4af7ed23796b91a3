"""What the settings of a channel may be."""

import math

import pytest

from quorate.hachannel import Group, Settings

COUNTS = ["window", "part_bytes", "max_payload_bytes", "transfer_window", "forward_queue", "min_copies"]
PERIODS = ["heartbeat_s", "retry_s", "view_change_s", "stall_s", "suspect_s"]


@pytest.mark.parametrize("value", [0, -1, math.nan, 2.5, True, "7"])
@pytest.mark.parametrize("name", COUNTS)
def test_sizes_and_counts_are_whole_numbers_from_1(name, value):
    with pytest.raises(ValueError, match=rf"{name} is .*: a whole number, at least 1"):
        Settings(**{name: value})


@pytest.mark.parametrize("value", [0, -0.1, math.nan, math.inf, 1e-9, "1"])
@pytest.mark.parametrize("name", PERIODS)
def test_periods_are_at_least_a_millisecond(name, value):
    with pytest.raises(ValueError, match=rf"{name} is .*: seconds, at least 0\.001"):
        Settings(**{name: value})


@pytest.mark.parametrize(
    "name", ["rank_delay_s", "boot_wait_s", "leave_s", "transfer_pause_s", "verify_s", "lease_s"]
)
def test_waits_may_be_0_and_not_less(name):
    Settings(**{name: 0})
    for value in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"{name} is .*: seconds, at least 0$"):
            Settings(**{name: value})


@pytest.mark.parametrize("name", [*PERIODS, "lease_s", "leave_s"])
def test_times_are_at_most_what_stands_for_never(name):
    Settings(**{"suspect_s": 1e9, name: 1e8})
    for value in (1.1e9, 1e300, 10**400):
        with pytest.raises(ValueError, match=rf"{name} is .*: seconds, at most 1000000000, .* never"):
            Settings(**{name: value})


@pytest.mark.parametrize("name", ["max_payload_bytes", "part_bytes"])
def test_what_goes_as_one_message_fits_in_a_frame(name):
    Settings(**{name: 2**30})
    for value in (2**30 + 1, 2**40):
        with pytest.raises(ValueError, match=rf"{name} is {value}: at most 1073741824, .* one frame"):
            Settings(**{name: value})


def test_nothing_need_be_kept():
    Settings(keep=0, keep_bytes=0)
    with pytest.raises(ValueError, match="keep is -1: a whole number, at least 0"):
        Settings(keep=-1)


def test_the_mode_and_the_drift_are_checked():
    with pytest.raises(ValueError, match="mode is 'MOST': ALL or MAJORITY"):
        Settings(mode="MOST")
    with pytest.raises(ValueError, match="drift is nan: a fraction"):
        Settings(drift=math.nan)


@pytest.mark.parametrize(
    ("addresses", "options", "sentence"),
    [
        ({0: "ant:7300"}, {}, "the address of member 0 is 'ant:7300': give"),
        ({0: ("ant", "7300")}, {}, "the address of member 0"),
        ({0: ("ant", 0)}, {}, "the address of member 0"),
        ({0: ("ant", 7300), 1: ("ant", 7300)}, {}, "members 0 and 1 have the same address"),
        ({0: ("ant", 7300)}, {"settings": {"window": 4}}, "settings is"),
    ],
)
def test_a_group_refuses_addresses_and_settings_that_are_none(addresses, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Group("g", 0, addresses, handler=None, **options)
