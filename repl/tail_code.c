/* Tail calls that keep their line. Lua drops the frame of `return f(x)` before f runs, so an error
 * in f would be told at the line of whoever called the function around it, and in a main chunk at
 * none. For functions that never call back in tail position that saves nothing: operators, the
 * library, C functions. Chunks are therefore changed as they are loaded. In front of a tail call
 * there is a test: a callee in the table of those that are kept is called as any other, and its
 * results are returned; every other callee is called in tail position as before. So programs that
 * live by tail calls run in constant stack, and compiled code knows the callee, whose test costs it
 * nothing.
 *
 *     UGET   A+1 (tail)       the table, an upvalue that all functions of the chunk share
 *     ISF    A+1, JMP >1      nobody set it: a dump that was loaded by other means
 *     TGETV  A+1 A+1 A        A+1 is free until the call: the frame's link goes there
 *     IST    A+1, JMP >2
 *  1: CALLT  A n
 *     ..                      never run: what set A, which messages find the callee's name by
 *  2: CALL   A 0 n            for CALLMT the code of the arguments again, and CALLM
 *     RETM   A 0
 *
 * Where the last argument gives any number of values, their count is in a register that tests would
 * lose: there the test stands in front of the arguments, whose code is there twice.
 *
 * The dump of a chunk (lj_bcdump.h of LuaJIT says its form) is changed and loaded again. A chunk
 * without tail calls, without lines, or of a form that is not known stays as it is. *Rejected:*
 * tail calls as calls throughout (loops by tail calls overflow the stack), by names (a program may
 * have its own `sum`), looking for a call whose frame is gone (there is nothing left to look at),
 * and hooks (they stop the compiler). */
#include "repl/tail_code.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

/* ---- LuaJIT's instructions, by name: their numbers differ between versions */
enum { UGET, ISF, IST, MOV, JMP, TGETV, CALL, CALLM, CALLT, CALLMT, RETM, VARG, KNIL, NAMED };
static const char *const names[NAMED] = {"UGET",  "ISF",  "IST",   "MOV",   "JMP",
                                         "TGETV", "CALL", "CALLM", "CALLT", "CALLMT",
                                         "RETM",  "VARG", "KNIL"};
static const char *const jumps[] = {"JMP", "UCLO", "ISNEXT", "FORI", "FORL", "ITERL", "LOOP"};
/* Instructions whose first operand is a slot that they set. */
static const char *const sets[] = {
    "ISTC",  "ISFC",  "MOV",   "NOT",   "UNM",   "LEN",   "ADDVN",  "SUBVN",  "MULVN",
    "DIVVN", "MODVN", "ADDNV", "SUBNV", "MULNV", "DIVNV", "MODNV",  "ADDVV",  "SUBVV",
    "MULVV", "DIVVV", "MODVV", "POW",   "CAT",   "KSTR",  "KCDATA", "KSHORT", "KNUM",
    "KPRI",  "UGET",  "FNEW",  "TNEW",  "TDUP",  "GGET",  "TGETV",  "TGETS",  "TGETB"};

static struct {
  uint8_t op[NAMED];
  bool jumps[256], sets[256];
} code;

static int number_of(const char *all, const char *name) {
  char padded[7] = "      ";
  memcpy(padded, name, strlen(name));
  for (size_t i = 0; i + 6 <= strlen(all); i += 6)
    if (!memcmp(all + i, padded, 6)) return (int)(i / 6);
  return -1;
}

/* From jit.vmdef. */
bool ts_tail_learn(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "jit.vmdef");
  if (lua_pcall(L, 1, 1, 0)) return false;
  lua_getfield(L, -1, "bcnames");
  const char *all = lua_tostring(L, -1);
  for (int i = 0; all && i < NAMED; i++) {
    int n = number_of(all, names[i]);
    if (n < 0) return false;
    code.op[i] = (uint8_t)n;
  }
  for (size_t i = 0; all && i < sizeof jumps / sizeof *jumps; i++) {
    int n = number_of(all, jumps[i]);
    if (n < 0) return false;
    code.jumps[n] = true;
  }
  for (size_t i = 0; all && i < sizeof sets / sizeof *sets; i++) {
    int n = number_of(all, sets[i]);
    if (n >= 0) code.sets[n] = true;
  }
  return all != NULL;
}

/* ---- reading and writing bytes */
/* For n more bytes; NULL: no memory. */
static uint8_t *room(TsTailBytes *b, size_t n) {
  if (b->failed || b->n + n <= b->cap) return b->failed ? NULL : b->at + b->n;
  size_t cap = (b->n + n) * 2;
  uint8_t *at = realloc(b->at == b->few ? NULL : b->at, cap);
  if ((b->failed = !at)) return NULL;
  if (b->at == b->few) memcpy(at, b->few, b->n);
  b->at = at, b->cap = cap;
  return at + b->n;
}

void ts_tail_free(TsTailBytes *b) {
  if (b->at != b->few) free(b->at);
}

void ts_tail_put(TsTailBytes *b, const void *from, size_t n) {
  uint8_t *to = n ? room(b, n) : NULL;
  if (!to) return;
  memcpy(to, from, n);
  b->n += n;
}

static void put_number(TsTailBytes *b, uint32_t v) {
  uint8_t *to = room(b, 5);
  for (; to && v >= 0x80; v >>= 7) *to++ = (uint8_t)(v | 0x80);
  if (to) *to++ = (uint8_t)v, b->n = (size_t)(to - b->at);
}

static uint32_t length_of(uint32_t number) {
  uint32_t n = 1;
  for (; number >= 0x80; number >>= 7) n++;
  return n;
}

typedef struct Reader {
  const uint8_t *at, *end;
  bool failed;
} Reader;

static const uint8_t *take(Reader *r, size_t n) {
  const uint8_t *at = r->at;
  if (r->failed || (size_t)(r->end - at) < n) {
    r->failed = true;
    return NULL;
  }
  r->at += n;
  return at;
}

static uint32_t byte(Reader *r) {
  const uint8_t *p = take(r, 1);
  return p ? *p : 0;
}

static uint32_t number(Reader *r) {
  uint32_t v = 0;
  for (int shift = 0; shift < 35 && !r->failed; shift += 7) {
    uint32_t b = byte(r);
    v |= shift < 32 ? (b & 0x7f) << shift : 0;
    if (b < 0x80) return v;
  }
  r->failed = true;
  return 0;
}

/* ---- a function of the dump */
typedef struct Proto {
  int parent; /* -1: the chunk itself */
  uint8_t head[3];
  uint32_t nuv, nkgc, nkn, nbc, ndebug, first, lines;
  const uint8_t *whole, *bc, *uv, *constant, *debug;
  size_t nwhole, nconstant;
  uint32_t ncall;     /* tail calls */
  bool calls, shares; /* has some, or a function in it has; has the upvalue */
} Proto;

typedef struct Dump {
  Proto few[16], *p;
  int n, cap;
  const uint8_t *head;
  size_t nhead;
} Dump;

enum {
  MOST_UPVALUES = 60,
  FR2 = 8,
  STRIPPED = 2,
  BIG_ENDIAN_DUMP = 1,
  K_CHILD = 0,
  K_TABLE = 1,
  K_COMPLEX = 4,
  K_TEXT = 5
};

static void skip_numbers(Reader *r, int n) {
  while (n-- > 0) number(r);
}

/* A value in a constant table. */
static void skip_value(Reader *r) {
  uint32_t type = number(r);
  if (type >= 5)
    take(r, type - 5);
  else if (type >= 3)
    skip_numbers(r, type == 4 ? 2 : 1);
}

static void read_constants(Dump *d, Proto *p, Reader *r, int *open, int *nopen) {
  p->constant = r->at;
  for (uint32_t i = 0; i < p->nkgc && !r->failed; i++) {
    uint32_t type = number(r);
    if (type >= K_TEXT) {
      take(r, type - K_TEXT);
    } else if (type == K_CHILD) {
      if (*nopen == 0)
        r->failed = true;
      else
        d->p[open[--*nopen]].parent = (int)(p - d->p);
    } else if (type == K_TABLE) {
      uint32_t array = number(r), hash = number(r);
      for (uint32_t k = 0; k < array && !r->failed; k++) skip_value(r);
      for (uint32_t k = 0; k < 2 * hash && !r->failed; k++) skip_value(r);
    } else {
      skip_numbers(r, type == K_COMPLEX ? 4 : 2);
    }
  }
  for (uint32_t i = 0; i < p->nkn && !r->failed; i++) {
    bool wide = r->at < r->end && (*r->at & 1);
    skip_numbers(r, wide ? 2 : 1);
  }
  p->nconstant = (size_t)(r->at - p->constant);
}

static uint8_t op_at(const Proto *p, uint32_t i) { return p->bc[4 * i]; }
static uint8_t a_at(const Proto *p, uint32_t i) { return p->bc[4 * i + 1]; }
static uint32_t d_at(const Proto *p, uint32_t i) {
  return p->bc[4 * i + 2] | (uint32_t)p->bc[4 * i + 3] << 8;
}

static bool is_tail_call(const Proto *p, uint32_t i) {
  return op_at(p, i) == code.op[CALLT] || op_at(p, i) == code.op[CALLMT];
}

static bool read_proto(Dump *d, Reader *all, int *open, int *nopen) {
  uint32_t size = number(all);
  const uint8_t *at = take(all, size);
  if (!at || d->n == d->cap) return false;
  Reader r = {at, at + size, false};
  Proto *p = &d->p[d->n];
  *p = (Proto){.parent = -1, .whole = at, .nwhole = size};
  const uint8_t *head = take(&r, 3);
  if (!head) return false;
  memcpy(p->head, head, 3);
  p->nuv = byte(&r);
  p->nkgc = number(&r), p->nkn = number(&r), p->nbc = number(&r), p->ndebug = number(&r);
  if (p->ndebug) p->first = number(&r), p->lines = number(&r);
  p->bc = take(&r, 4 * (size_t)p->nbc);
  p->uv = take(&r, 2 * (size_t)p->nuv);
  read_constants(d, p, &r, open, nopen);
  p->debug = take(&r, p->ndebug);
  if (r.failed || r.at != r.end) return false;
  for (uint32_t i = 0; i < p->nbc && p->ndebug; i++) p->ncall += is_tail_call(p, i);
  p->calls = p->ncall > 0;
  open[(*nopen)++] = d->n++;
  return true;
}

/* Functions stand in front of those that they are in; the chunk is the last. */
static bool read_dump(Dump *d, const uint8_t *at, size_t n) {
  Reader r = {at, at + n, false};
  const uint8_t *head = take(&r, 4);
  if (!head || memcmp(head, "\033LJ\2", 4)) return false;
  uint32_t flags = number(&r);
  if ((flags & (BIG_ENDIAN_DUMP | STRIPPED)) || !(flags & FR2)) return false;
  take(&r, number(&r));
  d->head = at, d->nhead = (size_t)(r.at - at);
  enum { FEW = sizeof d->few / sizeof *d->few };
  int few[FEW], *open = few, nopen = 0;
  d->cap = 1 + (int)(n / 16); /* no function is shorter */
  d->p = d->few;
  if (d->cap > FEW) {
    d->p = malloc(sizeof *d->p * (size_t)d->cap);
    open = malloc(sizeof *open * (size_t)d->cap);
  }
  bool fine = d->p && open && !r.failed;
  while (fine && r.at < r.end && *r.at) fine = read_proto(d, &r, open, &nopen);
  fine = fine && nopen == 1 && r.at + 1 == r.end;
  if (open != few) free(open);
  return fine;
}

/* ---- changing it */
/* One function after the other: what was made of the last one is written over. */
typedef struct Change {
  const Proto *p;
  TsTailBytes bc, line, names;
  TsTailBytes room; /* of `to` */
  uint32_t *to;     /* where instructions are now; those put in front of one belong to it */
  size_t width;     /* bytes of a line number */
} Change;

/* There is room. */
static void emit(Change *c, uint32_t line_of, uint8_t op, uint32_t a, uint32_t d) {
  uint8_t ins[4] = {op, (uint8_t)a, (uint8_t)d, (uint8_t)(d >> 8)};
  const uint8_t *from = c->p->debug + line_of * c->width;
  memcpy(c->bc.at + c->bc.n, ins, 4);
  for (size_t i = 0; i < c->width; i++) c->line.at[c->line.n + i] = from[i];
  c->bc.n += 4, c->line.n += c->width;
}

static void copy(Change *c, uint32_t i) {
  emit(c, i, op_at(c->p, i), a_at(c->p, i), d_at(c->p, i));
}

/* Behind which the callee of the tail call at i is in its slot, and its arguments follow: code of
 * arguments sets higher ones. 0 if it is not found. */
static uint32_t arguments_of(const Proto *p, uint32_t i) {
  uint32_t slot = a_at(p, i);
  for (uint32_t k = i; k-- > 0;) {
    uint8_t op = op_at(p, k), a = a_at(p, k);
    bool call = op == code.op[CALL] || op == code.op[CALLM];
    if (is_tail_call(p, k)) return 0;
    if ((code.sets[op] || call) && a == slot) return k + 1;
    if ((call || op == code.op[VARG] || op == code.op[KNIL]) && a < slot) return 0;
  }
  return 0;
}

enum { BIAS = 0x8000 };

/* A tail call: where the test stands, the call, and what set its callee, of which `nload`
 * instructions matter to messages. */
typedef struct Tail {
  uint32_t first, last, load, nload;
} Tail;

static bool find_tail(const Proto *p, uint32_t i, Tail *t) {
  bool many = op_at(p, i) == code.op[CALLMT];
  uint32_t start = arguments_of(p, i);
  *t = (Tail){many ? start : i, i, 0, 0};
  if ((many && !start) || a_at(p, i) + 1 + d_at(p, i) > 255) return false;
  if (!start) return true;
  bool method =
      start > 1 && op_at(p, start - 2) == code.op[MOV] && a_at(p, start - 2) == a_at(p, i) + 2;
  t->nload = 1 + method, t->load = start - t->nload;
  return true;
}

static void test(Change *c, const Tail *t) {
  uint32_t slot = a_at(c->p, t->last), usual = t->last - t->first + 1;
  bool many = op_at(c->p, t->last) ==
              code.op[CALLMT]; /* of the arguments only a method's object is there */
  uint32_t above =
      slot + (many ? 3 : 1 + d_at(c->p, t->last)); /* jumps tell the compiler what is dead */
  emit(c, t->last, code.op[UGET], slot + 1, c->p->nuv);
  emit(c, t->last, code.op[ISF], 0, slot + 1);
  emit(c, t->last, code.op[JMP], above, BIAS + 3);
  emit(c, t->last, code.op[TGETV], slot + 1, slot | (slot + 1) << 8);
  emit(c, t->last, code.op[IST], 0, slot + 1);
  emit(c, t->last, code.op[JMP], above, BIAS + usual + t->nload);
}

static void keep_frame(Change *c, const Tail *t) {
  const Proto *p = c->p;
  uint32_t slot = a_at(p, t->last);
  bool many = op_at(p, t->last) == code.op[CALLMT];
  for (uint32_t i = 0; i < t->nload; i++) copy(c, t->load + i);
  for (uint32_t i = t->first; i < t->last; i++) copy(c, i);
  uint32_t line_of = t->nload ? t->load + t->nload - 1 : t->last; /* as of calls elsewhere */
  emit(c, line_of, code.op[many ? CALLM : CALL], slot, d_at(p, t->last) & 0xff);
  emit(c, t->last, code.op[RETM], slot, 0);
}

static bool move_jumps(Change *c) {
  const Proto *p = c->p;
  for (uint32_t i = 0; i < p->nbc; i++) {
    if (!code.jumps[op_at(p, i)]) continue;
    int64_t target = (int64_t)i + 1 + d_at(p, i) - BIAS;
    if (target < 0 || target > p->nbc) return false;
    uint32_t at = c->to[i + 1] - 1; /* the last of those that belong to it */
    int64_t d = (int64_t)c->to[target] - (at + 1) + BIAS;
    if (d < 0 || d > 0xffff) return false;
    c->bc.at[4 * at + 2] = (uint8_t)d, c->bc.at[4 * at + 3] = (uint8_t)(d >> 8);
  }
  return true;
}

/* Names of upvalues with one more, and where locals live; places count from 1. */
static bool move_names(const Change *c, TsTailBytes *out) {
  const Proto *p = c->p;
  Reader r = {p->debug + (size_t)p->nbc * (size_t)c->width, p->debug + p->ndebug, false};
  const uint8_t *from = r.at;
  for (uint32_t i = 0; i < p->nuv; i++)
    while (byte(&r)) continue;
  ts_tail_put(out, from, (size_t)(r.at - from));
  ts_tail_put(out, "(tail)", 7);
  uint32_t was = 0, is = 0;
  for (;;) {
    from = r.at;
    uint32_t kind = byte(&r);
    if (kind >= 7)
      while (byte(&r)) continue;
    ts_tail_put(out, from, (size_t)(r.at - from));
    if (r.failed || kind == 0) break;
    uint32_t start = was + number(&r), end = start + number(&r);
    if (end > p->nbc + 1) return false;
    was = start;
    uint32_t to = start ? c->to[start - 1] + 1 : 0, until = end ? c->to[end - 1] + 1 : 0;
    put_number(out, to - is);
    put_number(out, until - to);
    is = to;
  }
  return !r.failed && r.at == r.end;
}

/* Besides what was there a tail call has a test and an end of ten instructions, and what gave its
 * callee and its arguments once more: together no more than the code. */
static bool begin_code(Change *c, const Proto *p) {
  size_t most = 2 * (size_t)p->nbc + 10 * (size_t)p->ncall;
  c->p = p;
  c->width = p->lines < 256 ? 1 : p->lines < 65536 ? 2 : 4;
  c->bc.n = c->line.n = c->names.n = 0;
  c->to = (void *)room(&c->room, sizeof *c->to * ((size_t)p->nbc + 1));
  return p->nbc * c->width <= p->ndebug && c->to && room(&c->bc, 4 * most) &&
         room(&c->line, c->width * most);
}

static bool change_code(Change *c) {
  const Proto *p = c->p;
  Tail next = {.last = 0};
  bool found = false, sought = false;
  for (uint32_t i = 0; i < p->nbc; i++) {
    c->to[i] = (uint32_t)(c->bc.n / 4);
    if (!sought) { /* the next tail call */
      uint32_t k = i;
      while (k < p->nbc && !is_tail_call(p, k)) k++;
      found = k < p->nbc && find_tail(p, k, &next);
      if (!found) next.last = k;
      sought = true;
    }
    if (found && i == next.first) test(c, &next);
    copy(c, i);
    if (found && i == next.last) keep_frame(c, &next);
    if (i == next.last) sought = false;
  }
  c->to[p->nbc] = (uint32_t)(c->bc.n / 4);
  return move_jumps(c);
}

static bool write_changed(const Dump *d, const Proto *p, Change *c, TsTailBytes *out) {
  if (!begin_code(c, p) || !change_code(c) || !move_names(c, &c->names)) return false;
  /* never assigned; the outer one */
  uint32_t uv = p->parent < 0 ? 0x4000 : d->p[p->parent].nuv;
  uint32_t nbc = (uint32_t)(c->bc.n / 4), ndebug = (uint32_t)(c->line.n + c->names.n);
  uint32_t numbers[] = {p->nkgc, p->nkn, nbc, ndebug, p->first, p->lines};
  enum { N = sizeof numbers / sizeof *numbers };
  size_t size = 4 + c->bc.n + 2 * ((size_t)p->nuv + 1) + p->nconstant + ndebug;
  for (int i = 0; i < N; i++) size += length_of(numbers[i]);
  put_number(out, (uint32_t)size);
  ts_tail_put(out, p->head, 3);
  ts_tail_put(out, &(uint8_t){(uint8_t)(p->nuv + 1)}, 1);
  for (int i = 0; i < N; i++) put_number(out, numbers[i]);
  ts_tail_put(out, c->bc.at, c->bc.n);
  ts_tail_put(out, p->uv, 2 * (size_t)p->nuv);
  ts_tail_put(out, (uint8_t[]){(uint8_t)uv, (uint8_t)(uv >> 8)}, 2);
  ts_tail_put(out, p->constant, p->nconstant);
  ts_tail_put(out, c->line.at, c->line.n);
  ts_tail_put(out, c->names.at, c->names.n);
  return !c->names.failed;
}

/* False if nothing is to be changed, or could be. */
static bool change_dump(Dump *d, TsTailBytes *out) {
  for (int i = 0; i < d->n; i++)
    if (d->p[i].calls && d->p[i].parent >= 0) d->p[d->p[i].parent].calls = true;
  if (!d->p[d->n - 1].calls || !room(out, 2 * (size_t)(d->p[d->n - 1].debug - d->head)))
    return false;
  ts_tail_put(out, d->head, d->nhead);
  for (int i = d->n; i-- > 0;) {
    Proto *p = &d->p[i];
    bool above = p->parent < 0 || d->p[p->parent].shares;
    p->shares = p->calls && above && p->nuv < MOST_UPVALUES && p->ndebug;
  }
  uint8_t bc[512], line[128], live[256];
  uint32_t to[128];
  Change c = {
      .bc = TS_TAIL_BYTES(bc), .line = TS_TAIL_BYTES(line), .names = TS_TAIL_BYTES(live)};
  c.room = (TsTailBytes){.at = (void *)to, .few = (void *)to, .cap = sizeof to};
  bool fine = d->p[d->n - 1].shares;
  for (int i = 0; i < d->n && fine; i++) {
    const Proto *p = &d->p[i];
    if (p->shares) {
      fine = write_changed(d, p, &c, out);
    } else {
      put_number(out, (uint32_t)p->nwhole);
      ts_tail_put(out, p->whole, p->nwhole);
    }
  }
  ts_tail_free(&c.room), ts_tail_free(&c.bc), ts_tail_free(&c.line), ts_tail_free(&c.names);
  ts_tail_put(out, "", 1);
  return fine && !out->failed;
}

bool ts_tail_rewrite(const TsTailBytes *dump, TsTailBytes *out) {
  Dump d;
  d.p = NULL, d.n = 0;
  bool done = read_dump(&d, dump->at, dump->n) && change_dump(&d, out);
  if (d.p != d.few) free(d.p);
  return done;
}
