"""``quorate certs``: a private authority, and the certificates of replicas and of clients."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ...hachannel.transport.addresses import is_loopback_host
from ...text_files import reason
from ...tls import TlsError
from ...tls.files import read_certificates
from ..config import Config, Replica, Server, load

if TYPE_CHECKING:
    from ...tls.authority import Authority

__all__ = ["command"]

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
RENEW_DAYS: Final = 30
"""A certificate that ends within these days is made anew."""


@click.command(epilog="Exit status: 0; 1 if the configuration is invalid, or a file cannot be used.")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option(
    "--directory",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the certificates are. Default: certs beside FILE.",
)
@click.option(
    "--client", "clients", metavar="USER", multiple=True, help="Also one for this user; repeatable."
)
@click.option(
    "--days",
    metavar="N",
    type=click.IntRange(1, 3650),
    default=365,
    show_default=True,
    help="How long new certificates are valid.",
)
@click.option("--renew", is_flag=True, help="Make all certificates anew, not only those that need it.")
def command(file: str, directory: Path | None, clients: tuple[str, ...], days: int, renew: bool) -> None:
    """Make the certificates of all replicas of FILE, signed by a private authority.

    The authority, ca.pem and ca.key, is made the first time and kept. Certificates are made that are missing,
    end within 30 days, or are for other hosts than FILE has now; servers that run read them by themselves.
    Copy to each host ca.pem, and the certificate and key of its replica; keep ca.key elsewhere.
    """
    config = load(file, check_imports=False)
    place = directory or config.path.parent / "certs"
    for user in clients:
        if not user or not user.isprintable() or len(user.split()) != 1 or "/" in user or len(user) > 64:
            raise click.UsageError(f"{user!r} is not the name of a user that can stand in a file's name.")
    try:
        made = _make(config, place, clients, days, renew)
    except ImportError as error:
        raise click.ClickException(
            f"TLS needs a library ({error}); run: pip install 'twisted[tls]'."
        ) from None
    except TlsError as error:
        raise click.ClickException(f"{error}.") from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or place} cannot be used: {reason(error)}.") from None
    click.echo(f"{place}: {', '.join(made) or 'nothing to make'}.")
    if config.setting("tls_certificate", server=config.servers[0].id) is None:
        click.echo("The properties for the configuration:")
        base = place if directory is not None else Path("certs")
        for name, value in (
            ("tls_certificate", base / "{server}-{replica}.pem"),
            ("tls_key", base / "{server}-{replica}.key"),
            ("tls_ca", base / "ca.pem"),
        ):
            click.echo(f'  <property name="{name}" value="{value}"/>')


def _make(config: Config, place: Path, clients: tuple[str, ...], days: int, renew: bool) -> list[str]:
    from ...tls.authority import Authority

    place.mkdir(parents=True, exist_ok=True)
    certificate, key = place / "ca.pem", place / "ca.key"
    made: list[str] = []
    if certificate.exists():
        authority = Authority.load(certificate, key)
    else:
        authority = Authority.create(certificate, key, f"Quorate authority of {config.path.stem}")
        made.append("ca")
    for server in config.servers:
        for replica in server.replicas:
            hosts = _hosts(config, server, replica)
            name = f"{server.name}-{replica.id}"
            target = place / f"{name}.pem"
            if renew or _due(target, hosts):
                authority.server(
                    target, place / f"{name}.key", f"server {server.name} {replica.id}", hosts, days
                )
                made.append(name)
    made += [_client(authority, place, user, days) for user in clients]
    return made


def _client(authority: "Authority", place: Path, user: str, days: int) -> str:
    name = f"client-{user}"
    authority.client(place / f"{name}.pem", place / f"{name}.key", user, days)
    return name


def _hosts(config: Config, server: Server, replica: Replica) -> list[str]:
    """Return the names and addresses at which others connect to a replica."""
    hosts = [replica.host, *(network.host for network in replica.networks)]
    hosts += [
        nat.host
        for other in config.servers
        for each in other.replicas
        for nat in each.nats
        if (nat.server, nat.replica) == (server.id, replica.id)
    ]
    if any(map(is_loopback_host, hosts)):
        hosts += LOOPBACK
    return list(dict.fromkeys(hosts))


def _due(certificate: Path, hosts: list[str]) -> bool:
    """Return whether a certificate is missing, ends soon, or is for other hosts."""
    from ...tls.names import covers

    try:
        found = read_certificates(certificate)[0]
    except TlsError:
        return True
    soon = datetime.now(UTC) + timedelta(days=RENEW_DAYS)
    return found.not_valid_after_utc < soon or not all(covers(found, [host]) for host in hosts)
