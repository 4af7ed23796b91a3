"""What a replica that is neither master nor slave waits for, as its starter reads it."""

from quorate.server.situation import situation
from quorate.testing.cluster import Cluster


def said(cluster: Cluster, replica: int) -> str:
    return situation(cluster.replicas[replica].node.channel)


def test_before_the_very_first_start_it_says_who_is_missing() -> None:
    cluster = Cluster(1)
    cluster.cut(2)
    cluster.run(1.0)
    assert cluster.replicas[0].node.role == "joining"
    assert said(cluster, 0) == (
        "waits for the others before the very first start: 2 of 3 expected are here, "
        "this replica hears 1; start replica 2"
    )
    assert said(cluster, 2).endswith("1 of 3 expected are here, this replica hears none; start replicas 0, 1")


def test_a_replica_that_lost_the_majority_says_whom_it_needs() -> None:
    cluster = Cluster(2)
    cluster.run_until(cluster.whole)
    assert [said(cluster, replica) for replica in range(3)] == [""] * 3
    cluster.kill(0)
    cluster.kill(2)
    cluster.run(5)
    assert cluster.replicas[1].node.role == "blocked"
    assert said(cluster, 1).startswith("too few replicas of view 1 can be reached to go on")
    assert said(cluster, 1).endswith("this one hears none; start replicas 0, 2, or mend the network")
    cluster.restart(0)
    cluster.run(5)
    assert said(cluster, 1).endswith("this one hears 0; start replica 2, or mend the network")
    assert said(cluster, 0) == "waits for a master; this replica hears 1; start replica 2"
