/* moe_places and route_rows: where the rows of experts are, and rows that go there and back.
 *
 * Places are counted by one thread, in two walks over the choices: they are few beside the numbers
 * of the rows, and their order is what all results have in common. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/drive/guard.h"
#include "vm/drive/index.h"

enum { GRAIN = 1 << 16 }; /* bytes that one thread moves at least */

/* Whether a walk was left: what it has not come to is no index. */
static int left(TsCall *call) {
  if (!ts_cpu_interrupted()) return 0;
  return ts_error_set(&call->ctx->err, TS_ERR_interrupt, "%s: interrupted",
                      ts_op_info(call->op)->name);
}

/* ---- places */
typedef struct Places {
  const int64_t *expert;        /* of each choice */
  int64_t n, experts, capacity; /* capacity: rows of each expert, or -1: all that it gets */
  int64_t *place, *source, *size;
  int64_t *next; /* of each expert: its next place, and behind its last one */
} Places;

static int check_experts(TsCall *call, const Places *p) {
  TS_CPU_LOOKING(i, 0, p->n) {
    if ((uint64_t)p->expert[i] < (uint64_t)p->experts) continue;
    return ts_index_wrong(call, TS_INDEX_EXPERT, p->experts, p->expert[i]);
  }
  return left(call);
}

/* Sizes, and where each expert's rows begin. */
static void begin(Places *p) {
  int64_t row = 0;
  memset(p->size, 0, (size_t)p->experts * sizeof *p->size);
  TS_CPU_LOOKING(i, 0, p->n) p->size[p->expert[i]]++;
  for (int64_t e = 0; e < p->experts; e++) {
    bool over = p->capacity >= 0 && p->size[e] > p->capacity;
    if (over) p->size[e] = p->capacity;
    p->next[2 * e] = p->capacity >= 0 ? e * p->capacity : row;
    p->next[2 * e + 1] = p->next[2 * e] + p->size[e];
    row += p->size[e];
  }
}

static int64_t put(Places *p) {
  int64_t dropped = 0;
  TS_CPU_LOOKING(i, 0, p->n) {
    int64_t *next = &p->next[2 * p->expert[i]];
    bool fits = next[0] < next[1];
    p->place[i] = fits ? next[0] : -1;
    if (fits) p->source[next[0]++] = i;
    dropped += !fits;
  }
  return dropped;
}

static int count(TsCall *call, const int64_t *expert, int64_t *next) {
  Places p = {.expert = expert,
              .n = ts_tensor_numel(call->in[0]),
              .experts = call->attr[0].i,
              .capacity = call->attr[1].type == TS_ATTR_int ? call->attr[1].i : -1,
              .next = next};
  if (check_experts(call, &p)) return -1;
  p.place = ts_tensor_write(call->out[0]);
  p.source = p.place ? ts_tensor_write(call->out[1]) : NULL;
  p.size = p.source ? ts_tensor_write(call->out[2]) : NULL;
  int64_t *dropped = p.size ? ts_tensor_write(call->out[3]) : NULL;
  if (!dropped) return -1;
  for (int64_t i = 0, n = ts_tensor_numel(call->out[1]); i < n && p.capacity >= 0; i++)
    p.source[i] = -1;
  begin(&p);
  if (left(call)) return -1;
  *dropped = put(&p);
  return 0;
}

int ts_exec_moe_places(TsCall *call) {
  TsTensor *index = ts_tensor_cast(call->ctx, call->in[0], TS_DT_i64);
  const int64_t *expert = index ? ts_tensor_read(index) : NULL;
  int64_t *next = expert ? ts_work_take(2 * call->attr[0].i * 8) : NULL;
  int failed = expert && !next ? ts_scratch_failed(call)
               : next          ? count(call, expert, next)
                               : -1;
  ts_work_give(next);
  ts_tensor_unref(index);
  return failed ? -1 : 0;
}

/* ---- rows */
enum { ZEROS = -1, ELSEWHERE = -2 };

typedef struct Rows {
  const char *x;
  char *y;
  const int64_t *from; /* of each row of y: the row of x, or one of the above */
  int64_t nbytes;      /* of a row */
  int size;            /* of an element */
  bool real, complex;  /* floats */
} Rows;

/* -0 in every number of a row. */
static void put_minus_zero(const Rows *r, char *to) {
  int step = r->complex ? r->size / 2 : r->size;
  memset(to, 0, (size_t)r->nbytes);
  for (int64_t i = step - 1; i < r->nbytes && (r->real || r->complex); i += step)
    to[i] = (char)0x80;
}

static void move_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Rows *r = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    char *to = r->y + i * r->nbytes;
    if (r->from[i] >= 0)
      memcpy(to, r->x + r->from[i] * r->nbytes, (size_t)r->nbytes);
    else if (r->from[i] == ZEROS)
      memset(to, 0, (size_t)r->nbytes);
    else
      put_minus_zero(r, to);
  }
}

/* What place says becomes the row of x that it means. */
static int find_rows(TsCall *call, const TsTensor *x, int64_t *place, int64_t n) {
  int64_t times = call->attr[0].i, first = call->attr[1].i, rows = 1;
  bool part = call->attr[2].type == TS_ATTR_int;
  for (int i = 0; i < x->meta.ndim - 1; i++) rows *= x->meta.dim[i];
  int64_t all = part ? call->attr[2].i : rows;
  TS_CPU_LOOKING(i, 0, n) {
    if (place[i] < 0) {
      place[i] = ZEROS;
      continue;
    }
    int64_t row = place[i] / times;
    if (row >= all) return ts_guard_place(call->ctx, all * times, place[i]);
    place[i] = row >= first && row - first < rows ? row - first : ELSEWHERE;
  }
  return left(call);
}

int ts_exec_route_rows(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *y = call->out[0];
  TsDtype d = ts_tensor_dtype(y);
  TsTensor *x = ts_tensor_contiguous(c, call->in[0]);
  TsTensor *wide = x ? ts_tensor_cast(c, call->in[1], TS_DT_i64) : NULL;
  TsTensor *place = wide ? ts_tensor_copy(c, wide) : NULL;
  int64_t *from = place ? ts_tensor_write(place) : NULL, n = place ? ts_tensor_numel(place) : 0;
  Rows r = {.from = from,
            .size = ts_dtypes[d].nbytes,
            .real = ts_dtype_is(d, TS_KIND_F),
            .complex = ts_dtype_is(d, TS_KIND_C)};
  r.nbytes = r.size * y->meta.dim[y->meta.ndim - 1];
  int failed = from ? find_rows(call, x, from, n) : -1;
  if (!failed && ts_tensor_numel(y)) {
    r.x = ts_tensor_read(x);
    r.y = r.x ? ts_tensor_write(y) : NULL;
    if (r.y) ts_cpu_parallel(n, GRAIN / r.nbytes + 1, move_rows, &r);
    failed = r.y ? 0 : -1;
  }
  ts_tensor_unref(x);
  ts_tensor_unref(wide);
  ts_tensor_unref(place);
  return failed;
}
