/* Building with operators without saying whether they run now or become graph.
 *
 * A COMPOSE row, or an adjoint, is one function over this interface. The
 * VM's builder executes each emitted operator at once; the graph's adds a node. A
 * failed emit makes every later one fail as well, so definitions need no checks
 * between the lines: whoever called the definition looks at b->failed. */
#ifndef TS_IR_BUILD_H
#define TS_IR_BUILD_H

#include "lib/op.h"

typedef struct TsValue *TsVal; /* an operand; NULL after a failure */

typedef struct TsBuild TsBuild;
struct TsBuild {
  /* Emits op; returns output 0 and stores all in out (may be NULL). attr: one
   * for each attribute of the row, or NULL for the defaults. */
  TsVal (*emit)(TsBuild *b, TsOp op, int nin, const TsVal *in, const TsAttr *attr, TsVal *out);
  const TsMeta *(*meta)(TsBuild *b, TsVal v);
  TsVal (*number)(TsBuild *b, double value); /* weak: takes the other side's dtype */
  /* The element of a tensor of one; NULL where nothing is computed yet. */
  int (*whole)(TsBuild *b, TsVal v, int64_t *out);
  TsError *err;
  bool failed;
};

/* One COMPOSE call: inputs (NULL where optional and absent) and attributes of
 * the row; the definition stores out[0..nout). Returns 0, or -1 with err set. */
typedef struct TsCompose {
  TsBuild *b;
  TsOp op;
  int nin;
  const TsVal *in; /* as ts_compose casts them: what a definition computes with */
  const TsVal *given;
  const TsAttr *attr;
  int nout, room;
  TsVal *out;
} TsCompose;

typedef int TsComposeFn(TsCompose *);
extern TsComposeFn *const ts_compose_table[TS_OP_COUNT]; /* NULL but for COMPOSE rows */
/* Runs the definition of k->op on k->given. A row that takes no integers gets floats: what
 * its definition computes does not wrap in a narrow type, nor round to f32 what stands
 * beside f64. A row that subtracts gets f32 instead of narrower floats, and its result is
 * rounded to the row's type. */
int ts_compose(TsCompose *k);

/* ---- short forms for definitions */
typedef struct TsBuildAttr {
  const char *name;
  TsAttr value;
} TsBuildAttr;

/* Emits op with n inputs and attributes by name. */
TsVal ts_build(TsBuild *b, TsOp op, int nin, const TsVal *in, int nattr,
               const TsBuildAttr *attr, TsVal *out);
TsVal ts_build1(TsBuild *b, TsOp op, TsVal x);
TsVal ts_build2(TsBuild *b, TsOp op, TsVal x, TsVal y);

/* ts_b(b, TS_OP_sum, (x), ("axis", ts_b_int(1)), ...) would need macros that
 * nobody can read; the two lists are compound literals instead:
 *   ts_build(b, TS_OP_sum, TS_IN(x), TS_ATTRS({"axis", ts_b_ints(&axis, 1)}), NULL) */
#define TS_IN(...)                                                                             \
  (int)(sizeof((TsVal[]){__VA_ARGS__}) / sizeof(TsVal)), (TsVal[]) { __VA_ARGS__ }
#define TS_ATTRS(...)                                                                          \
  (int)(sizeof((TsBuildAttr[]){__VA_ARGS__}) / sizeof(TsBuildAttr)), (TsBuildAttr[]) {         \
    __VA_ARGS__                                                                                \
  }
#define TS_NO_ATTRS 0, NULL

static inline TsAttr ts_b_int(int64_t i) { return (TsAttr){.type = TS_ATTR_int, .i = i}; }
static inline TsAttr ts_b_f(double f) { return (TsAttr){.type = TS_ATTR_f, .f = f}; }
static inline TsAttr ts_b_bool(bool v) { return (TsAttr){.type = TS_ATTR_bool, .i = v}; }
static inline TsAttr ts_b_choice(int i) { return (TsAttr){.type = TS_ATTR_choice, .i = i}; }
static inline TsAttr ts_b_dtype(TsDtype d) { return (TsAttr){.type = TS_ATTR_dtype, .i = d}; }
static inline TsAttr ts_b_str(const char *s) { return (TsAttr){.type = TS_ATTR_str, .str = s}; }
static inline TsAttr ts_b_ints(const int64_t *v, int n) {
  return (TsAttr){.type = TS_ATTR_ints, .n = n, .ints = v};
}
static inline TsAttr ts_b_floats(const double *v, int n) {
  return (TsAttr){.type = TS_ATTR_floats, .n = n, .floats = v};
}

/* Frequent operators; every one passes NULL (a failed emit) through. */
TsVal ts_build_neg(TsBuild *b, TsVal x);
TsVal ts_build_add(TsBuild *b, TsVal x, TsVal y);
TsVal ts_build_sub(TsBuild *b, TsVal x, TsVal y);
TsVal ts_build_mul(TsBuild *b, TsVal x, TsVal y);
TsVal ts_build_div(TsBuild *b, TsVal x, TsVal y);
TsVal ts_build_scale(TsBuild *b, TsVal x, double factor); /* x * factor */
TsVal ts_build_where(TsBuild *b, TsVal cond, TsVal x, TsVal y);
TsVal ts_build_zeros_like(TsBuild *b, TsVal x);
/* The conjugate of a complex x; x itself otherwise. */
TsVal ts_build_conj(TsBuild *b, TsVal x);
TsVal ts_build_expand(TsBuild *b, TsVal x, const int64_t *dim, int ndim); /* broadcast_to */
TsVal ts_build_reshape(TsBuild *b, TsVal x, const int64_t *dim, int ndim);
TsVal ts_build_permute(TsBuild *b, TsVal x, const int64_t *perm, int n);
TsVal ts_build_narrow(TsBuild *b, TsVal x, int axis, int64_t start, int64_t length);
TsVal ts_build_cast(TsBuild *b, TsVal x, TsDtype d);
TsVal ts_build_sum(TsBuild *b, TsVal x, const int64_t *axis, int naxis, bool keepdims);

/* A definition's only result, and its return value. */
int ts_compose_finish(TsCompose *k, TsVal v);
/* A negative axis counts from the end of ndim axes; -1 after the failure. */
int ts_compose_axis(TsCompose *k, int64_t axis, int ndim);
/* A size that elements say, which only a call that computes at once knows: others are told
 * which option of the row names it. */
int ts_build_whole(TsBuild *b, TsVal v, const char *row, const char *option, int64_t *out);
/* Fails the build with an error: returns -1. */
int ts_build_fail(TsBuild *b, TsErrorCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
