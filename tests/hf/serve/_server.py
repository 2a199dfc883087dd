# A server of the program for a test: Server(program, path, options..) in a with-block.
import http.client, json, signal, subprocess, sys


class Server:
    def __init__(self, program, path, *options):
        self.process = subprocess.Popen([program, "--serve", path, "--port=0", *options], stdout=subprocess.PIPE)
        self.line = self.process.stdout.readline().decode().strip()
        self.port = int(self.line.rsplit(":", 1)[1].split("/")[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(30)

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request(method, path, None if body is None else body if isinstance(body, (str, bytes)) else json.dumps(body))
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r.status, json.loads(text)

    def health(self):
        return self.ask("GET", "/health")[1]
