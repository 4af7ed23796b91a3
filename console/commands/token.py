"""``quorate token``: the tokens of a file, with which programs use the HTTP API."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from ...text_files import reason
from ..tokens import Token, hash_token, new_token, read_tokens, write_tokens

__all__ = ["command"]

MAX_DAYS = 36500


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--read-only", is_flag=True, help="The token changes nothing.")
@click.option("--days", metavar="N", type=click.IntRange(1, MAX_DAYS), help="How long it is valid; for ever.")
@click.option("--remove", is_flag=True, help="Remove the token.")
def command(file: Path, name: str | None, read_only: bool, days: int | None, remove: bool) -> None:
    """Make a token for a program, with the name NAME, and print it; without NAME, list the tokens.

    The token is printed this once: FILE has its hash. The file is named by the property tokens_file of a
    configuration; running servers read it again by themselves. A token with the same name is replaced.
    """
    tokens = _read(file)
    if name is None:
        if read_only or days or remove:
            raise click.UsageError("Name the token.")
        now = datetime.now(UTC)
        for known, each in sorted(tokens.items()):
            end = f"until {each.expires:%Y-%m-%d}" if each.expires else "for ever"
            click.echo(f"{known} {each.scope} {'expired' if each.expired(now) else end}")
        return
    if name.startswith("#") or len(name.split()) != 1 or not name.isprintable():
        raise click.UsageError(f"{name!r} is not a name: use characters without spaces, and no # first.")
    made = ""
    if remove:
        if read_only or days:
            raise click.UsageError("--remove takes no other options.")
        if name not in tokens:
            raise click.ClickException(f"{file} has no token {name}.")
        del tokens[name]
    else:
        made = new_token()
        expires = datetime.now(UTC).replace(microsecond=0) + timedelta(days=days) if days else None
        tokens[name] = Token(hash_token(made), "read" if read_only else "all", expires)
    try:
        write_tokens(file, tokens)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {reason(error)}.") from None
    click.echo(f"{file}: {name} {'removed' if remove else 'set'}, {len(tokens)} tokens.", err=bool(made))
    if made:
        click.echo(made)


def _read(file: Path) -> dict[str, Token]:
    try:
        return read_tokens(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {reason(error)}.") from None
    except ValueError as error:
        raise click.ClickException(f"{file} is no file of tokens: {error}.") from None
