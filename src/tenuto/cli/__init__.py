"""The command line: `tenuto run`, `chat`, `runs`, `evals`, `models`, `pull`, `doctor`.

Invariant: answers go to stdout and everything else to stderr; a failure is one line with its remedy and an exit code,
never a traceback.
"""

__all__ = ["main"]


def main() -> None:
    """The entry point `tenuto`; exits the process."""
    from tenuto.cli.commands import app
    from tenuto.cli.screen import accept_any_text

    accept_any_text()
    app(prog_name="tenuto")
