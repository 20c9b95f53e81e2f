"""HTTP as the runner and the bridge beside it need it: one connection, JSON, and patience with a server that is down."""

import http.client
import json
import time


class Client:
    def __init__(self, address, token=""):
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self.headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}

    def ask(self, method, path, body=None):
        """(status, answer). A request without a reply is sent again: each one that is sent here may come twice."""
        while True:
            try:
                self.connection.request(method, path, None if body is None else json.dumps(body), self.headers)
                reply = self.connection.getresponse()
                text = reply.read()
                if reply.status != 503:
                    return reply.status, json.loads(text) if text else None
            except (OSError, http.client.HTTPException):
                self.connection.close()
            time.sleep(0.05)
