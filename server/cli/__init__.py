"""The subcommands of ``quorate`` that deal with servers, one module each."""
