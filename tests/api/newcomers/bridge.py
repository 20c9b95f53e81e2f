#!/usr/bin/env python3
"""A bridge to the chat platform of harness/chat.py. Written from README.md and web/openapi.json alone.

    bridge.py ADDRESS TOKEN CHANNEL PLATFORM SHARD [LEASE_MS]

What people wrote is seen on the platform when the daemon has it; what the agent answers is acknowledged when the platform has it.
"""

import os
import sys
import threading
import time

from client import Client

ADDRESS, TOKEN, CHANNEL, PLATFORM, SHARD = sys.argv[1:6]
LEASE_MS = int(sys.argv[6]) if len(sys.argv) > 6 else 2000


def bring_in():
    daemon, platform = Client(ADDRESS, TOKEN), Client(PLATFORM)
    while True:
        _, updates = platform.ask("GET", "/updates/" + SHARD)
        if not updates:
            time.sleep(0.02)
            continue
        status, reply = daemon.ask("POST", "/v1/inbound", [
            {"channel": CHANNEL, "chatType": "direct", "peer": update["from"], "messageId": update["id"], "text": update["text"]}
            for update in updates])
        if status != 200:
            sys.exit(f"inbound was answered {status} {reply}")
        taken = [update["id"] for update, result in zip(updates, reply["results"]) if result["status"] in (200, 201)]
        platform.ask("POST", "/seen/" + SHARD, taken)


def bring_out():
    daemon, platform = Client(ADDRESS, TOKEN), Client(PLATFORM)
    while True:
        status, claimed = daemon.ask("POST", "/v1/deliveries/claim", {"channel": CHANNEL, "waitMs": 10_000, "leaseMs": LEASE_MS})
        for delivery in claimed["data"] if status == 200 else []:
            _, sent = platform.ask("POST", "/send", {"to": delivery["to"], "text": delivery["text"], "nonce": delivery["deliveryId"]})
            daemon.ask("POST", f"/v1/deliveries/{delivery['deliveryId']}/ack", {"platformMessageId": sent["id"]})
            platform.ask("POST", "/ack", delivery["deliveryId"])


def run(work):
    """A bridge with one hand ends, so that it is started again."""
    try:
        work()
    finally:
        os._exit(1)


threading.Thread(target=run, args=(bring_in,)).start()
run(bring_out)
