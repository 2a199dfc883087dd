/* Laws of Tile IR text over kernels that the builder makes: what is printed reads back as an
 * equal kernel and prints the same again. Kernels as a lowering writes them, random ones over
 * all rows, legal or not, with hard names, numbers and types; damaged ones, which the check
 * must refuse; memory that runs out at the n-th allocation.
 * Usage: tile_text_test [rounds [seed]]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/tile.h"
#include "tests/ir/failing.h"

static int failed;

#define CHECK(x)                                                                               \
  ((x) ? (void)0 : (void)(failed++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

/* ---- the laws */
typedef void PrintFn(const TsTile *, TsText *);

static void law(const TsTile *k, PrintFn *print) {
  TsText once = {0}, again = {0}, why = {0};
  TsError err = {0};
  print(k, &once);
  TsTile *h = ts_tile_parse(once.at, &err);
  if (!h) {
    failed++;
    printf("does not read back: %s\n%s\n", err.message, once.at);
  } else {
    if (!ts_tile_equal(k, h, &why)) failed++, printf("differs: %s\n%s\n", why.at, once.at);
    print(h, &again);
    if (strcmp(once.at, again.at))
      failed++, printf("once:\n%s\nagain:\n%s\n", once.at, again.at);
  }
  ts_tile_free(h);
  ts_text_free(&once);
  ts_text_free(&again);
  ts_text_free(&why);
}

static void laws(const TsTile *k) {
  CHECK(!k->failed);
  law(k, ts_tile_text);
  law(k, ts_tile_text_places);
}

static void legal(const TsTile *k) {
  TsError err = {0};
  if (ts_tile_check(k, NULL, &err)) failed++, printf("illegal: %s\n", err.message);
  laws(k);
}

static void illegal(const TsTile *k, const char *message) {
  TsError err = {0};
  if (!ts_tile_check(k, NULL, &err))
    failed++, printf("legal: %s\n", message);
  else if (!strstr(err.message, message))
    failed++, printf("%s: %s\n", message, err.message);
}

/* ---- a kernel as a lowering writes it: rows scaled by the root of their mean square */
static TsTile *norm(void) {
  TsTile *k = ts_tile_new("norm");
  if (!k) return NULL;
  TsTileBuild b = ts_tile_build(k);
  int64_t shape[2] = {ts_tile_size(k, "M"), 64}, tile[1] = {64};
  TsTileType matrix = ts_tile_type(TS_DT_f32, 2, shape), row = ts_tile_type(TS_DT_f32, 1, tile);
  TsTileType scalar = ts_tile_scalar(TS_DT_f32), index = ts_tile_scalar(TS_DT_i64);
  TsTileVal x = ts_tile_param(k, "x", &matrix, false), y = ts_tile_param(k, "y", &matrix, true);
  TsTileVal m =
      ts_tile_emit1(&b, TS_TILE_dim, 0, NULL, (TsAttr[]){{.type = TS_ATTR_int}}, &index);
  b.line = ts_tile_place(k, "model.lua:12");
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), m, 1, true, 0, NULL);
  TsTileVal zero = ts_tile_index(&b, 0), at[2] = {l.i, zero};
  TsTileVal v = ts_tile_load(&b, x, at, &row, NULL);
  TsTileVal s = ts_tile_op2(&b, TS_OP_mul, v, v);
  s = ts_tile_emit1(&b, TS_TILE_sum, 1, &s, (TsAttr[]){{.type = TS_ATTR_int}}, &scalar);
  s = ts_tile_op2(&b, TS_OP_mul, s, ts_tile_const(&b, 1.0 / 64, &scalar));
  b.line = ts_tile_place(k, "model.lua:13");
  if (s) s->name = "mean";
  s = ts_tile_op1(&b, TS_OP_rsqrt, s);
  if (s) s->name = "mean"; /* again: the text tells them apart */
  s = ts_tile_broadcast(&b, s, &row, NULL);
  ts_tile_store(&b, y, at, ts_tile_op2(&b, TS_OP_mul, v, s), &(TsTileAccess){.edge = true});
  /* Fresh constants stand in place, out of order ones do not. */
  TsTileVal two = ts_tile_index(&b, 0), one = ts_tile_index(&b, 0);
  ts_tile_store(&b, y, (TsTileVal[]){one, two}, v,
                &(TsTileAccess){.naxis = 1, .axes = (int64_t[]){1}});
  TsTileVal out[2], carry[2] = {v, ts_tile_index(&b, 3)};
  TsTileLoop inner =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_tile_index(&b, 8), 2, false, 2, carry);
  if (inner.carry) {
    TsTileVal next[2] = {ts_tile_op2(&b, TS_OP_add, inner.carry[0], v),
                         ts_tile_op2(&b, TS_OP_add, inner.carry[1], inner.i)};
    ts_tile_for_end(&b, &inner, next, out);
    ts_tile_store(&b, y, at, out[0], NULL);
  }
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* ---- random kernels */
static uint64_t state = 1;

static int below(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

static double some_number(void) {
  static const double list[] = {0,      -0.0, 1,     -1,  2,        0.5,     1e-5,   1e15, 1e16,
                                5e-324, 0.1,  1e300, NAN, INFINITY, 1.0 / 3, 0x1p53, -NAN, 12};
  union {
    uint64_t bits;
    double f;
  } any = {.bits = (uint64_t)below(1 << 30) << 34 ^ (uint64_t)below(1 << 30) << 9};
  int n = (int)(sizeof list / sizeof *list), i = below(n + 4);
  return i < n ? list[i] : any.f;
}

/* Small, large, and such as pack a symbolic size of Graph IR. */
static int64_t some_int(void) {
  static const int64_t list[] = {INT64_MAX,
                                 INT64_MIN,
                                 INT64_MIN + 1,
                                 -1,
                                 1 << 30,
                                 (int64_t)0x8000080000000000u,
                                 (int64_t)0x80000ffffffffff0u};
  int n = (int)(sizeof list / sizeof *list), i = below(4 * n);
  return i < n ? list[i] : below(6);
}

static const char *some_name(void) {
  static const char *const list[] = {"x",   "y",   "x",     "acc",  "a.b",   "x.1",    "3",
                                     "",    "é",   "a.",    "a..b", "_",     "%x",     ".",
                                     "inf", "a b", "x.1.1", "for",  "yield", "strides"};
  int n = (int)(sizeof list / sizeof *list), i = below(n + 30);
  return i < n ? list[i] : NULL;
}

static TsTileType some_type(const TsTile *k, bool memory) {
  TsTileType t = {.dtype = (uint8_t)below(TS_DT_COUNT), .rank = (uint8_t)below(4)};
  if (!below(20)) t.rank = TS_TILE_RANK;
  if (below(2)) t.dtype = TS_DT_f32;
  for (int i = 0; i < t.rank; i++)
    t.dim[i] = k->ndim && !below(5) ? ts_tile_dim(below(k->ndim)) : 1 << below(6);
  t.space = (uint8_t)(memory ? TS_SPACE_scratch + below(4) : below(8) ? 0 : 1);
  if (memory && !below(3)) t.swizzle = (uint16_t)(32 << below(3));
  if (memory && !below(3)) t.count = (uint16_t)(1 + below(4));
  if (memory && !below(3)) t.split = (uint8_t)below(4);
  if ((t.strided = memory && !below(3)))
    for (int i = 0; i < t.rank; i++) t.stride[i] = some_int();
  return t;
}

static int64_t ints[4];

static TsAttr some_attr(const TsAttrSpec *s) {
  static const char *const words[] = {"load",         "",  "two words", "a:1",
                                      "a\"\\\n\x01é", "1", "a:"};
  char word[64];
  TsAttr a = s->preset;
  if (below(2) && (s->optional || s->has_default)) return a;
  a = (TsAttr){.type = s->type};
  switch (s->type) {
  case TS_ATTR_int: a.i = some_int(); break;
  case TS_ATTR_f: a.f = some_number(); break;
  case TS_ATTR_bool: a.i = below(2); break;
  case TS_ATTR_str: a.str = words[below(7)]; break;
  case TS_ATTR_choice:
    while (ts_attr_word(s, (int)a.i + 1, word) && below(2)) a.i++;
    break;
  default:
    a.n = below(4);
    for (int i = 0; i < a.n; i++) ints[i] = some_int();
    a.ints = ints;
  }
  return a;
}

/* What the lines around can see. */
typedef struct Scope {
  TsTileVal v[400];
  int n;
} Scope;

static void see(Scope *s, TsTileVal v) {
  v->name = some_name();
  if (s->n < 400) s->v[s->n++] = v;
}

static TsTileVal some_value(TsTileBuild *b, Scope *s, bool memory) {
  if (!memory && !below(3)) return ts_tile_index(b, below(100));
  for (int tries = 0; tries < 20; tries++) {
    TsTileVal v = s->v[below(s->n)];
    if (ts_tile_memory(&v->type) == memory) return v;
  }
  return s->v[0];
}

static unsigned char covered[TS_TILE_END];

static void some_lines(TsTileBuild *b, Scope *s, int n, int depth);

static void some_region(TsTileBuild *b, TsTileRegion *r, Scope *s, int depth, int nyield) {
  TsTileBuild inner = *b;
  TsTileVal v[4];
  int seen = s->n;
  inner.at = r;
  for (int i = 0; i < r->nparam; i++) see(s, r->param[i]);
  some_lines(&inner, s, below(5), depth + 1);
  for (int i = 0; i < nyield; i++) v[i] = some_value(&inner, s, false);
  if (nyield || !below(4)) ts_tile_emit(&inner, TS_TILE_yield, nyield, v, NULL, 0, NULL);
  s->n = seen;
}

static void some_control(TsTileBuild *b, Scope *s, int op, int depth, const TsAttr *attr) {
  TsTileVal in[5];
  TsTileType type[4], index = ts_tile_scalar(TS_DT_i64);
  int n = op == TS_TILE_role ? 0 : below(3), nin = op == TS_TILE_if;
  for (int i = 0; i < n; i++) type[i] = some_type(b->k, false);
  int first = op == TS_TILE_for ? 2 : 0;
  if (op == TS_TILE_for || op == TS_TILE_repeat)
    for (nin = 0; nin < n + first; nin++) in[nin] = some_value(b, s, false);
  else if (nin)
    in[0] = some_value(b, s, false);
  TsTileStmt *stmt = ts_tile_emit(b, op, nin, in, attr, n, type);
  if (op == TS_TILE_for) ts_tile_region_param(b->k, stmt->region[0], &index);
  for (int i = 0; i < n && (op == TS_TILE_for || op == TS_TILE_repeat); i++)
    ts_tile_region_param(b->k, stmt->region[0], &in[first + i]->type);
  for (int i = 0; i < stmt->nregion; i++) some_region(b, stmt->region[i], s, depth, n);
  for (int i = 0; i < n; i++) see(s, stmt->out[i]);
}

static int memories_of(int op) {
  switch (op) {
  case TS_TILE_load:
  case TS_TILE_store:
  case TS_TILE_store_below:
  case TS_TILE_gather:
  case TS_TILE_scatter:
  case TS_TILE_prefetch:
  case TS_TILE_expect:
  case TS_TILE_arrive:
  case TS_TILE_claim:
  case TS_TILE_until:
  case TS_TILE_signal:
  case TS_TILE_await: return 1;
  case TS_TILE_copy_async: return 2;
  case TS_TILE_copy_bulk: return 3;
  default: return 0;
  }
}

static void some_line(TsTileBuild *b, Scope *s, int depth) {
  int op = below(3) ? TS_OP_COUNT + below(TS_TILE_END - TS_OP_COUNT) : below(TS_OP_COUNT), n;
  if (op < TS_OP_COUNT && ts_op_info((TsOp)op)->cls != TS_CLASS_POINTWISE) return;
  bool more;
  int nin = ts_tile_op_operands(op, &more), nmemory = memories_of(op);
  TsAttr attr[TS_MAX_ATTR];
  TsTileVal in[24];
  TsTileType type[2] = {some_type(b->k, op == TS_TILE_alloc), some_type(b->k, false)};
  const TsAttrSpec *spec = ts_tile_op_attrs(op, &n);
  if (op == TS_TILE_yield || (depth == 4 && ts_tile_op_regions(op))) return;
  covered[op] = 1;
  b->line = below(3);
  for (int i = 0; i < n; i++) attr[i] = some_attr(&spec[i]); /* no row has two lists */
  if (ts_tile_op_regions(op)) {
    for (int i = 0; i < n; i++)
      if (attr[i].type == TS_ATTR_none) attr[i] = (TsAttr){.type = TS_ATTR_str, .str = "r"};
    some_control(b, s, op, depth, attr);
    return;
  }
  if (more) nin += below(4);
  for (int i = 0; i < nin; i++) in[i] = some_value(b, s, i < nmemory);
  TsTileStmt *stmt = ts_tile_emit(b, op, nin, in, attr, below(12) ? below(2) : 2, type);
  for (int i = 0; i < stmt->nout; i++) see(s, stmt->out[i]);
}

static void some_lines(TsTileBuild *b, Scope *s, int n, int depth) {
  for (int i = 0; i < n && s->n < 380; i++) some_line(b, s, depth);
}

static TsTile *random_kernel(void) {
  static const char *const words[] = {"cpu",       "avx512", "sm_90a", "a b",
                                      "swizzle:8", "x:",     ":",      "9"};
  TsTile *k = ts_tile_new(below(2) ? "k" : "a b");
  TsTileBuild b = ts_tile_build(k);
  Scope s = {.n = 0};
  k->target = words[below(8)];
  if (below(2)) k->order = words[below(8)];
  k->form = below(2) ? TS_FORM_explicit : TS_FORM_block;
  k->ntile = below(5);
  for (int i = 0; i < k->ntile; i++) k->tile[i] = 1 + below(100);
  k->stages = below(3);
  k->threads = 32 * below(3);
  k->cluster = below(3);
  for (int i = below(3); i-- > 0;) ts_tile_size(k, (const char *[]){"M", "N", "inf"}[i]);
  ts_tile_place(k, "model.lua:1");
  ts_tile_place(k, "a b/model.lua:22");
  for (int i = 0, nin = below(3), n = nin + 1 + below(3); i < n; i++) {
    TsTileType t = some_type(k, true);
    t.swizzle = t.count = t.split = 0;
    see(&s, ts_tile_param(k, NULL, &t, i >= nin));
  }
  some_lines(&b, &s, 4 + below(30), 0);
  return k;
}

static void random_kernels(int rounds) {
  for (int i = 0; i < rounds && !failed; i++) {
    TsError err = {0};
    TsTile *k = random_kernel();
    laws(k);
    ts_tile_check(k, NULL, &err); /* legal or not, it comes to an end */
    ts_tile_free(k);
  }
  for (int op = 0; op < TS_TILE_END && !failed; op++)
    if (op >= TS_OP_COUNT || ts_op_info((TsOp)op)->cls == TS_CLASS_POINTWISE)
      CHECK(covered[op] || op == TS_TILE_yield);
}

/* ---- kernels that a wrong pass leaves */
static TsTileStmt *inner_first(TsTile *k) {
  TsTileStmt *s = k->body->first;
  while (s->op != TS_TILE_for) s = s->next;
  return s->region[0]->first;
}

static void damaged(void) {
  static const char *const message[] = {
      "operand 1 is not defined before it",
      "operand 0 is not defined before it",
      "a value has the id of another",
      "a value has the id of another",
      "stands in another place",
      "a region does not end where it says",
      "a result belongs to another",
      "a region belongs to another statement",
      "size 0 has no name",
      "there is no operation",
      "operand 0 is not defined before it",
      "a parameter belongs to another region",
      "1 attributes, not 4",
      "axis 0 of f32[-5]",
      "is none of the kernel",
      "there is no such type",
      "a kernel without name",
  };
  TsTile *other = norm();
  for (int i = 0; i < (int)(sizeof message / sizeof *message); i++) {
    TsTile *k = norm();
    TsTileStmt *s = inner_first(k), *load = s->next;
    switch (i) {
    case 0: load->in[1] = load->out[0]; break;
    case 1: load->in[0] = other->param[0]; break;
    case 2: load->out[0]->id = 0; break;
    case 3: load->out[0]->id = k->nvalue; break;
    case 4: load->prev = NULL; break;
    case 5: k->body->last = k->body->first; break;
    case 6: load->out[0]->index = 1; break;
    case 7: s->in_region->outer = NULL; break;
    case 8: k->dim[0] = "M N"; break;
    case 9: load->op = TS_TILE_END; break;
    case 10: load->in[0] = NULL; break;
    case 11: s->in_region->param[0]->index = 3; break;
    case 12: load->nattr = 1; break;
    case 13: load->out[0]->type.dim[0] = -5; break;
    case 14: k->param[0]->type.space = TS_SPACE_shared; break;
    case 15: load->out[0]->type.dtype = TS_DT_COUNT; break;
    default: k->target = NULL;
    }
    illegal(k, message[i]);
    ts_tile_free(k);
  }
  ts_tile_free(other);
}

/* Deeper than the reader and the check allow. */
static void deep(void) {
  TsTile *k = ts_tile_new("deep");
  TsTileBuild b = ts_tile_build(k);
  TsTileType flag = ts_tile_scalar(TS_DT_bool);
  TsTileVal i = ts_tile_index(&b, 0), c = ts_tile_const(&b, 1, &flag);
  TsTileLoop l = ts_tile_for(&b, i, i, 1, true, 0, NULL);
  for (int n = 0; n < 40; n++)
    b.at = ts_tile_emit(&b, TS_TILE_if, 1, &c, NULL, 0, NULL)->region[0];
  illegal(k, "regions more than 32 deep");
  CHECK(l.stmt);
  ts_tile_free(k);
}

/* ---- memory that runs out: a failure says so, and nothing leaks */
static bool round_trip(const TsTile *k) {
  TsText t = {0}, why = {0};
  TsError err = {0};
  ts_tile_text_places(k, &t);
  TsTile *h = t.failed ? NULL : ts_tile_parse(t.at, &err);
  bool fine = h && ts_tile_equal(k, h, &why) && !ts_tile_check(h, NULL, &err);
  if (h && !fine && err.code) CHECK(err.code == TS_ERR_memory);
  if (!h && !t.failed) CHECK(err.code == TS_ERR_memory);
  ts_tile_free(h);
  ts_text_free(&t);
  ts_text_free(&why);
  return fine;
}

static void out_of_memory(void) {
  TsTile *k = norm();
  bool fine = false;
  for (long n = 0; !fine && n < 10000; n++) {
    until = n;
    fine = round_trip(k);
    until = -1;
  }
  CHECK(fine);
  ts_tile_free(k);
}

/* A kernel is whole, or has failed. */
static void failed_builds(void) {
  for (long n = 0; n < 60; n++) {
    until = n;
    TsTile *k = norm();
    until = -1;
    if (k && !k->failed) legal(k);
    ts_tile_free(k);
  }
}

static void target(void) {
  static const char text[] = "tile @f() target sm_90a {\n  for %r in 0..4 parallel {\n"
                             "    %a = alloc : f32[64,64] strides [72,1] @shared\n"
                             "    %b = alloc : i64[2] @barrier(count=1)\n  }\n}\n";
  TsError err = {0};
  TsTarget fits = {.name = "sm_90a", .shared_bytes = 4 * (63 * 72 + 64) + 16}, less = fits;
  TsTile *k = ts_tile_parse(text, &err);
  less.shared_bytes--;
  CHECK(k && !ts_tile_check(k, &fits, &err));
  CHECK(k && ts_tile_check(k, &less, &err));
  CHECK(strstr(err.message, "18416 bytes of shared memory, sm_90a has 18415 for a block"));
  ts_tile_free(k);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 2000;
  state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  TsTile *k = norm();
  legal(k);
  ts_tile_free(k);
  random_kernels(rounds);
  damaged();
  deep();
  out_of_memory();
  failed_builds();
  target();
  return failed != 0;
}
