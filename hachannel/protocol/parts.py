"""The parts of a channel, and how they are put together: each gets those that it depends on."""

import attrs

from ..membership.departures import Departures
from ..membership.membership import Membership
from ..membership.witness_admission import WitnessAdmission
from ..replication.forwarding import Forwarding
from ..replication.lease import Lease
from ..replication.normal_case import Replication
from ..replication.replica_state import ReplicaState
from ..transfer.donor import Donor
from ..transfer.learner import Learner
from ..view_change.election import Election

__all__ = ["ChannelParts", "assemble"]


@attrs.frozen(eq=False)
class ChannelParts:
    """What the protocol of one replica consists of, below its decisions."""

    state: ReplicaState
    lease: Lease
    replication: Replication
    forwarding: Forwarding
    donor: Donor
    learner: Learner
    election: Election
    membership: Membership
    departures: Departures
    witness_admission: WitnessAdmission


def assemble(state: ReplicaState, *, fresh: bool) -> ChannelParts:
    """Make the parts of a replica. fresh: it needs the whole state from the others, see `Channel`."""
    lease = Lease(state)
    replication = Replication(state)
    donor = Donor(state, replication, lease)
    election = Election(state, replication, donor, lease)
    return ChannelParts(
        state=state,
        lease=lease,
        replication=replication,
        forwarding=Forwarding(state, replication),
        donor=donor,
        learner=Learner(state, lease, election.installation.set_busy, fresh=fresh),
        election=election,
        membership=Membership(state, replication, election),
        departures=Departures(state, replication),
        witness_admission=WitnessAdmission(state, replication),
    )
