/* See jit/device/stand_in.h. */
#include "jit/device/stand_in.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/tile/run/run.h"
#include "jit/device/kernel.h"

enum { MOST = 64 /* parameters */, PIECE = 256 };

/* ---- what is known to be the same */
static bool is_known(const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    int d = s->nin ? s->in[0]->type.dtype : 0;
    if (ts_tile_run_by_unit(s) && d != TS_DT_bf16 && d != TS_DT_f16 && d != TS_DT_i8 &&
        d != TS_DT_u8)
      return false;
    for (int i = 0; i < s->nregion; i++)
      if (!is_known(s->region[i])) return false;
  }
  return true;
}

bool ts_stand_in_can(const TsDevice *d, const TsTile *k) {
  return !d->simulated && ts_target_has(ts_target_of(d), TS_UNIT_wgmma) && !k->sequence &&
         k->nparam <= MOST && is_known(k->body);
}

/* ---- functions of the device: y[i] = f(x[i]), i < N. They are one kernel, which W chooses from:
 * the driver needs as long for each of three. */
static const int function[] = {TS_TILE_ex2, TS_TILE_inv, TS_TILE_lg2};
enum { NFUNCTION = sizeof function / sizeof *function };
static TsDeviceKernel *kernel[TS_MAX_DEVICES];

static int number_of(int op) {
  int i = 0;
  while (function[i] != op) i++;
  return i;
}

static TsTileVal size_of(TsTileBuild *b, int dim) {
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  TsAttr which = {.type = TS_ATTR_int, .i = dim};
  return ts_tile_emit1(b, TS_TILE_dim, 0, NULL, &which, &index);
}

/* The chosen one; a number is compared for all elements, since a tile is chosen by tiles. */
static TsTileVal chosen(TsTileBuild *b, TsTileVal x, TsTileVal which) {
  TsTileType numbers = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileVal y = NULL, w = ts_tile_broadcast(b, which, &numbers, NULL);
  for (int i = 0; i < NFUNCTION; i++) {
    TsTileVal f = ts_tile_emit1(b, function[i], 1, &x, NULL, &x->type);
    TsTileVal is = ts_tile_op2(b, TS_OP_eq, w, ts_tile_const(b, i, &numbers));
    y = y ? ts_tile_op3(b, TS_OP_where, is, f, y) : f;
  }
  return y;
}

TsTile *ts_stand_in_functions(void) {
  TsTile *k = ts_tile_new("functions");
  if (!k) return NULL;
  k->target = ts_target_with(TS_UNIT_wgmma)->name;
  int64_t n = ts_tile_size(k, "N");
  ts_tile_size(k, "W");
  TsTileType memory = ts_tile_type(TS_DT_f32, 1, &n), tile = ts_tile_vector(TS_DT_f32, PIECE);
  TsTileVal x = ts_tile_param(k, "x", &memory, false), y = ts_tile_param(k, "y", &memory, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileVal size = size_of(&b, 0), which = size_of(&b, 1);
  TsTileLoop loop = ts_tile_for(&b, ts_tile_index(&b, 0), size, PIECE, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  TsTileVal v = loop.stmt ? ts_tile_load(&b, x, &loop.i, &tile, &edge) : NULL;
  if (v) ts_tile_store(&b, y, &loop.i, chosen(&b, v, which), &edge);
  ts_tile_for_end(&b, &loop, NULL, NULL);
  if (!k->failed) return k;
  ts_tile_free(k);
  return NULL;
}

static TsDeviceKernel *functions_of(TsDevice *d, TsError *err) {
  TsDeviceKernel **at = &kernel[d->index];
  if (*at) return *at;
  TsTile *k = ts_stand_in_functions();
  if (!k)
    ts_error_memory(err);
  else
    *at = ts_device_kernel_open(d, k, err);
  ts_tile_free(k);
  return *at;
}

static int call_function(void *with, int op, int64_t n, const float *x, float *y,
                         TsError *err) {
  TsDevice *d = with;
  int64_t nbytes = n * (int64_t)sizeof *x;
  TsDeviceKernel *k = functions_of(d, err);
  int64_t dim[2] = {n, number_of(op)};
  void *at[2] = {NULL, NULL};
  if (!n || !k) return k ? 0 : -1;
  int failed = !(at[0] = d->alloc(d, nbytes, err)) || !(at[1] = d->alloc(d, nbytes, err)) ||
               d->upload(d, at[0], x, nbytes, err) || ts_device_kernel_run(k, at, dim, err) ||
               d->download(d, y, at[1], nbytes, err);
  for (int i = 0; i < 2; i++)
    if (at[i]) d->free(d, at[i], nbytes);
  return failed ? -1 : 0;
}

void ts_stand_in_close(void) {
  for (int d = 0; d < TS_MAX_DEVICES; d++) {
    ts_device_kernel_free(kernel[d]);
    kernel[d] = NULL;
  }
}

/* ---- memory of the parameters, fetched. Those that overlap are one piece. */
typedef struct Piece {
  char *at, *host; /* on the device, and its copy */
  int64_t nbytes;
  bool written;
} Piece;

typedef struct Pieces {
  int n;
  Piece of[MOST];
} Pieces;

static bool writes(const TsTileRegion *r, TsTileVal memory) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool reads = s->op == TS_TILE_load || s->op == TS_TILE_gather ||
                 s->op == TS_TILE_load_rows || s->op == TS_TILE_prefetch;
    if (s->nin && s->in[0] == memory && !reads) return true;
    for (int i = 0; i < s->nregion; i++)
      if (writes(s->region[i], memory)) return true;
  }
  return false;
}

/* Joins what touches it. */
static void add(Pieces *p, Piece x) {
  for (int i = 0; i < p->n; i++) {
    Piece *y = &p->of[i];
    if (x.at >= y->at + y->nbytes || y->at >= x.at + x.nbytes) continue;
    char *end = x.at + x.nbytes > y->at + y->nbytes ? x.at + x.nbytes : y->at + y->nbytes;
    x.at = x.at < y->at ? x.at : y->at;
    x.nbytes = end - x.at;
    x.written |= y->written;
    *y = p->of[--p->n];
    i = -1;
  }
  p->of[p->n++] = x;
}

static char *host_of(const Pieces *p, const char *at) {
  for (int i = 0; i < p->n; i++)
    if (at >= p->of[i].at && at < p->of[i].at + p->of[i].nbytes)
      return p->of[i].host + (at - p->of[i].at);
  return NULL;
}

static int fetch(TsDevice *d, Pieces *p, TsError *err) {
  for (int i = 0; i < p->n; i++) {
    Piece *x = &p->of[i];
    if (!(x->host = malloc((size_t)x->nbytes))) return ts_error_memory(err);
    if (!d)
      memcpy(x->host, x->at, (size_t)x->nbytes);
    else if (d->download(d, x->host, x->at, x->nbytes, err))
      return -1;
  }
  return 0;
}

static int give_back(TsDevice *d, const Pieces *p, TsError *err) {
  for (int i = 0; i < p->n; i++) {
    const Piece *x = &p->of[i];
    if (x->written && d->upload(d, x->at, x->host, x->nbytes, err)) return -1;
  }
  return 0;
}

int ts_stand_in_here(TsDevice *d, const TsTile *k, void *const *arg, const int64_t *dim,
                     TsStandInRun *run, void *with, bool keep, TsError *err) {
  Pieces p = {0};
  void *at[MOST];
  if (k->nparam > MOST) return ts_error_set(err, TS_ERR_value, "more than %d parameters", MOST);
  for (int i = 0; i < k->nparam; i++) {
    int64_t below, above;
    ts_tile_reach(&k->param[i]->type, dim, &below, &above);
    int64_t nbytes = below + above;
    if (nbytes)
      add(&p, (Piece){(char *)arg[i] - below, NULL, nbytes, writes(k->body, k->param[i])});
  }
  int failed = fetch(d, &p, err);
  for (int i = 0; i < k->nparam && !failed; i++) at[i] = host_of(&p, arg[i]);
  failed = failed || run(with, k, at, dim, err) || (keep && give_back(d, &p, err));
  for (int i = 0; i < p.n; i++) free(p.of[i].host);
  return failed ? -1 : 0;
}

static int as_unit(void *with, const TsTile *k, void *const *at, const int64_t *dim,
                   TsError *err) {
  TsTileRunAs as = {
      .unit = true, .function = call_function, .with = with, .spread = ts_cpu_parallel};
  return ts_tile_run_as(k, at, dim, &as, err);
}

int ts_stand_in_run(TsDevice *d, const TsTile *k, void *const *arg, const int64_t *dim,
                    TsError *err) {
  bool dependent = d->dependent;
  d->dependent = false; /* functions read what was just fetched */
  int failed = ts_stand_in_here(d, k, arg, dim, as_unit, d, true, err);
  d->dependent = dependent;
  return failed;
}
