"""Texts of configuration files, valid but for what a test puts into them."""

OPEN = '<property name="insecure_network" value="true"/>'
"""Lets replicas listen on hosts that other machines reach, without a secret."""

CM = '<service class="org.objectweb.joram.mom.proxies.ConnectionManager" args="root root"/>'
TCP = '<service class="org.objectweb.joram.mom.proxies.tcp.TcpProxyService" args="{}"/>'


def one(inner: str = "", attributes: str = 'id="0" name="s0" hostname="localhost"') -> str:
    """A plain server on line 2, its content from line 3 on."""
    return f"<config>\n<server {attributes}>\n{inner}\n</server>\n</config>"


def two(second: str, domains: str = '<domain name="D1"/>') -> str:
    """A good server and ``second``, which begins on line 4."""
    first = '<server id="0" name="s0" hostname="a">\n<network domain="D1" port="10"/></server>'
    return f"<config>{OPEN}{domains}{first}\n\n{second}\n</config>"


def cluster(attributes: str = "", replicas: int = 3, extra: str = "") -> str:
    """A cluster on line 2, one replica a line from line 4 on."""
    lines = [
        f'<server id="{i}" hostname="h{i}"><network domain="D1" port="10"/></server>' for i in range(replicas)
    ]
    return (
        f'<config>{OPEN}<domain name="D1"/>\n<cluster id="0" name="s0" {attributes}>\n{extra}\n'
        + "\n".join(lines)
        + "\n</cluster></config>"
    )


def mesh(attributes: str = "", service: str = "", extra: str = "") -> str:
    """A mesh of two daemons on line 2, on lines 4 and 5; `service` is one more of the second."""
    lines = [
        f'<server id="{i}" hostname="h{i}"><network domain="D1" port="10"/>{CM}'
        f'<service class="MeshService" args="2560"/>{service * i}</server>'
        for i in range(2)
    ]
    return (
        f'<config>{OPEN}<domain name="D1"/>\n<cluster id="0" name="m0" mode="mesh" {attributes}>\n{extra}\n'
        + "\n".join(lines)
        + "\n</cluster></config>"
    )
