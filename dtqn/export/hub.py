"""An exported agent on the Hugging Face Hub; the only file that imports `huggingface_hub`."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

from dtqn.settings.config import wrong
from dtqn.text import one_line


def check(repository: str) -> None:
    """Whether `push` can begin, before anything is exported.

    Raises:
        ConfigError: the name is none, or `huggingface_hub` is not installed.
    """
    if not re.fullmatch(r"[\w.-]{1,96}/[\w.-]{1,96}", repository):
        raise wrong("--push", repository, "must be a name such as organisation/agent")
    if importlib.util.find_spec("huggingface_hub") is None:
        install = 'python -m pip install -e ".[hub]" installs it'
        raise wrong("--push", repository, f"needs huggingface_hub; {install}")


def push(folder: Path, repository: str) -> str:
    """Send a folder to the repository of a model, which is made where there is none; its address.

    The account is that of `huggingface-cli login` or of `HF_TOKEN`, the server the Hub's or that of
    `HF_ENDPOINT`.

    Raises:
        ConfigError: the Hub does not take it; the folder stays as it is.
    """
    from huggingface_hub import HfApi

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    try:
        api.create_repo(repository, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message="An agent exported by dtqn")
    except Exception as error:  # whatever the client raises: of the network, of rights, of the account
        raise wrong(
            "--push", repository, f"the Hub does not take it; {folder} is kept: {one_line(error)}"
        ) from None
    return f"{api.endpoint}/{repository}"
