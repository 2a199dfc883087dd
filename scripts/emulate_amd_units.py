"""Instructions that tinygrad's emulator of AMD's GPUs has not, or not right, over the registers of a wave, for
scripts/emulate_amd.py: matrix products of i8 and f64, of fp8 on RDNA 4, on RDNA those whose sums begin with a constant, v_mad_f32 of CDNA 2, whose encodings it
does not know, loads past registers whose lanes may be out of range, and CDNA 4's reads that turn. How numbers lie in lanes is what AMD's documents of the instruction sets say; a product is one fused
multiply-add after the other, on RDNA one chain of 16, which is added to the sum."""
import ctypes, ctypes.util, struct
from types import SimpleNamespace

MATH = ctypes.CDLL(ctypes.util.find_library("m"))
MATH.fma.restype, MATH.fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
MATH.fmaf.restype, MATH.fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3
LAST = 256 # registers of lanes begin here


def f32(bits): return struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0]
def bits32(x): return struct.unpack("<I", struct.pack("<f", x))[0]


def i8(b): return b - 256 if b & 128 else b


def e4m3(b):
    e, m, s = b >> 3 & 15, b & 7, -1.0 if b & 128 else 1.0
    if e == 15 and m == 7: return float("nan")
    return s * (m * 2.0 ** -9 if e == 0 else (8 + m) * 2.0 ** (e - 10))


def e5m2(b): return struct.unpack("<e", bytes((0, b)))[0]


class Wave:
    """Words of registers: `vector` by register and lane, `scalar` by register."""
    def __init__(self, scalar, vector, wave):
        self.wave, self.scalar = wave, scalar
        self.lanes = (ctypes.c_uint32 * (256 * wave)).from_address(vector.value)

    def word(self, operand, lane, behind=0):
        if operand >= LAST: return self.lanes[(operand - LAST + behind) * self.wave + lane]
        if operand < 128: return self.scalar[operand]
        if 128 <= operand <= 192: return operand - 128
        if 193 <= operand <= 208: return 192 - operand & 0xFFFFFFFF
        return bits32({240: .5, 241: -.5, 242: 1., 243: -1., 244: 2., 245: -2., 246: 4., 247: -4.}[operand])

    def put(self, register, lane, word): self.lanes[register * self.wave + lane] = word & 0xFFFFFFFF


def fields(w0, w1):
    return SimpleNamespace(to=w0 & 255, a=w1 & 511, b=w1 >> 9 & 511, c=w1 >> 18 & 511, neg=w1 >> 29 & 7, abs=w0 >> 8 & 7)


def bytes_of(w, operand, lane, n):
    words = [w.word(operand, lane, i) for i in range(n // 4)]
    return [x >> 8 * i & 255 for x in words for i in range(4)]


def mfma_bytes(k):
    """Sums in i32: lane l has k / 4 steps of row l mod 16 from its group of 16 lanes on."""
    def run(w, f):
        each = k // 4
        a, b = ([[i8(x) for g in range(4) for x in bytes_of(w, o, g * 16 + row, each)] for row in range(16)] for o in (f.a, f.b))
        out = [[w.word(f.c, lane, i) for i in range(4)] for lane in range(64)]
        for lane in range(64):
            for i in range(4):
                row, col = lane // 16 * 4 + i, lane % 16
                w.put(f.to + i, lane, out[lane][i] + sum(x * y for x, y in zip(a[row], b[col])))
    return run


def mfma_double(w, f):
    """Four steps of k, one a group of lanes; sum i of a lane is in row 4 i + its group."""
    def number(o, lane, i=0):
        if o < LAST: return f32(w.word(o, lane))
        return struct.unpack("<d", struct.pack("<II", w.word(o, lane, 2 * i), w.word(o, lane, 2 * i + 1)))[0]
    a, b = ([[number(o, g * 16 + row) for g in range(4)] for row in range(16)] for o in (f.a, f.b))
    out = [[number(f.c, lane, i) for i in range(4)] for lane in range(64)]
    for lane in range(64):
        for i in range(4):
            x = out[lane][i]
            for p, q in zip(a[i * 4 + lane // 16], b[lane % 16]): x = MATH.fma(p, q, x)
            low, high = struct.unpack("<II", struct.pack("<d", x))
            w.put(f.to + 2 * i, lane, low), w.put(f.to + 2 * i + 1, lane, high)


def wmma_bytes(to_a, to_b):
    """RDNA 4: bits 0 and 1 of k and bit 3 number a lane's bytes, bit 2 its group of lanes."""
    def run(w, f):
        a, b = ([[number(bytes_of(w, o, row + 16 * (k >> 2 & 1), 8)[k & 3 | k >> 1 & 4]) for k in range(16)] for row in range(16)]
                for o, number in ((f.a, to_a), (f.b, to_b)))
        out = [[f32(w.word(f.c, lane, i)) for i in range(8)] for lane in range(32)]
        for lane in range(32):
            for i in range(8):
                x = 0.0
                for p, q in zip(a[lane // 16 * 8 + i], b[lane % 16]): x = MATH.fmaf(p, q, x)
                w.put(f.to + i, lane, bits32(ctypes.c_float(x + out[lane][i]).value))
    return run


def f16(h): return struct.unpack("<e", struct.pack("<H", h))[0]
def bf16(h): return f32(h << 16)


def wmma_halves(number, new):
    """Whose sum begins with a constant. RDNA 4: as bytes; RDNA 3: a lane has a whole row, and sums of every other one."""
    def run(w, f):
        def of(o, row, k):
            lane, at = (row + 16 * (k >> 2 & 1), k & 3 | k >> 1 & 4) if new else (row, k)
            return number(w.word(o, lane, at // 2) >> at % 2 * 16 & 0xFFFF)
        a, b = ([[of(o, row, k) for k in range(16)] for row in range(16)] for o in (f.a, f.b))
        begin = f32(w.word(f.c, 0))
        for lane in range(32):
            for i in range(8):
                x = 0.0
                for p, q in zip(a[lane // 16 * 8 + i if new else 2 * i + lane // 16], b[lane % 16]): x = MATH.fmaf(p, q, x)
                w.put(f.to + i, lane, bits32(ctypes.c_float(x + begin).value))
    return run


def mad(w, f):
    """A product and a sum, each rounded; both are exact enough in double precision to be rounded once."""
    def number(i, o, lane):
        x = f32(w.word(o, lane))
        x = abs(x) if f.abs >> i & 1 else x
        return -x if f.neg >> i & 1 else x
    on = w.scalar[126] | w.scalar[127] << 32
    for lane in range(w.wave):
        if not on >> lane & 1: continue
        a, b, c = (number(i, o, lane) for i, o in enumerate((f.a, f.b, f.c)))
        w.put(f.to, lane, bits32(ctypes.c_float(ctypes.c_float(a * b).value + c).value))


def load_past(w0, w1, emu):
    """Words of memory to the block's, one behind the other from where M0 says; zeros out of range."""
    words = {20: 1, 23: 4}.get(w0 >> 18 & 127)
    own, table, by, offset = w1 & 255, (w1 >> 16 & 31) * 4, w1 >> 24, w0 & 0xFFF
    if not words or not w0 >> 12 & 1 or w0 >> 13 & 1: return None

    def run(w):
        on = w.scalar[126] | w.scalar[127] << 32
        base = w.scalar[table] | (w.scalar[table + 1] & 0xFFFF) << 32
        more = w.scalar[by] if by < 128 else by - 128
        for lane in range(w.wave):
            if not on >> lane & 1: continue
            at = w.word(LAST + own, lane) + offset
            to = emu.block_memory + (w.scalar[124] & 0x3FFFF) + offset + lane * 4 * words
            if at >= w.scalar[table + 2]: ctypes.memset(to, 0, 4 * words)
            else: ctypes.memmove(to, base + more + at, 4 * words)
    return run


def read_turned(w0, w1, emu):
    """16 lanes read four numbers of 16 bits each, and lane l gets number l mod 4 of each fourth lane from l / 4 on."""
    at, to, offset = w1 & 255, w1 >> 24, w0 & 0xFFFF

    def run(w):
        read = [ctypes.string_at(emu.block_memory + w.word(LAST + at, lane) + offset, 8) for lane in range(w.wave)]
        for lane in range(w.wave):
            first, l = lane & ~15, lane & 15
            x = b"".join(read[first + 4 * k + l // 4][l % 4 * 2:l % 4 * 2 + 2] for k in range(4))
            for i in range(2): w.put(to + i, lane, int.from_bytes(x[4 * i:4 * i + 4], "little"))
    return run


CDNA = {0xD3EE: mfma_double, 0xD3D7: mfma_bytes(32), 0xD3B6: mfma_bytes(64)}
CDNA_2 = {0xD3EE: mfma_double, 0xD3D5: mfma_bytes(16), 0xD1C1: mad}
RDNA_4 = {0xCC46: wmma_bytes(e4m3, e4m3), 0xCC49: wmma_bytes(e5m2, e5m2)}
CONSTANT = {"rdna4": {0xCC41: wmma_halves(bf16, True), 0xCC40: wmma_halves(f16, True)},
            "rdna3": {0xCC41: wmma_halves(bf16, False), 0xCC40: wmma_halves(f16, False)}}
RENAMED = {0xD3E7: 0xD3E1} # of CDNA 2: products of bf16 that are there under another number


def find(pc, emu, arch):
    """What does the instruction at pc; None: the emulator has it."""
    w0, w1 = struct.unpack("<II", ctypes.string_at(pc, 8))
    target, own = emu.target, None
    if arch == "cdna" and w0 >> 26 == 0x38 and w0 >> 16 & 1: own = load_past(w0, w1, emu)
    if arch == "cdna" and w0 >> 17 == 0xD9C6 >> 1: own = read_turned(w0, w1, emu)
    if own: return lambda scalar, vector, wave: own(Wave(scalar, vector, wave))
    old = target in ("gfx90a", "gfx9-generic")
    if old and w0 >> 16 in RENAMED:
        ctypes.memmove(pc, struct.pack("<I", RENAMED[w0 >> 16] << 16 | w0 & 0xFFFF), 4)
        return None
    if w1 >> 18 & 511 < LAST and w0 >> 16 in CONSTANT.get(arch, {}): # the emulator takes registers for them
        run = CONSTANT[arch][w0 >> 16]
        return lambda scalar, vector, wave: run(Wave(scalar, vector, wave), fields(w0, w1))
    run = (RDNA_4 if arch == "rdna4" else CDNA_2 if old else CDNA if arch == "cdna" else {}).get(w0 >> 16)
    return run and (lambda scalar, vector, wave: run(Wave(scalar, vector, wave), fields(w0, w1)))
