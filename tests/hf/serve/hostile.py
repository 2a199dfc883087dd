# Who does not keep to the protocol: hostile.py program model. After each of them the server answers others.
import json, socket, sys, time
from _server import Server

program, path = sys.argv[1:]


def connect(s):
    c = socket.create_connection(("127.0.0.1", s.port), timeout=20)
    return c


def answer(c):
    out = b""
    try:
        while True:
            piece = c.recv(65536)
            if not piece:
                break
            out += piece
    except (ConnectionError, socket.timeout):
        pass
    c.close()
    return out


def send(s, *pieces, end=False):
    c = connect(s)
    try:
        for p in pieces:
            c.sendall(p)
        if end:
            c.shutdown(socket.SHUT_WR)
    except ConnectionError:
        pass
    return answer(c)


def post(body, length=None, extra=b""):
    n = len(body) if length is None else length
    return b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %s\r\n%s\r\n" % (str(n).encode(), extra) + body


GOOD = json.dumps({"prompt": "abc", "max_tokens": 4, "temperature": 0}).encode()
with Server(program, path, "--patience=2", "--max-body=2000", "--max-headers=1000", "--length=2000", "--max-seconds=3") as s:
    first = s.ask("POST", "/v1/completions", GOOD)
    assert first[0] == 200, first

    def alive():
        got = s.ask("POST", "/v1/completions", GOOD)
        assert got[0] == 200 and got[1]["choices"] == first[1]["choices"], got

    # lengths and sizes
    for n in (-1, "abc", 10**30, "4, 5", ""):
        got = send(s, post(GOOD, n), end=True)
        assert not got.startswith(b"HTTP/1.1 200"), (n, got)
        alive()
    assert b" 413 " in send(s, post(b"x" * 3000)).split(b"\r\n")[0]
    assert b" 413 " in send(s, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"BB8\r\n" + b"x" * 3000 + b"\r\n0\r\n\r\n").split(b"\r\n")[0]
    assert not send(s, post(GOOD, extra=b"X: " + b"y" * 5000 + b"\r\n")).startswith(b"HTTP/1.1 200")
    assert not send(s, b"GET /" + b"a" * 100000).startswith(b"HTTP/1.1 200")
    alive()
    # what is no HTTP
    for junk in (b"\0" * 1000, b"\r\n" * 100, b"GET\r\n\r\n", b"NOSUCH / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", b"\x16\x03\x01\x02\x00" + b"\xff" * 200):
        assert not send(s, junk, end=True).startswith(b"HTTP/1.1 200"), junk
        alive()
    # chunks as they should be
    got = send(s, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n", b"%x\r\n" % len(GOOD) + GOOD + b"\r\n0\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200"), got
    # two at once on one connection
    got = send(s, post(GOOD).replace(b"Connection: close\r\n", b"") + post(GOOD))
    assert got.count(b"HTTP/1.1 200") == 2, got
    # half a request, and drop by drop: the connection ends, and others have answers meanwhile
    quiet, slow, began = connect(s), connect(s), time.time()
    quiet.sendall(post(GOOD)[:40])
    cut = False
    for i in range(40):
        try:
            slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Long-Header-Name-That-Goes-On: "[i : i + 1])
        except ConnectionError:
            cut = True
            break
        time.sleep(0.25)
        if i % 8 == 0:
            alive()
    assert cut, "who sends drop by drop is not cut off"
    answer(quiet)
    assert time.time() - began < 30
    alive()
    # who goes away is not answered, and leaves no work
    for stream in (True, False):
        c = connect(s)
        c.sendall(post(json.dumps({"prompt": "abc", "max_tokens": 1900, "logit_bias": {"2": -100}, "stream": stream, "temperature": 0}).encode()))
        end = time.time() + 10
        while s.health()["active"] == 0 and time.time() < end:
            pass
        c.close()
        end = time.time() + 10
        while s.health()["active"] > 0 and time.time() < end:
            time.sleep(0.01)
        h = s.health()
        assert h["active"] == 0 and h["waiting"] == 0 and h["pages_used"] == 0, h
    alive()
    # an answer that takes longer than a request may come in, and one that takes too long
    got = s.ask("POST", "/v1/completions", {"prompt": "abc", "max_tokens": 1900, "logit_bias": {"2": -100}, "temperature": 0})
    assert got[0] in (200, 504), got
    alive()
    # a hundred at once that say nothing
    many = [connect(s) for _ in range(100)]
    alive()
    [c.close() for c in many]
    alive()
    # a signal while an answer is on its way
    c = connect(s)
    c.sendall(post(json.dumps({"prompt": "abc", "max_tokens": 200, "stream": True, "temperature": 0}).encode()))
    c.recv(1000)
    assert s.stop() == 0
print("ok")
