"""An agent sent to a stand-in for the Hugging Face Hub, by its own client over HTTP."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtqn.export import hub
from dtqn.settings.config import ConfigError


class _Hub(http.server.BaseHTTPRequestHandler):
    """As much of the Hub as a client asks that makes a repository and uploads small files."""

    sent: dict[str, bytes]
    asked: list[str]
    refuses = False

    def _answer(self, content: object, code: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.asked.append(f"GET {self.path}")
        self._answer({"id": "me/agent", "modelId": "me/agent", "sha": "0" * 40, "siblings": []})

    def do_POST(self) -> None:
        self.asked.append(f"POST {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        assert self.headers["Authorization"] == "Bearer hf_secret"
        url = f"http://{self.headers['Host']}/me/agent"
        if self.refuses:
            self._answer({"error": "no rights"}, 403)
        elif self.path == "/api/repos/create":
            assert json.loads(body)["name"] == "agent"
            self._answer({"url": url, "id": "1", "name": "me/agent"})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            told = [{"path": x["path"], "uploadMode": "regular", "shouldIgnore": False} for x in files]
            self._answer({"files": told})
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.sent[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self._answer({"commitUrl": f"{url}/commit/1", "commitOid": "1", "success": True})
        else:
            self._answer({})

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[_Hub]]:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    pytest.importorskip("huggingface_hub")
    handler = type("Handler", (_Hub,), {"sent": {}, "asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
        for name, value in (("HF_TOKEN", "hf_secret"), ("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")):
            monkeypatch.setenv(name, value)
        yield handler
        server.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "agent"
    made.mkdir()
    (made / "README.md").write_text("---\nlibrary_name: dtqn\n---\n# An agent\n")
    (made / "model.safetensors").write_bytes(bytes(range(256)))
    return made


def test_all_files_arrive(server: type[_Hub], folder: Path) -> None:
    address = hub.push(folder, "me/agent")
    assert address.startswith("http://127.0.0.1:") and address.endswith("/me/agent")
    assert server.sent == {path.name: path.read_bytes() for path in folder.iterdir()}
    posted = [asked for asked in server.asked if "/create" in asked or "/commit" in asked]
    assert posted == ["POST /api/repos/create", "POST /api/models/me/agent/commit/main"]


def test_what_the_hub_refuses_is_one_line(server: type[_Hub], folder: Path) -> None:
    server.refuses = True
    with pytest.raises(
        ConfigError, match=r"^--push is me/agent: the Hub does not take it; .* is kept: "
    ) as info:
        hub.push(folder, "me/agent")
    assert "\n" not in str(info.value) and "403" in str(info.value)
    assert (folder / "model.safetensors").exists()


@pytest.mark.parametrize("name", ["agent", "a/b/c", "me/", "me/a b"])
def test_a_name_that_is_none_is_refused_before_anything_is_sent(name: str) -> None:
    with pytest.raises(ConfigError, match="must be a name such as organisation/agent"):
        hub.check(name)


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r'needs huggingface_hub; python -m pip install -e "\.\[hub\]"'):
        hub.check("me/agent")
