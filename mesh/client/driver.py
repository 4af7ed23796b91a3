"""The driver of a session with a mesh, over a transport of any event loop."""

from ...client.driver import SessionDriver
from ...client.events import Connect, Disconnect
from .session import MeshSession

__all__ = ["MeshDriver"]


class MeshDriver(SessionDriver[MeshSession]):
    """Feeds a session with bytes and time, and carries out its actions."""

    def step(self) -> None:
        """Carry out the actions of the session, then write its bytes."""
        for action in self.session.take_actions():
            match action:
                case Connect(endpoint):
                    self.port.connect(endpoint)
                case Disconnect():
                    self.port.disconnect()
        if not self.paused and (data := self.session.data_to_send()):
            self.port.write(data)
        self.port.arm(self.session.deadline)
