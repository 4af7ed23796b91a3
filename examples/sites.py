"""A chat between sites: everybody writes at the daemon of the own site, also while the line is down.

What the other sites write meanwhile comes when the line is back. Each person's lines come in their order::

    quorate up examples/mesh.xml
    quorate mesh create examples/mesh.xml chat
    python -m examples.sites anna quorate://localhost:2701
    python -m examples.sites bert quorate://localhost:2702

Type lines. Stop a daemon with Ctrl-Z or kill it: the others go on.
"""

import sys

from quorate import QuorateClientError, mesh

TOPIC = "chat"


def main(arguments: list[str]) -> str | None:
    """Chat until the end of the input. Return what went wrong, None if nothing did."""
    if len(arguments) != 2:
        return "usage: python -m examples.sites NAME URL"
    name, url = arguments
    try:
        with (
            mesh.connect(url, user="chat", password="chat") as site,
            site.subscribe(TOPIC, name=f"chat of {name}") as lines,
        ):

            def show(message: mesh.MeshMessage) -> None:
                print(message.body.decode(errors="replace"), flush=True)
                lines.acknowledge(message)

            lines.listen(show, lambda error: print(f"* {error}", flush=True))
            print(f"* {name} is at daemon {site.daemon}", flush=True)
            for line in sys.stdin:
                site.publish(TOPIC, f"{name}: {line.rstrip()}".encode())
    except QuorateClientError as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
