# The server's interface by Python's own client: plain.py program model. The model's vocabulary is of letters.
import http.client, json, signal, sys, threading, time
from _server import Server

program, path = sys.argv[1:]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def want(got, status, *words):
    assert got[0] == status, got
    for word in words:
        assert word in json.dumps(got[1], ensure_ascii=False), (word, got)
    return got[1]


with Server(program, path, "--name=small", "--max-batch=2", "--queue=2", "--length=64") as s:
    assert s.line.startswith("small at http://127.0.0.1:"), s.line
    want(s.ask("GET", "/v1/models"), 200, '"id": "small"')
    want(s.ask("GET", "/v1/models/small"), 200, '"object": "model"')
    # one text, whole and in pieces, drawn and not
    ask = {"prompt": "abc", "max_tokens": 8, "temperature": 0}
    one = want(s.ask("POST", TEXT, ask), 200)
    text = one["choices"][0]["text"]
    assert one["usage"]["prompt_tokens"] == 3 and one["usage"]["completion_tokens"] <= 8, one
    assert one["choices"][0]["finish_reason"] in ("length", "stop") and one["model"] == "small", one
    assert s.ask("POST", TEXT, {**ask, "prompt": [0, 1, 2]})[1]["choices"][0]["text"] == text
    drawn = {**ask, "temperature": 2, "seed": 7}
    assert s.ask("POST", TEXT, drawn)[1]["choices"] == s.ask("POST", TEXT, drawn)[1]["choices"]
    assert len({s.ask("POST", TEXT, {**ask, "temperature": 2})[1]["choices"][0]["text"] for _ in range(4)}) > 1

    def stream(path, body):
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        c.request("POST", path, json.dumps({**body, "stream": True}))
        r = c.getresponse()
        assert r.status == 200 and r.getheader("Content-Type") == "text/event-stream", r.status
        events = r.read().decode().split("\n\n")
        assert events[-2:] == ["data: [DONE]", ""], events
        return [json.loads(e[6:]) for e in events[:-2]]

    pieces = stream(TEXT, ask)
    assert "".join(p["choices"][0]["text"] for p in pieces) == text
    assert pieces[-1]["choices"][0]["finish_reason"] == one["choices"][0]["finish_reason"]
    talk = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 6, "temperature": 0}
    said = want(s.ask("POST", CHAT, talk), 200)["choices"][0]["message"]
    assert said["role"] == "assistant"
    pieces = stream(CHAT, {**talk, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 2})
    assert pieces[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(p["choices"][0]["delta"].get("content", "") for p in pieces[:-1]) == said["content"]
    assert pieces[-1]["choices"] == [] and pieces[-1]["usage"]["total_tokens"] > 6
    told = [e for p in pieces[:-1] for e in (p["choices"][0]["logprobs"] or {"content": []})["content"]]
    assert len(told) == pieces[-1]["usage"]["completion_tokens"] and len(told[0]["top_logprobs"]) == 2
    parts = [{"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}]
    assert s.ask("POST", CHAT, {**talk, "messages": parts})[1]["choices"][0]["message"] == said
    # what holds it
    assert s.ask("POST", TEXT, {**ask, "logit_bias": {"3": 100}, "stop": None})[1]["choices"][0]["text"] == "d" * 8
    stopped = s.ask("POST", TEXT, {**ask, "logit_bias": {"3": 100}, "stop": ["dd"]})[1]["choices"][0]
    assert stopped["text"] == "" and stopped["finish_reason"] == "stop", stopped
    assert s.ask("POST", TEXT, {**ask, "regex": "[x-z]{3}"})[1]["choices"][0]["text"][:1] in "xyz"
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": ["ab", "cd"]}}}
    bad = s.ask("POST", CHAT, {**talk, "response_format": form})  # the letters have no quotes
    assert bad[0] in (200, 400, 500) and "Traceback" not in str(bad)

    # what is wrong is named
    m = talk["messages"]
    want(s.ask("POST", CHAT, {"mesages": m}), 400, "unknown field 'mesages'; did you mean 'messages'?", '"param": "mesages"')
    want(s.ask("POST", CHAT, {"messages": m, "tools": []}), 400, "unknown field 'tools'")
    want(s.ask("POST", CHAT, {}), 400, "'messages' is needed")
    want(s.ask("POST", CHAT, {"messages": [{"content": "x"}]}), 400, "'messages[0]' must be an object with a role")
    want(s.ask("POST", CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}), 400, "messages[0].content[0]")
    want(s.ask("POST", CHAT, {"messages": m, "temperature": "hot"}), 400, "'temperature' must be a number >= 0, not")
    want(s.ask("POST", CHAT, {"messages": m, "n": 2}), 400, "'n' must be 1")
    want(s.ask("POST", CHAT, {"messages": m, "top_logprobs": 2}), 400, "needs 'logprobs'")
    want(s.ask("POST", CHAT, {"messages": m, "logit_bias": {"1000": 1}}), 400, "token below 61")
    want(s.ask("POST", CHAT, {"messages": m, "response_format": {"type": "xml"}}), 400, "'response_format' must be")
    want(s.ask("POST", CHAT, {"messages": m, "stream_options": {"x": 1}}), 400, "unknown field 'stream_options.x'")
    want(s.ask("POST", CHAT, {"messages": m, "model": "other"}), 404, "the model 'other' is not here; 'small' is")
    want(s.ask("POST", CHAT, {"messages": m, "max_tokens": 64}), 400, "a text here has 64 at most")
    want(s.ask("POST", CHAT, {"messages": m, "max_tokens": 1, "max_completion_tokens": 1}), 400, "both are given")
    want(s.ask("POST", TEXT, {"prompt": [999]}), 400, "token 1 of the prompt is 999")
    want(s.ask("POST", TEXT, {"prompt": ["a", "b"]}), 400, "'prompt' must be one text")
    want(s.ask("POST", TEXT, {"prompt": "a", "regex": "(", }), 400, "regex")
    want(s.ask("POST", TEXT, {"prompt": ""}), 400, "has no tokens")
    want(s.ask("POST", TEXT, "{"), 400, "no JSON")
    want(s.ask("POST", TEXT, "[1]"), 400, "an object of JSON")
    want(s.ask("POST", TEXT, b'{"prompt": "\xff"}'), 400, "not UTF-8")
    want(s.ask("POST", TEXT, '{"prompt": ' + "[" * 100000), 400, "the body is")
    want(s.ask("GET", TEXT), 405, "takes POST")
    want(s.ask("POST", "/v1/models", {}), 405, "takes GET")
    want(s.ask("POST", "/v1/embeddings", {"input": "a"}), 404, "gives no vectors")
    want(s.ask("GET", "/nosuch"), 404, "there is no '/nosuch'")

    # beside each other each has what it has alone, and more than may wait are told so
    asks = [{"prompt": "ab"[i % 2] * (i + 1), "max_tokens": 50, "temperature": 1, "seed": i, "logit_bias": {"2": -100}} for i in range(4)]
    alone = [s.ask("POST", TEXT, a) for a in asks]
    got = [None] * 12

    def run(i):
        got[i] = s.ask("POST", TEXT, asks[i % 4])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(12)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for i, g in enumerate(got):
        assert g[0] == 429 or g[1]["choices"] == alone[i % 4][1]["choices"], g
    assert any(g[0] == 200 for g in got)
    # the end in order
    assert s.health() | {"pages": 0} == {"status": "ok", "active": 0, "waiting": 0, "pages_used": 0, "pages": 0}
    assert s.stop() == 0

with Server(program, path) as s:
    assert s.stop(signal.SIGINT) == 0
print("ok")
