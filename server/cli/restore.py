"""`quorate restore`: begin a new cluster with a backup."""

from pathlib import Path

import click
from rich.table import Table

from ..admin.backup_places import BackupPlace, place_of
from ..admin.backups import backups, read_state
from ..admin.client import ServerAdmin
from ..admin.replica_status import gather
from ..config import Replica, Server
from ..errors import StartError
from .common import (
    CommandError,
    config_argument,
    json_option,
    json_text,
    read_config,
    replica_id,
    reported_errors,
    server_option,
)
from .terminal import console

DISK = "disk"


@click.command(epilog="Exit status: 0 if it was restored, checked or listed; 1 if nothing was written.")
@config_argument
@click.argument("place", metavar="PLACE")
@server_option
@click.option(
    "--replica", metavar="ID", callback=replica_id, help="The replica to make.  [default: the first]"
)
@click.option("--data", metavar="DIR", type=click.Path(path_type=Path), help="Default: data beside the file.")
@click.option("--backup", "number", metavar="N", type=click.IntRange(1), help="Default: the last one.")
@click.option("--list", "only_list", is_flag=True, help="List the backups, and write nothing.")
@click.option("--check", "only_check", is_flag=True, help="Read and check the backup, and write nothing.")
@click.option("--unchecked", is_flag=True, help="Do not load the agents to compare them with the copy.")
@json_option
def command(
    config: Path,
    place: str,
    server: str,
    replica: int | None,
    data: Path | None,
    number: int | None,
    only_list: bool,
    only_check: bool,
    unchecked: bool,
    as_json: bool,
) -> None:
    """Begin a new cluster with a backup of a server in PLACE, a directory or a URL of fsspec.

    It writes the directory of one replica, which is started first; the others are started with empty
    directories, and get everything from it. Nothing is overwritten. What the server did after the backup is
    lost.
    """
    with reported_errors():
        loaded = read_config(config)
        declared = loaded.server(server)
        where = place_of(place, declared.name)
        if only_list:
            _list(where, as_json)
            return
        made = _replica(declared, replica)
        # Imported here because the other uses need nothing of a running server.
        from ...hachannel.journal.journal import JournalError
        from ..admin.restoring import check_agents, restore

        if not only_check:
            _check_down(ServerAdmin(loaded, declared))
        saved = read_state(where, number)
        path = None
        try:
            digest = None if unchecked else check_agents(loaded, declared, made, saved)
            if not only_check:
                path = restore(data or loaded.path.parent / "data", loaded, declared, made.id, saved)
        except (JournalError, StartError) as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"The directory cannot be written: {error.strerror or error}.") from None
    agents, index = len(saved.state.agents), saved.backup.index
    if as_json:
        found = {"backup": saved.backup.number, "entry": index, "ended": saved.ended, "agents": agents}
        click.echo(json_text({**found, "digest": digest, "directory": path and str(path)}))
        return
    click.echo(
        f"{declared.name}: backup {saved.backup.number} of {saved.ended} is sound: the state after entry "
        f"{index}, {agents} agents and rows, {'not loaded' if digest is None else f'digest {digest}'}"
    )
    if path is not None:
        name = click.format_filename(config)
        where_to = "" if data is None else f" --data {click.format_filename(data)}"
        click.echo(
            f"{declared.name}.{made.id} is the beginning of a new cluster, in {path}. Start it first: "
            f"quorate start {name} --server {declared.name} --replica {made.id}{where_to}; then start the "
            "others with empty directories."
        )


def _list(place: BackupPlace, as_json: bool) -> None:
    found = backups(place)
    if as_json:
        listed = [
            {"backup": each.number, "entry": each.index, "whole": each.whole, "file": each.name}
            for each in found
        ]
        click.echo(json_text({"backups": listed}))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("backup", "entry"):
        table.add_column(title, justify="right")
    table.add_column("kind")
    for each in found:
        table.add_row(str(each.number), str(each.index), "whole" if each.whole else "changes")
    console().print(table)


def _replica(server: Server, replica: int | None) -> Replica:
    if server.durability != DISK:
        raise CommandError(
            f"{server.name} keeps nothing on disks (durability memory), so nothing can be restored for it; "
            'give it durability="disk" in the file.'
        )
    held = [each for each in server.replicas if not each.witness]
    made = held[0] if replica is None else next((each for each in held if each.id == replica), None)
    if made is None:
        ids = ", ".join(str(each.id) for each in held)
        raise CommandError(f"Server {server.name} has no replica {replica} that holds agents: it has {ids}.")
    return made


def _check_down(admin: ServerAdmin) -> None:
    """Check that no replica of the server runs. Raises CommandError."""
    ((_, replicas),) = gather([admin])
    for each in replicas:
        if not each.nobody_there:
            name = f"{admin.server.name}.{each.endpoint.replica}"
            raise CommandError(
                f"{name} runs ({each.role}), and a restore begins a new cluster: stop all replicas first, or "
                "give a file with other addresses."
            )
