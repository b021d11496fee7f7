"""A test of a client against the mock agent. Here the client is a few lines over a socket."""
import json
import socket

import pytest

SCRIPT = {
    "rules": [{"method": "session/prompt", "do": [{"say": "It is sunny."}, {"end": "end_turn"}]}],
    "verify": [{"say": "prompts once", "frame": {"method": "session/prompt"}, "times": 1}],
}


class Client:
    def __init__(self, host, port):
        self.connection = socket.create_connection((host, port))
        self.lines = self.connection.makefile("r", encoding="utf-8")
        self.count = 0

    def ask(self, method, params):
        self.count += 1
        request = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}
        self.connection.sendall((json.dumps(request) + "\n").encode())
        self.heard = []
        for line in self.lines:
            message = json.loads(line)
            if message.get("id") == self.count:
                return message["result"]
            self.heard.append(message)


@pytest.mark.acp_mock(SCRIPT)
def test_the_client_shows_the_answer(acp_mock, tmp_path):
    client = Client(acp_mock.host, acp_mock.port)
    client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    session = client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})["sessionId"]
    prompt = [{"type": "text", "text": "How is the weather?"}]
    assert client.ask("session/prompt", {"sessionId": session, "prompt": prompt})["stopReason"] == "end_turn"
    said = [m["params"]["update"]["content"]["text"] for m in client.heard
            if m["params"]["update"]["sessionUpdate"] == "agent_message_chunk"]
    assert said == ["It is sunny."]
    assert acp_mock.received("session/prompt")[0]["params"]["prompt"] == prompt
    acp_mock.assert_clean()


@pytest.mark.acp_mock({"verify": [{"say": "prompts once", "frame": {"method": "session/prompt"}, "times": 1}]})
def test_a_client_that_does_less_than_the_script_wants_is_told(acp_mock):
    client = Client(acp_mock.host, acp_mock.port)
    client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    with pytest.raises(AssertionError, match="prompts once"):
        acp_mock.assert_clean()
