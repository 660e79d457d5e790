"""A server of made-up transfers that is never the bottleneck: records are encoded once, at start.

``python page_server.py ROWS LATENCY_S [EVENTS]`` prints its address; EVENTS are how many events it
has, too. It honours ``created_at.gte``, ``.lt``, ``updated_at.gte``, ``order``, ``limit`` and
``page_cursor``, and issues a token to anybody.
"""

from __future__ import annotations

import asyncio
import json
import sys
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from made_pages import event_record, transfer_records

TOKEN = json.dumps({"access_token": "t", "expires_in": 3599, "scope": "", "token_type": "bearer"})


class Pages:
    """The encoded records in order of creation."""

    def __init__(self, member: str, records: Iterable[dict[str, Any]]) -> None:
        self.member = member
        self.records, self.moments, self.updates = [], [], []
        for record in records:
            self.records.append(json.dumps(record).encode())
            self.moments.append(record["created_at"])
            self.updates.append(record.get("updated_at", "").rstrip("Z"))

    def answer(self, query: dict[str, list[str]]) -> bytes:
        one = {name: values[-1] for name, values in query.items()}
        low = bisect_left(self.moments, one["created_at.gte"]) if "created_at.gte" in one else 0
        end = len(self.records)
        if "updated_at.gte" in one:  # each is updated in the second that it was created in
            low = bisect_left(self.updates, one["updated_at.gte"].rstrip("Z"))
        if "created_at.lt" in one:
            end = bisect_left(self.moments, one["created_at.lt"])
        limit = int(one.get("limit", 100))
        if one.get("order") == "DESC":
            high = int(one["page_cursor"]) if "page_cursor" in one else end
            chosen = self.records[max(low, high - limit) : high][::-1]
            cursor = str(high - limit) if high - limit > low else ""
        else:
            low = int(one["page_cursor"]) if "page_cursor" in one else low
            chosen = self.records[low : min(low + limit, end)]
            cursor = str(low + limit) if low + limit < end else ""
        begin, end_ = f'{{"{self.member}":[', f'],"next_page_cursor":"{cursor}"}}'
        return begin.encode() + b",".join(chosen) + end_.encode()


async def main(rows: int, latency_s: float, events: int = 0) -> None:
    transfers = Pages("items", transfer_records(rows))
    of_events = Pages("events", map(event_record, range(events)))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                length = 0
                while (header := await reader.readline()) not in (b"\r\n", b""):
                    if header.lower().startswith(b"content-length:"):
                        length = int(header.split(b":")[1])
                await reader.readexactly(length)
                target = urlsplit(line.split()[1].decode())
                if target.path.endswith("/oauth2/token"):
                    body = TOKEN.encode()
                else:
                    await asyncio.sleep(latency_s)
                    pages = of_events if target.path.endswith("/events") else transfers
                    body = pages.answer(parse_qs(target.query))
                head = (
                    f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), *map(int, sys.argv[3:])))
