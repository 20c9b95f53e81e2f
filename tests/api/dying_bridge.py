"""A bridge that a test kills at any moment: dying_bridge.py ADDRESS TOKEN CHANNEL LOG

Claims, writes a line `<to> <text>` to LOG in place of sending, acks. Without end.
"""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "newcomers"))

from client import Client  # noqa: E402

address, token, channel, log = sys.argv[1:]
daemon = Client(address, token)
sent = os.open(log, os.O_WRONLY | os.O_APPEND)
while True:
    status, claimed = daemon.ask("POST", "/v1/deliveries/claim", {"channel": channel, "limit": 16, "waitMs": 500, "leaseMs": 1000})
    for delivery in claimed["data"] if status == 200 else []:
        os.write(sent, f"{delivery['to']} {delivery['text']}\n".encode())
        status, reply = daemon.ask("POST", f"/v1/deliveries/{delivery['deliveryId']}/ack", {"platformMessageId": delivery["deliveryId"]})
        assert status == 200, reply
