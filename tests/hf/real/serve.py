# The server by the package openai: serve.py program language-model encoder.
import asyncio, json, os, sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "serve"))
from _server import Server
import openai

program, language, encoder = sys.argv[1:]
ASK = [{"role": "user", "content": "What is the capital of France?"}]

with Server(program, language, "--name=smol", "--max-batch=4") as s:
    url = "http://127.0.0.1:%d/v1" % s.port
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    assert [m.id for m in client.models.list()] == ["smol"]
    whole = client.chat.completions.create(model="smol", messages=ASK, temperature=0)
    assert whole.choices[0].message.content == "The capital of France is Paris.", whole
    assert whole.choices[0].finish_reason == "stop" and whole.usage.completion_tokens == 8, whole
    pieces = list(client.chat.completions.create(model="smol", messages=ASK, temperature=0, stream=True, logprobs=True, top_logprobs=3,
                                                 stream_options={"include_usage": True}))
    assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == "The capital of France is Paris."
    assert pieces[-1].usage.total_tokens == whole.usage.total_tokens
    told = [e for p in pieces if p.choices and p.choices[0].logprobs for e in p.choices[0].logprobs.content]
    assert told[0].token == "The" and len(told[0].top_logprobs) == 3 and bytes(told[0].bytes) == b"The"
    text = client.completions.create(model="smol", prompt="The capital of France is", temperature=0, max_tokens=2)
    assert text.choices[0].text == " Paris." and text.choices[0].finish_reason == "length", text
    stop = client.completions.create(model="smol", prompt="The capital of France is", temperature=0, max_tokens=9, stop="Paris")
    assert stop.choices[0].text == " " and stop.choices[0].finish_reason == "stop", stop
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "people": {"type": "integer"}}, "required": ["city", "people"]}
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    held = client.chat.completions.create(model="smol", messages=ASK, temperature=0, max_tokens=80, response_format=form).choices[0]
    if held.finish_reason == "stop":
        v = json.loads(held.message.content)
        assert isinstance(v["city"], str) and isinstance(v["people"], int), v
    free = client.chat.completions.create(model="smol", messages=ASK, temperature=0, max_tokens=80, response_format={"type": "json_object"}).choices[0]
    assert free.message.content.startswith("{")
    drawn = [client.completions.create(model="smol", prompt="Once", seed=5, temperature=1, top_p=0.9, max_tokens=8).choices[0].text for _ in range(2)]
    assert drawn[0] == drawn[1], drawn
    for call, kind in ((dict(model="other"), openai.NotFoundError), (dict(temperature=-1), openai.BadRequestError), (dict(max_tokens=10**6), openai.BadRequestError),
                       (dict(extra_body={"nosuch": 1}), openai.BadRequestError)):
        try:
            client.chat.completions.create(**{"model": "smol", "messages": ASK, **call})
            raise SystemExit("no error: %s" % call)
        except kind as e:
            assert e.body["message"], e

    # several at once: each has what it has alone
    prompts = ["One, two,", "The sun is", "Water boils at", "A cat and a"]
    alone = [client.completions.create(model="smol", prompt=p, temperature=0, max_tokens=12).choices[0].text for p in prompts]

    async def together():
        many = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
        got = await asyncio.gather(*(many.completions.create(model="smol", prompt=p, temperature=0, max_tokens=12) for p in prompts * 2))
        return [g.choices[0].text for g in got]

    assert asyncio.run(together()) == alone * 2

    # a stream that is left
    for p in client.chat.completions.create(model="smol", messages=ASK, max_tokens=500, stream=True):
        break
    client.close()
    assert s.stop() == 0

with Server(program, encoder, "--name=mini") as s:
    client = openai.OpenAI(base_url="http://127.0.0.1:%d/v1" % s.port, api_key="none", max_retries=0)
    a, b, c = (d.embedding for d in client.embeddings.create(model="mini", input=["A man is eating food.", "A man eats something.", "The sky is blue today."]).data)
    like = lambda x, y: sum(i * j for i, j in zip(x, y))
    assert abs(like(a, a) - 1) < 1e-5 and like(a, b) > 0.7 > 0.3 > like(a, c)
    plain = client.embeddings.create(model="mini", input="A man is eating food.", encoding_format="float").data[0].embedding
    assert max(abs(x - y) for x, y in zip(a, plain)) < 1e-6
print("ok")
