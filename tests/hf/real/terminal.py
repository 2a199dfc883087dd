# A program in a terminal: terminal.py steps program arguments... Steps are a list in JSON, of what has to be seen and what is typed
# then. Prints what was seen, and the exit code.
import json, os, pty, select, sys, time

steps, program = json.loads(sys.argv[1]), sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execv(program[0], program)
out = b""


def see():
    global out
    if not select.select([fd], [], [], 0.2)[0]:
        return True
    try:
        piece = os.read(fd, 4096)
    except OSError:
        return False
    out += piece
    return bool(piece)


for mark, typed in steps:
    start, end = len(out), time.time() + 120
    while mark.encode() not in out[start:]:
        if not see() or time.time() > end:
            print(out.decode(errors="replace"))
            sys.exit("never seen: " + mark)
    os.write(fd, typed.encode())
while see():
    pass
print(out.decode(errors="replace"))
print("exit", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
