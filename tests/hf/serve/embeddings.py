# Vectors of texts behind HTTP: embeddings.py program model.
import base64, json, struct, subprocess, sys
from _server import Server

program, path = sys.argv[1:]
texts = ["hello", "abcdefgh", "x"]
lines = subprocess.run([program, "--embed", path, *texts], capture_output=True, text=True, check=True).stdout.splitlines()
known = [json.loads(x) for x in lines]
with Server(program, path, "--max-batch=2") as s:
    status, got = s.ask("POST", "/v1/embeddings", {"input": texts})
    assert status == 200 and [d["index"] for d in got["data"]] == [0, 1, 2], got
    assert got["usage"] == {"prompt_tokens": 14, "total_tokens": 14}, got["usage"]
    for a, b in zip(known, got["data"]):
        assert max(abs(x - y) for x, y in zip(a, b["embedding"])) < 1e-5
    packed = s.ask("POST", "/v1/embeddings", {"input": "hello", "encoding_format": "base64"})[1]["data"][0]["embedding"]
    raw = base64.b64decode(packed)
    assert max(abs(x - y) for x, y in zip(known[0], struct.unpack("<%df" % (len(raw) // 4), raw))) < 1e-5
    for wrong, word in (({"input": []}, "'input' must be"), ({"input": [1]}, "'input' must be"), ({}, "'input' is needed"),
                        ({"input": "a", "dimensions": 3}, "unknown field 'dimensions'"), ({"input": ""}, "no tokens"),
                        ({"input": "a", "encoding_format": "hex"}, "'encoding_format' must be one of")):
        status, got = s.ask("POST", "/v1/embeddings", wrong)
        assert status == 400 and word in got["error"]["message"], got
    status, got = s.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})
    assert status == 404 and "gives no text" in got["error"]["message"], got
    assert s.health()["status"] == "ok" and s.stop() == 0
print("ok")
