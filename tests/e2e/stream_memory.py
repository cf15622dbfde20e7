#!/usr/bin/env python3
"""How much memory a stream costs a gateway: 600 of them, each with twenty tokens relayed and more to come. Prints it;
more than 15 KB is a failure."""
import asyncio
import json
import re
import resource
import subprocess
import sys

WATTLE = sys.argv[1]
STREAMS = 600
MOST_KB = 15.0
TOKEN = (b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
         b'"delta":{"content":" hi"},"finish_reason":null}]}\n\n')
relayed = 0  # by the engine, to the gateway


async def engine(reader, writer):
    global relayed
    head = await reader.readuntil(b"\r\n\r\n")
    if head.startswith(b"GET"):
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        writer.close()
        return
    await reader.readexactly(int(re.search(rb"content-length: (\d+)", head.lower()).group(1)))
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(20):
        writer.write(b"%x\r\n%s\r\n" % (len(TOKEN), TOKEN))
        await writer.drain()
        await asyncio.sleep(0.01)
    relayed += 1
    await reader.read()  # until the gateway leaves


def resident_kb(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


async def main():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = await asyncio.start_server(engine, "127.0.0.1", 0, backlog=1000)
    port = server.sockets[0].getsockname()[1]
    gateway = await asyncio.create_subprocess_exec(
        WATTLE, "gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--model", "m", "--worker",
        f"http://127.0.0.1:{port}", "--gap-timeout-s", "600", stdout=subprocess.PIPE)
    try:
        line = (await gateway.stdout.readline()).decode()
        at = int(re.search(r"listening on http://127.0.0.1:(\d+)", line).group(1))
        body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "x" * 200}]}).encode()
        ask = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

        async def client():
            while True:
                reader, writer = await asyncio.open_connection("127.0.0.1", at)
                writer.write(ask)
                if (await reader.read(12)).endswith(b"200"):
                    return reader, writer
                writer.close()  # the engine is not known to be ready yet
                await asyncio.sleep(0.05)

        async def all_relayed(streams):
            while relayed < streams:
                await asyncio.sleep(0.05)

        clients = [await client()]
        await all_relayed(1)
        before = resident_kb(gateway.pid)
        while len(clients) <= STREAMS:
            clients += await asyncio.gather(*[client() for _ in range(50)])
        await all_relayed(len(clients))
        each = (resident_kb(gateway.pid) - before) / (len(clients) - 1)
        print(f"{each:.1f} KB a stream, of {len(clients) - 1}")
        if not 0 < each <= MOST_KB:
            sys.exit(f"stream_memory: {each:.1f} KB a stream, at most {MOST_KB} were to be")
    finally:
        gateway.kill()
        await gateway.wait()


try:
    asyncio.run(asyncio.wait_for(main(), 100))
except asyncio.CancelledError:
    pass
