/* What the host knows of a kernel without its code: scratch, and the numbers of rounds as steps
 * of whole numbers from the symbolic sizes. */
#include <string.h>

#include "jit/gpu/plan.h"

typedef enum Step {
  STEP_number,
  STEP_dim,
  STEP_add,
  STEP_sub,
  STEP_mul,
  STEP_div,
  STEP_mod,
  STEP_min,
  STEP_max,
} Step;

typedef struct Outline {
  TsGpuCode *code;
  int16_t *of; /* by value: its step, -1 */
  bool full;
} Outline;

static int put(Outline *o, Step op, int a, int b, int64_t number) {
  if (a < 0 || b < 0) return -1;
  if (o->code->nstep == TS_GPU_PREFIX) return o->full = true, -1;
  o->code->step[o->code->nstep] =
      (TsGpuStep){.op = (uint8_t)op, .a = (int16_t)a, .b = (int16_t)b, .number = number};
  return o->code->nstep++;
}

static int number(Outline *o, int64_t v) { return put(o, STEP_number, 0, 0, v); }

static int step_of(Outline *o, const TsTileStmt *s) {
  int a = s->nin > 0 ? o->of[s->in[0]->id] : 0, b = s->nin > 1 ? o->of[s->in[1]->id] : 0;
  switch (s->op) {
  case TS_TILE_const: return number(o, (int64_t)ts_tile_attr(s, "value")->f);
  case TS_TILE_bits: return number(o, ts_tile_attr(s, "value")->i);
  case TS_TILE_dim: return put(o, STEP_dim, 0, 0, ts_tile_attr(s, "index")->i);
  case TS_OP_add: return put(o, STEP_add, a, b, 0);
  case TS_OP_sub: return put(o, STEP_sub, a, b, 0);
  case TS_OP_mul: return put(o, STEP_mul, a, b, 0);
  case TS_OP_floordiv: return put(o, STEP_div, a, b, 0);
  case TS_OP_mod: return put(o, STEP_mod, a, b, 0);
  case TS_OP_minimum: return put(o, STEP_min, a, b, 0);
  case TS_OP_maximum: return put(o, STEP_max, a, b, 0);
  default: return -1;
  }
}

static void numbers(Outline *o, const TsTileRegion *r, const TsTileStmt *end) {
  for (const TsTileStmt *s = r->first; s && s != end; s = s->next)
    if (s->nout == 1 && !s->nregion && !s->out[0]->type.rank &&
        s->out[0]->type.dtype == TS_DT_i64 && !ts_tile_memory(&s->out[0]->type))
      o->of[s->out[0]->id] = (int16_t)step_of(o, s);
}

static int rounds(Outline *o, const TsTileStmt *loop) {
  int64_t step = ts_tile_attr(loop, "step")->i;
  int lo = o->of[loop->in[0]->id], hi = o->of[loop->in[1]->id];
  int n = put(o, STEP_add, put(o, STEP_sub, hi, lo, 0), number(o, step - 1), 0);
  return put(o, STEP_max, put(o, STEP_div, n, number(o, step), 0), number(o, 0), 0);
}

static int phase(Outline *o, const TsGpuPhasePlan *p) {
  int all = number(o, 1);
  for (int i = 0; i < p->nloop; i++) {
    if (i) numbers(o, p->axis[i - 1]->region[0], p->axis[i]);
    all = put(o, STEP_mul, all, rounds(o, p->axis[i]), 0);
  }
  return all;
}

static int scratch(const TsTile *k, TsGpuCode *code, TsError *err) {
  for (const TsTileStmt *s = k->body->first; s; s = s->next) {
    if (s->op != TS_TILE_alloc || s->out[0]->type.space != TS_SPACE_scratch) continue;
    if (code->nscratch == TS_GPU_SCRATCH)
      return ts_error_set(err, TS_ERR_device, "jit: more than %d scratch buffers",
                          TS_GPU_SCRATCH);
    code->scratch[code->nscratch++] = s->out[0]->type;
  }
  return 0;
}

int ts_gpu_outline(const TsTile *k, const TsGpuPlan *plan, TsGpuCode *code, TsError *err) {
  TsArena arena = {0};
  Outline o = {.code = code, .of = ts_arena_alloc(&arena, sizeof *o.of * (k->nvalue + 1))};
  if (!o.of) return ts_error_set(err, TS_ERR_memory, "jit: out of memory");
  bool known = true;
  code->nparam = k->nparam, code->ndim = k->ndim, code->nphase = plan->nphase;
  memset(o.of, 0xff, sizeof *o.of * (k->nvalue + 1));
  numbers(&o, k->body, NULL);
  for (int i = 0; known && i < plan->nphase; i++)
    known = (code->count[i] = phase(&o, &plan->phase[i])) >= 0;
  ts_arena_free(&arena);
  if (!known)
    return ts_error_set(err, TS_ERR_device, "jit: the rounds of a phase are not known");
  return scratch(k, code, err);
}

static int64_t floor_div(int64_t a, int64_t b) {
  if (!b) return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int ts_gpu_rounds(const TsGpuCode *code, const int64_t *dim, int64_t out[TS_GPU_PHASES]) {
  int64_t v[TS_GPU_PREFIX]; /* a step reads earlier ones; the first may name itself */
  v[0] = 0;
  bool wrong = false;
  for (int i = 0; i < code->nstep; i++) {
    const TsGpuStep *s = &code->step[i];
    int64_t a = v[s->a], b = v[s->b];
    switch ((Step)s->op) {
    case STEP_number: v[i] = s->number; break;
    case STEP_dim: v[i] = dim[s->number]; break;
    case STEP_add: wrong |= __builtin_add_overflow(a, b, &v[i]); break;
    case STEP_sub: wrong |= __builtin_sub_overflow(a, b, &v[i]); break;
    case STEP_mul: wrong |= __builtin_mul_overflow(a, b, &v[i]); break;
    case STEP_div: v[i] = floor_div(a, b); break;
    case STEP_mod: v[i] = a - floor_div(a, b) * b; break;
    case STEP_min: v[i] = a < b ? a : b; break;
    case STEP_max: v[i] = a > b ? a : b; break;
    }
  }
  for (int i = 0; i < code->nphase; i++) out[i] = v[code->count[i]];
  return wrong ? -1 : 0;
}
