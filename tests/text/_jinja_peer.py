"""Renders templates as transformers does: an immutable sandbox of Jinja with trim_blocks and lstrip_blocks, its tojson, loop
controls and generation blocks. `render(text, variables)` gives ("ok", text) or ("error", message)."""
import json
import signal
from datetime import datetime

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1766600000


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_whole"), [], [], body).set_lineno(line)

    def _whole(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(form):
    return datetime.fromtimestamp(NOW).strftime(form)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


ENV = environment()


class Late(Exception):
    pass


def late(*_):
    raise Late()


def render(text, variables):
    signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    try:
        all_ = {"tools": None, "documents": None, "add_generation_prompt": False}
        all_.update(variables)
        return "ok", ENV.from_string(text).render(**all_)
    except Late:
        return "late", ""
    except RecursionError as e:
        return "error", "RecursionError: %s" % e
    except Exception as e:
        return "error", "%s: %s" % (type(e).__name__, e)
    finally:
        signal.alarm(0)
