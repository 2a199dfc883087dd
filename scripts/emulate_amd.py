#!/usr/bin/env python3
"""Runs kernels for AMD's GPUs where there is none: what a simulated device kept of its launches
(TESSERA_SIM_OBJECTS, jit/device/sim_files.h) goes through tinygrad's emulator, and memory is compared
with what the interpreter of Tile IR left there, bit by bit; a NaN is a NaN.

    emulate_amd.py <checkout of tinygrad> <file or folder>..

The emulator decodes each instruction and takes what it does from the text of AMD's documents. It forces
the host to flush denormal numbers; kernels ask for them, so that is taken out. One line a family; 1: some
launch differs; 77: there is no emulator."""
import emulate_amd_units
import ctypes, importlib.util, mmap, multiprocessing, os, re, struct, sys, time
from types import SimpleNamespace

FLOATS = {"f64": (8, 0x7FF0 << 48, (1 << 63) - 1), "f32": (4, 0x7F800000, 0x7FFFFFFF), "f16": (2, 0x7C00, 0x7FFF),
          "bf16": (2, 0x7F80, 0x7FFF), "complex64": (4, 0x7F800000, 0x7FFFFFFF), "complex128": (8, 0x7FF0 << 48, (1 << 63) - 1)}
ARCH = {"gfx9": "cdna", "gfx10": None, "gfx11": "rdna3", "gfx12": "rdna4"}
GUARD, BESIDE = b"\x5c", 4096 # what is beside memory, and bytes of it
BY_HAND = ("S_GETPC_B64", "DS_BPERMUTE_B32", "S_MEMTIME", "S_MEMREALTIME", "S_SENDMSG_RTN_B64", "S_GETREG_B32")
EXEC = 126 # the first of the two registers that say which lanes are on


class Launch:
    def __init__(self, path):
        data = open(path, "rb").read()
        end = data.index(b"\n\n")
        self.phases, self.memory, self.scratch, self.dims, self.stages = [], [], [], [], 0
        for line in data[:end].decode().split("\n"):
            word, *rest = line.split(" ")
            if word == "target": self.target = rest[0]
            elif word == "object": size = int(rest[0])
            elif word == "phase": self.phases.append((rest[0], *map(int, rest[1:])))
            elif word == "memory": self.memory.append((*map(int, rest[:3]), rest[3]))
            elif word == "scratch": self.scratch.append(int(rest[0]))
            elif word == "dim": self.dims.append(int(rest[0]))
            elif word == "marks": self.stages = int(rest[0])
            else: raise ValueError(f"{path}: {line}")
        at = end + 2
        self.object, at = data[at:at + size], at + size
        bytes_of = [below + above for _, below, above, _ in self.memory]
        self.before, self.after = [], []
        for to in (self.before, self.after):
            for n in bytes_of:
                to.append(data[at:at + n])
                at += n
        if at != len(data): raise ValueError(f"{path}: {at} bytes are told of, {len(data)} are there")


class Object:
    """Segments at their addresses; kernels' descriptors by name."""
    def __init__(self, data):
        head = struct.unpack_from("<16sHHIQQQIHHHHHH", data)
        loads = [p for i in range(head[10])
                 if (p := struct.unpack_from("<IIQQQQQQ", data, head[5] + 56 * i))[0] == 1]
        self.size = max(p[3] + p[6] for p in loads)
        self.room = ctypes.create_string_buffer(self.size + 8192)
        self.base = (ctypes.addressof(self.room) + 4095) & ~4095
        for p in loads: ctypes.memmove(self.base + p[3], data[p[2]:p[2] + p[5]], p[5])
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, head[6] + 64 * i) for i in range(head[12])]
        self.symbol = {}
        for s in sections:
            if s[1] != 11: continue
            names = sections[s[6]]
            for i in range(1, s[5] // 24):
                name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, s[4] + 24 * i)
                at = names[4] + name
                self.symbol[data[at:data.index(b"\0", at)].decode()] = value

    def kernel(self, name):
        kd = self.base + self.symbol[name + ".kd"]
        group, private, _, _, entry = struct.unpack("<IIIIq", ctypes.string_at(kd, 24))
        rsrc2, = struct.unpack("<I", ctypes.string_at(kd + 52, 4))
        properties, = struct.unpack("<H", ctypes.string_at(kd + 56, 2))
        return kd + entry, group, private, rsrc2, properties


class Memory:
    """Each parameter's bytes; those that shared some share them here too, at distances as they were."""
    def __init__(self, launch):
        spans = sorted((at - below, at + above) for at, below, above, _ in launch.memory)
        self.rooms, self.of = [], {}
        joined = []
        for lo, hi in spans:
            if joined and lo < joined[-1][1]: joined[-1][1] = max(hi, joined[-1][1])
            else: joined.append([lo, hi])
        self.where = []
        for lo, hi in joined:
            room = ctypes.create_string_buffer(GUARD * (hi - lo + 3 * BESIDE), hi - lo + 3 * BESIDE)
            here = ((ctypes.addressof(room) + BESIDE + 511) & ~511) + lo % 512
            self.rooms.append(room)
            self.where.append((lo, hi, here))
        for (at, below, above, _), data in zip(launch.memory, launch.before):
            ctypes.memmove(self.at(at - below), data, len(data))

    def is_whole(self):
        """Whether nothing was written beside it."""
        for (lo, hi, here), room in zip(self.where, self.rooms):
            begin = here - ctypes.addressof(room)
            if room.raw[:begin].strip(GUARD) or room.raw[begin + hi - lo:].strip(GUARD): return False
        return True

    def at(self, address):
        for lo, hi, here in self.where:
            if lo <= address < hi or lo == hi == address: return here + address - lo
        raise ValueError("an address of no parameter")


class Marks:
    """Room for records of profile marks (jit/gpu/marks.h) of all warps of a phase, and what of a launch says where."""
    RECORD, TURN, TURNS = struct.Struct("<QQQQIIII"), struct.Struct("<II"), 64

    def __init__(self, threads, blocks):
        self.warps, self.blocks = (threads + 31) // 32, blocks
        self.records = self.warps * blocks
        self.lists = self.records * self.RECORD.size
        self.room = ctypes.create_string_buffer(self.lists + self.records * self.TURNS * self.TURN.size + 8)
        self.pointer = (ctypes.addressof(self.room) + 7) & ~7
        self.words = [self.lists, 1 | blocks << 32, 1 | blocks << 32, self.TURNS]

    def wrong(self, stages, bits):
        """Why the records are none that warps of so many stages can have left; or None."""
        for i in range(self.records):
            begun_at, ended_at, begun, ended, _, block, warp, n = self.RECORD.unpack(ctypes.string_at(self.pointer + i * self.RECORD.size, 48))
            if (block, warp) != divmod(i, self.warps): return f"record {i} is of warp {warp} of block {block}"
            if begun_at >= ended_at or n < 1: return f"record {i}: {n} turns from {begun_at} to {ended_at}"
            last, wrap = begun, (1 << bits) - 1
            for j in range(min(n, self.TURNS)):
                at, stage = self.TURN.unpack(ctypes.string_at(self.pointer + self.lists + (i * self.TURNS + j) * 8, 8))
                if stage >= stages or j == 0 and stage: return f"record {i}: turn {j} is to stage {stage} of {stages}"
                if not 0 < (at - last) & wrap < wrap // 2: return f"record {i}: turn {j} at {at} is not behind the one in front of it, at {last}"
                last = at
            if n <= self.TURNS and not 0 < (ended - last) & wrap < wrap // 2: return f"record {i}: it ends before its last turn"


def same(got, want, dtype):
    if got == want: return 0
    size, infinite, most = FLOATS.get(dtype, (1, None, None))
    bad = 0
    for i in range(0, len(want), size):
        x, y = (int.from_bytes(t[i:i + size], "little") for t in (got, want))
        if x != y and (infinite is None or x & most <= infinite or y & most <= infinite): bad += 1
    return bad


def run(emu, path):
    l = Launch(path)
    family = re.match("gfx[0-9]+(?=[0-9a-f]{2}$|-)", l.target) or re.match("gfx[0-9]+", l.target)
    arch = ARCH.get(family.group(0))
    if not arch: return None, f"no emulator of {l.target}"
    code, memory = Object(l.object), Memory(l)
    emu.target = l.target
    scratch = [ctypes.create_string_buffer(b"\xff" * (n + 512)) for n in l.scratch]
    pointers = [memory.at(m[0]) for m in l.memory]
    pointers += [(ctypes.addressof(s) + 255) & ~255 for s in scratch]
    for name, threads, blocks, shared in l.phases:
        marks = Marks(threads, blocks) if l.stages else None
        words = pointers + [marks.pointer] + l.dims + marks.words if marks else pointers + l.dims
        args = (ctypes.c_uint64 * (len(words) + 1))(*[w & (1 << 64) - 1 for w in words])
        entry, group, private, rsrc2, properties = code.kernel(name)
        # dynamic shared memory is the launch's; what lies in the descriptor comes first
        granules = (group + shared + 511) // 512
        rsrc2 = rsrc2 & ~(0x1FF << 15) | min(granules, 0x1FF) << 15
        user = [0, 0, 0, 0] if properties & 1 else []
        user += [ctypes.addressof(args) & 0xFFFFFFFF, ctypes.addressof(args) >> 32]
        code_end = code.base + code.size - entry
        emu.next_is_block = True
        if emu.run_asm(entry, code_end, blocks, 1, 1, threads, 1, 1, ctypes.addressof(args), rsrc2, private, arch, user):
            return False, f"{name} did not end"
        why = marks and marks.wrong(l.stages, 20 if arch == "rdna3" else 32)
        if why: return False, f"{name}: marks: {why}"
    if not memory.is_whole(): return False, "it writes beside its memory"
    for i, ((at, below, above, dtype), want) in enumerate(zip(l.memory, l.after)):
        bad = same(ctypes.string_at(memory.at(at - below), below + above), want, dtype)
        if bad: return False, f"parameter {i}: {bad} numbers of {dtype} differ"
    return True, ""


def complete(emu):
    """What the emulator does not do, or not as the documents say: the address of the next instruction, from which
    tables are found; clocks, and what says where a wave is; words from other lanes where some are off; the sign of a product of 24
    bits, high half; what scripts/emulate_amd_units.py has; and loads of a block's memory by lanes that are off, whose addresses are
    anything: room for all that there are."""
    for table in (emu.PCODE_CDNA, emu.PCODE_RDNA3, emu.PCODE_RDNA4):
        for op, text in table.items():
            if "MUL_HI_I32_I24" in op.name: table[op] = re.sub(r"64'I\((S[01][.]i24)\)", r"64'I(32'I(\1))", text)
    room = mmap.mmap(-1, 1 << 33, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000) # MAP_NORESERVE
    emu.room, emu.block_memory = room, ctypes.addressof(ctypes.c_char.from_buffer(room))
    buffer = emu.Buffer

    def new_buffer(device, size, dtype, **kw):
        if not kw and emu.next_is_block: # the first one of a launch that is not all of memory
            emu.next_is_block = False
            ctypes.memset(emu.block_memory, 0, size * 4)
            kw = {"options": emu.BufferSpec(external_ptr=emu.block_memory)}
        return buffer(device, size, dtype, **kw)
    emu.Buffer, emu.ticks = new_buffer, 1 << 32
    decode = emu._decode_at

    def by_hand(inst, name, pc, wave):
        next_pc = pc + inst.size()

        def step(registers):
            words = (ctypes.c_uint32 * emu.SGPR_COUNT).from_address(registers.value)
            words[emu.PC_LO_IDX], words[emu.PC_HI_IDX] = next_pc & 0xFFFFFFFF, next_pc >> 32
            return words

        def get_pc(scalar):
            words, to = step(scalar), inst.sdst.offset
            words[to], words[to + 1] = next_pc & 0xFFFFFFFF, next_pc >> 32

        def permute(scalar, vector):
            words = step(scalar)
            on = words[EXEC] | words[EXEC + 1] << 32
            lanes = (ctypes.c_uint32 * (256 * wave)).from_address(vector.value)
            to, at, data = ((r.offset - 256) * wave for r in (inst.vdst, inst.addr, inst.data0))
            by = inst.offset0 | inst.offset1 << 8
            old = lanes[data:data + wave]
            for i in range(wave):
                if not on >> i & 1: continue
                source = (lanes[at + i] + by) // 4 % wave
                lanes[to + i] = old[source] if on >> source & 1 else 0

        def clock(scalar): # whichever: each look is later
            words, to = step(scalar), (inst.sdata if name.startswith("S_MEM") else inst.sdst).offset
            emu.ticks += 7
            if name == "S_GETREG_B32": words[to] = hardware(inst.simm16, words)
            else: words[to], words[to + 1] = emu.ticks & 0xFFFFFFFF, emu.ticks >> 32

        def hardware(which, words):
            """A register of the wave's: counters of cycles; of others any bits are as good."""
            register, offset, bits = which & 63, which >> 6 & 31, (which >> 11 & 31) + 1
            value = emu.ticks & 0xFFFFFFFF if register == 29 else emu.ticks >> 32 if register == 30 else 0x5A5A5A5A
            return value >> offset & (1 << bits) - 1
        if name == "S_GETPC_B64": return get_pc, [0]
        return (permute, [0, 1]) if name == "DS_BPERMUTE_B32" else (clock, [0])

    def here(pc, arch):
        ours = emulate_amd_units.find(pc, emu, arch)
        if ours:
            def run(scalar, vector):
                words = (ctypes.c_uint32 * emu.SGPR_COUNT).from_address(scalar.value)
                words[emu.PC_LO_IDX], words[emu.PC_HI_IDX] = pc + 8 & 0xFFFFFFFF, pc + 8 >> 32
                ours(words, vector, emu._wave_size(arch))
            return (SimpleNamespace(arg=SimpleNamespace(globals=[0, 1])), SimpleNamespace(fxn=run)), None
        inst = emu.decode_inst(bytes((ctypes.c_char * 16).from_address(pc).raw), arch)
        name = inst.op.name.upper() if hasattr(inst, "op") else ""
        if name not in BY_HAND: return decode(pc, arch)
        run, takes = by_hand(inst, name, pc, emu._wave_size(arch))
        return (SimpleNamespace(arg=SimpleNamespace(globals=takes)), SimpleNamespace(fxn=run)), inst
    emu._decode_at = here


def work(emu, files, to):
    for path in files:
        begun = time.time()
        try: good, why = run(emu, path)
        except Exception as e: good, why = False, f"{type(e).__name__}: {e}"
        to.send((good, why, time.time() - begun))


def results(emu, files):
    """By a process that may end as a GPU's would, by an access to no memory; then another one goes on."""
    while files:
        here, there = multiprocessing.Pipe(False)
        worker = multiprocessing.get_context("fork").Process(target=work, args=(emu, files, there))
        worker.start()
        there.close()
        begun = time.time()
        while files:
            try: result = here.recv()
            except EOFError: result = False, "the process ended: memory that is not there", time.time() - begun
            yield (files.pop(0), *result)
            if "the process ended" in result[1]: break
        worker.join()


# Waves of a block have one memory for what their lanes spill, each over the other's; here each has its own.
SPILLS = (("Buffer('CPU', scratch_size * wave_size,", "Buffer('CPU', scratch_size * -(-total_threads // wave_size) * wave_size,"),
          ("scratch_buf._buf.va_addr if", "scratch_buf._buf.va_addr + wave_start * scratch_size if"))
# What the emulator takes as RDNA has it, though CDNA has not: halves of registers in the eighth bit of a register's number.
HALVES = ("if bits['s0'] == 16:  # src0 >= 384", "write_hi_half = bits['d'] == 16", "vsrc1_hi = bits['s0'] == 16 and",
          "if bits['s0'] == 16:\n      vsrc1_hi")


def load(root):
    """The emulator, which takes denormal f16 for zeros in products of CDNA, though CDNA 3 and 4 multiply them; and
    16-bit numbers of v128 and above for high halves of v0 and above, there too; and lets waves of a block spill
    to the same place."""
    spec = importlib.util.find_spec("test.mockgpu.amd.emu")
    text = spec.loader.get_source(spec.name)
    value = "(mant.cast(dtypes.float32) * UOp.const(2.0**-24, dtypes.float32)).bitcast(dtypes.uint32) | (sign << _c(31))"
    text = text.replace("return exp.eq(_c(0)).where(_c(0), f32_bits)", f"return exp.eq(_c(0)).where({value}, f32_bits)")
    for old in HALVES: text = text.replace(old, old.replace("bits[", "ctx.wave_size == 32 and bits[", 1))
    for old, new in SPILLS:
        if text.count(old) != 1: print(f"the emulator has no {old}: what waves spill may not stay")
        text = text.replace(old, new)
    emu = importlib.util.module_from_spec(spec)
    exec(compile(text, spec.origin, "exec"), emu.__dict__)
    return emu


def main():
    if len(sys.argv) < 3: sys.exit(__doc__)
    root = sys.argv[1]
    if not os.path.exists(os.path.join(root, "test/mockgpu/amd/emu.py")):
        print(f"skipped: no emulator in {root}")
        sys.exit(77)
    sys.path.insert(0, root)
    emu = load(root)
    emu._get_ftz_lib = lambda: (None, 0)
    complete(emu)
    files = []
    for path in sys.argv[2:]:
        if os.path.isdir(path): files += [os.path.join(path, f) for f in sorted(os.listdir(path)) if f.endswith(".launch")]
        else: files.append(path)
    family, wrong = {}, 0
    for path, good, why, seconds in results(emu, files):
        name = re.sub("-[0-9]+[.]launch$", "", os.path.basename(path))
        row = family.setdefault(name, [0, 0, 0, 0])
        row[0 if good else 2 if good is None else 1] += 1
        row[3] += seconds
        if good is not True: print(f"{os.path.basename(path)}: {why}", flush=True)
        wrong += good is False
    for name, (good, bad, left, seconds) in sorted(family.items()):
        print(f"{name}: {good} agree, {bad} differ, {left} left out, {seconds:.1f} s")
    print(f"{sum(sum(r[:3]) for r in family.values())} launches, {wrong} wrong")
    sys.exit(wrong > 0)


main()
