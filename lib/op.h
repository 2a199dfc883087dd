/* The operator table: what stands in one row of lib/ops.def, the attributes of
 * a call, and the inference of its result types. Nothing here computes. */
#ifndef TS_LIB_OP_H
#define TS_LIB_OP_H

#include "lib/error.h"
#include "lib/shape.h"

typedef enum TsOp {
#define OP(name, ...) TS_OP_##name,
#include "lib/ops.def"
#undef OP
  TS_OP_COUNT
} TsOp;

/* How an operator is executed. KERNEL: a function of its own, ts_exec_<name>,
 * into outputs that the VM allocated. COMPOSE: defined by other operators,
 * ts_compose_<name> (ir/compose/). DIRECT: the same, and calls that run at once have a
 * function as well, ts_exec_<name>, with the definition's bits. */
typedef enum TsClass {
  TS_CLASS_POINTWISE,
  TS_CLASS_REDUCE,
  TS_CLASS_SCAN,
  TS_CLASS_VIEW,
  TS_CLASS_KERNEL,
  TS_CLASS_RANDOM,
  TS_CLASS_COMPOSE,
  TS_CLASS_DIRECT,
} TsClass;

/* Whether a row has a definition in other operators, which are what graphs have of it. */
static inline bool ts_class_composed(int cls) {
  return cls == TS_CLASS_COMPOSE || cls == TS_CLASS_DIRECT;
}

enum { TS_MAX_IN = 8, TS_MAX_OUT = 8, TS_MAX_ATTR = 16 };

/* ---- attributes: the options of one call, in the order of the row */
typedef enum TsAttrType {
  TS_ATTR_none, /* optional and not given */
  TS_ATTR_int,
  TS_ATTR_f,
  TS_ATTR_bool,
  TS_ATTR_ints,
  TS_ATTR_floats,
  TS_ATTR_str,
  TS_ATTR_choice, /* one of the words of the row: .i is its index */
  TS_ATTR_dtype,  /* .i is the TsDtype */
} TsAttrType;

typedef struct TsAttr {
  uint8_t type;
  int32_t n; /* of ints and floats */
  union {
    int64_t i;
    double f;
    const int64_t *ints;
    const double *floats;
    const char *str;
  };
} TsAttr;

typedef struct TsAttrSpec {
  const char *name, *words; /* words: "constant|reflect" of a choice */
  int namelen, wordslen;
  uint8_t type, optional, has_default;
  TsAttr preset; /* the default */
} TsAttrSpec;

/* Parses an attributes column, "axis:int=-1 keepdims:bool=false", into at most TS_MAX_ATTR
 * zeroed specs; gives their number. For tables: a wrong column aborts. */
int ts_attr_specs(const char *attrs, TsAttrSpec *spec);

/* Index of the word in a choice, or -1; word i of a choice copied to buffer. */
int ts_attr_choice(const TsAttrSpec *s, const char *word);
const char *ts_attr_word(const TsAttrSpec *s, int i, char buffer[64]);

/* ---- inference: dtype rule and shape rule of the row fill out[0..nout) */
typedef struct TsInfer {
  TsOp op;
  int nin, nout;
  const TsMeta *const *in; /* NULL for an absent optional input */
  const TsAttr *attr;      /* one for each attribute of the row, defaults filled in */
  TsDtype compute;         /* the common type of the inputs, before storage rounding */
  bool dynamic;            /* sizes depend on data: out.dim are upper bounds */
  unsigned known;          /* bit i: input i is the bare number number[i] */
  double number[TS_MAX_IN];
  TsMeta out[TS_MAX_OUT];
  /* How result 0 is to lie over a mesh (lib/shard/shard.h), or NULL. */
  const struct TsLayout *want;
  /* Of layouts that are equally good the first operand's: the program did not write the call. */
  bool settles;
  TsError *err;
} TsInfer;

typedef int TsRule(TsInfer *);

struct TsShard;
/* How a call is done in parts: lib/shard/shard.h. */
typedef void TsShardRule(struct TsShard *s);

/* ---- the row; its facts stand in lib/ops.def */
typedef enum TsFails {
  TS_FAILS_derived, /* none once the table is read */
  TS_FAILS_NOTHING,
  TS_FAILS_OPTIONS,
  TS_FAILS_ELEMENTS,
} TsFails;

typedef enum TsFinite {
  TS_FINITE_derived,
  TS_FINITE_NEVER,
  TS_FINITE_SOME,
  TS_FINITE_WIDE,
  TS_FINITE_KEEPS,
  TS_FINITE_ALWAYS,
} TsFinite;

/* In which type an operator runs where the program asks for automatic casts (vm/autocast.c). */
typedef enum TsAutocast {
  TS_AUTOCAST_none, /* in that of its operands */
  TS_AUTOCAST_LOW,  /* in the one asked for, of 16 bits */
  TS_AUTOCAST_FULL, /* in f32 at least */
} TsAutocast;

typedef struct TsOpInfo {
  const char *name;
  uint8_t cls, types, npar; /* types: accepted kinds; npar: attributes that are operands */
  TsRule *dtype, *shape;
  TsShardRule *shard;
  const char *adjoint, *inputs, *attrs, *help, *family;
  uint8_t nin, nrequired; /* inputs by name; the last required one is nrequired - 1 */
  uint8_t required;       /* bit i: input i is */
  uint8_t variadic;       /* the last one repeats */
  uint8_t nattr;
  uint8_t steps, code, fails, finite, autocast, convolves;
  bool slow, wide, kernel, apart, picks, commutes, scalars, positive, stored;
  bool keeps_float; /* float inputs of one dtype give that dtype */
  bool gives_bool;  /* whatever the inputs are */
  bool moves;       /* a view of one input: its elements elsewhere */
  bool keeps_order; /* a view of them in the same order, in another shape or none */
  const char *varies, *refuses;
  int8_t varying; /* the index of that attribute, or -1 */
  char input[TS_MAX_IN][16];
  TsAttrSpec attr[TS_MAX_ATTR];
} TsOpInfo;

const TsOpInfo *ts_op_info(TsOp op);
TsOp ts_op_find(const char *name); /* TS_OP_COUNT if there is none */
const char *ts_op_suggest(const char *name);
/* An error of an operator that `name` is made of becomes one of `name`, which is what was called:
 * "gather: index 9 .." -> "nll: index 9 ..". That of a function of the program, which its
 * message tells, stays. */
void ts_op_error_of(TsError *e, const char *name);
const char *ts_op_class_name(TsClass c);

/* Fills attr[0..nattr) with the row's defaults. -1 if one without a default is
 * left TS_ATTR_none; the caller sets those afterwards and calls _check. */
void ts_op_defaults(TsOp op, TsAttr *attr);
int ts_op_check_attrs(TsOp op, const TsAttr *attr, TsError *err);

/* Runs the row's rules: kinds of the inputs, result dtypes, result shapes. */
int ts_op_infer(TsInfer *inf);
/* The first half: the common type of the inputs, which the row takes. */
int ts_op_infer_types(TsInfer *inf);

/* After ts_op_infer: as what the row takes input i if that is a bare number with a fraction. Only
 * kernels element by element know such numbers; to all others, which look at bytes, they are
 * tensors of the type in which the row computes. TS_DT_none: as it is. */
TsDtype ts_op_number_dtype(const TsInfer *inf, int i);

/* ---- for rules */
/* A negative axis counts from the end; the error names the operator. */
int ts_infer_axis(TsInfer *inf, int64_t axis, int ndim, int *out);
/* The set of axes of an ints attribute (absent: all), as flags. */
int ts_infer_axes(TsInfer *inf, const TsAttr *a, int ndim, bool reduced[TS_MAX_RANK]);
/* Of the option tile_shape, of at most so many numbers. */
int ts_infer_tile_shape(TsInfer *inf, const TsAttr *shape, int most);
/* A bare number that becomes a value of type d must be one, as far as it is known. */
int ts_infer_number(TsInfer *inf, int i, TsDtype d);
/* Whether input i is a number of the arithmetic, and not a place, a count or a condition. */
bool ts_op_is_value(TsOp op, int i);
/* Error with both shapes: "matmul: inner sizes differ: f32[2,3] x f32[4,5]". */
int ts_infer_mismatch(TsInfer *inf, const char *what, int a, int b);

/* Python's slice rule for an axis of n elements: how many positions start:stop:step
 * visits; *start becomes the first of them. INT64_MIN for start or stop means "not
 * given". */
int64_t ts_slice_count(int64_t n, int64_t *start, int64_t stop, int64_t step);

#endif
