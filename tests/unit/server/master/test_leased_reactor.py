"""What a service has put off waits for the lease."""

from twisted.internet.task import Clock, LoopingCall

from quorate.server.master.leased_reactor import AGAIN_S, LeasedReactor


def test_a_call_that_is_due_without_the_lease_happens_once_it_is_held_again() -> None:
    clock, held, done = Clock(), [True], list[str]()
    reactor = LeasedReactor(clock, lambda: held[0])
    call = reactor.callLater(1.0, done.append, "first")
    clock.advance(1.0)
    assert done == ["first"]
    assert not call.active()
    call = reactor.callLater(1.0, done.append, "second")
    held[0] = False
    clock.advance(1.0)
    assert call.active()
    clock.advance(10 * AGAIN_S)
    assert done == ["first"]
    held[0] = True
    clock.advance(AGAIN_S)
    assert done == ["first", "second"]


def test_a_call_that_waits_for_the_lease_can_be_cancelled() -> None:
    clock, done = Clock(), list[str]()
    call = LeasedReactor(clock, lambda: False).callLater(1.0, done.append, "never")
    clock.advance(1.0)
    call.cancel()
    assert not call.active()
    assert not clock.getDelayedCalls()


def test_a_service_that_ends_may_use_timers() -> None:
    clock, done = Clock(), list[str]()
    reactor = LeasedReactor(clock, lambda: False)
    reactor.callLater(1.0, done.append, "closed")
    reactor.ending = True
    clock.advance(1.0)
    assert done == ["closed"]


def test_it_is_a_clock_for_twisted() -> None:
    clock, held, ticks = Clock(), [True], list[float]()
    reactor = LeasedReactor(clock, lambda: held[0])
    loop = LoopingCall(lambda: ticks.append(reactor.seconds()))
    loop.clock = reactor
    loop.start(1.0)
    clock.pump([1.0, 1.0])
    held[0] = False
    clock.pump([1.0, 1.0])
    assert ticks == [0.0, 1.0, 2.0]
    held[0] = True
    clock.advance(AGAIN_S)
    assert len(ticks) == 4
    loop.stop()
