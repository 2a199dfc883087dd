/* The hash of a kernel: a walk that numbers values as it meets them. */
#include <string.h>

#include "ir/tile/sequence.h"
#include "jit/code/kernel.h"
#include "jit/code/sha256.h"

/* Numbers are of variable length, most of one byte; each says where it ends. */
enum { ROOM = 512, LONGEST = 10 };

typedef struct Walk {
  TsSha256 s;
  TsArena arena;
  uint32_t *number, next;
  uint16_t met[TS_TILE_END], rows; /* a row's name stands where it first occurs */
  uint8_t room[ROOM];
  int used;
  uint64_t viewed; /* parameters whose strides are no part of the code */
} Walk;

static void flush(Walk *w) {
  ts_sha256_add(&w->s, w->room, (size_t)w->used);
  w->used = 0;
}

static void word(Walk *w, int64_t v) {
  uint64_t u = (uint64_t)v << 1 ^ (uint64_t)(v >> 63); /* small ones of either sign are short */
  if (w->used > ROOM - LONGEST) flush(w);
  for (; u >= 128; u >>= 7) w->room[w->used++] = (uint8_t)(u | 128);
  w->room[w->used++] = (uint8_t)u;
}

static void bytes(Walk *w, const void *p, size_t n) {
  flush(w);
  ts_sha256_add(&w->s, p, n);
}

static void string(Walk *w, const char *s) {
  size_t n = s ? strlen(s) : 0;
  word(w, s ? (int64_t)n : -1);
  bytes(w, s, n);
}

/* Numbers of rows change with the table, so the kernel's own stand for their names. */
static void row(Walk *w, TsTileOp op) {
  bool first = !w->met[op];
  if (first) w->met[op] = ++w->rows;
  word(w, w->met[op]);
  if (!first) return;
  string(w, ts_tile_op_name(op));
  word(w, (int)op >= TS_OP_COUNT);
}

static void type(Walk *w, const TsTileType *t, bool viewed) {
  bool strided = t->strided && !viewed;
  word(w, t->dtype | t->rank << 8 | t->space << 16 | strided << 24);
  word(w, t->swizzle | (int64_t)t->count << 16 | (int64_t)t->split << 32);
  for (int i = 0; i < t->rank; i++) word(w, t->dim[i]);
  for (int i = 0; strided && i < t->rank; i++) word(w, t->stride[i]);
}

static void define(Walk *w, TsTileVal v, bool viewed) {
  if (w->number) w->number[v->id] = ++w->next;
  type(w, &v->type, viewed);
}

static void attribute(Walk *w, const TsAttr *a) {
  word(w, a->type);
  word(w, a->n);
  switch (a->type) {
  case TS_ATTR_none: break;
  case TS_ATTR_ints: bytes(w, a->ints, sizeof *a->ints * (size_t)a->n); break;
  case TS_ATTR_floats: bytes(w, a->floats, sizeof *a->floats * (size_t)a->n); break;
  case TS_ATTR_str: string(w, a->str); break;
  default: word(w, a->i); break; /* a number's bits too */
  }
}

static void region(Walk *w, const TsTileRegion *r) {
  word(w, r->nparam);
  for (int i = 0; i < r->nparam; i++) define(w, r->param[i], false);
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    row(w, s->op);
    word(w, s->nin);
    for (int i = 0; i < s->nin; i++) word(w, w->number ? w->number[s->in[i]->id] : 0);
    word(w, s->nattr);
    for (int i = 0; i < s->nattr; i++) attribute(w, &s->attr[i]);
    word(w, s->nout);
    for (int i = 0; i < s->nout; i++) define(w, s->out[i], false);
    for (int i = 0; i < s->nregion; i++) region(w, s->region[i]);
  }
  word(w, -2);
}

/* Each by the key of its own. */
static void sequence(Walk *w, const TsTileSequence *p) {
  static const TsTarget none = {.name = "", .triple = "", .cpu = "", .features = ""};
  uint8_t key[32];
  for (int i = 0; i < p->n; i++) {
    const TsTile *k = p->step[i].k;
    ts_kernel_key(k, &none, "", key);
    bytes(w, key, sizeof key);
    for (int a = 0; a < k->nparam; a++) word(w, p->step[i].arg[a]), word(w, p->step[i].byte[a]);
    for (int d = 0; d < k->ndim; d++) word(w, p->step[i].dim[d]), word(w, p->step[i].of[d]);
  }
  for (int i = 0; i < p->ntemp; i++) {
    word(w, p->temp[i].nbytes << 2 | p->temp[i].zero << 1 | p->temp[i].writes);
    word(w, (int64_t)p->temp[i].shared);
    if (p->temp[i].data) bytes(w, p->temp[i].data, (size_t)p->temp[i].nbytes);
  }
}

static void begin(Walk *w, const TsTile *k) {
  ts_sha256_begin(&w->s);
  w->number = ts_arena_alloc(&w->arena, sizeof *w->number * (k->nvalue + 1));
  if (!w->number) word(w, (int64_t)(intptr_t)k); /* no memory: a name that nothing else has */
}

static void target(Walk *w, const TsTarget *t, const char *salt) {
  string(w, salt);
  string(w, t->name);
  string(w, t->triple);
  string(w, t->cpu);
  string(w, t->features);
}

static void kernel(Walk *w, const TsTile *k) {
  word(w, k->form | k->threads << 1 | k->cluster << 16 | (int64_t)k->vector << 24 |
              (int64_t)k->marks << 56);
  word(w, k->ndim);
  word(w, k->nin);
  word(w, k->nparam);
  for (int i = 0; i < k->nparam; i++) define(w, k->param[i], i < 64 && w->viewed >> i & 1);
  region(w, k->body);
  if (k->sequence) sequence(w, k->sequence);
}

static void end(Walk *w, uint8_t key[32]) {
  flush(w);
  ts_arena_free(&w->arena);
  ts_sha256_end(&w->s, key);
}

void ts_kernel_key(const TsTile *k, const TsTarget *t, const char *salt, uint8_t key[32]) {
  Walk w = {.next = 0};
  begin(&w, k);
  target(&w, t, salt);
  kernel(&w, k);
  end(&w, key);
}

/* ---- what only the copy engine touches, whose views are made for each launch */
static bool is_view(const TsTileStmt *s, int input) {
  return (s->op == TS_TILE_copy_bulk && input == 1) || (s->op == TS_TILE_store_bulk && !input);
}

static void look(const TsTile *k, const TsTileRegion *r, uint64_t *viewed) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nin; i++)
      for (int p = 0; p < k->nparam && p < 64; p++)
        if (s->in[i] == k->param[p] && !is_view(s, i)) *viewed &= ~(1ull << p);
    for (int i = 0; i < s->nregion; i++) look(k, s->region[i], viewed);
  }
}

/* Matrices of heads in batches; of others the emitter looks at strides. */
static uint64_t views_of(const TsTile *k) {
  uint64_t viewed = 0;
  for (int p = 0; p < k->nparam && p < 64; p++) {
    const TsTileType *t = &k->param[p]->type;
    if (t->rank == 4 && t->strided && t->stride[3] == 1) viewed |= 1ull << p;
  }
  if (viewed) look(k, k->body, &viewed);
  return viewed;
}

static void digest_of(const TsTile *k, uint64_t viewed, uint8_t digest[32]) {
  Walk w = {.viewed = viewed};
  begin(&w, k);
  string(&w, k->target);
  kernel(&w, k);
  end(&w, digest);
}

void ts_kernel_digest(const TsTile *k, uint8_t digest[32]) { digest_of(k, 0, digest); }

void ts_kernel_code_digest(const TsTile *k, uint8_t digest[32]) {
  digest_of(k, views_of(k), digest);
}

void ts_kernel_key_of(const uint8_t digest[32], const TsTarget *t, const char *salt,
                      uint8_t key[32]) {
  Walk w = {.next = 0};
  ts_sha256_begin(&w.s);
  target(&w, t, salt);
  bytes(&w, digest, 32);
  end(&w, key);
}
