/* How a call is done in parts: for each row of the operator table, what splitting an axis of an
 * operand means for the others and for the results.
 *
 * A rule names factors: sizes that run through a call. An axis of an operand or result that
 * belongs to a factor can be split as all others of it are, and each device then does the call on
 * its pieces alone; an axis that belongs to none is needed whole. A factor that no result has is
 * reduced over: parts give summands (or maxima ..), which are combined in the canonical order
 * (docs/numerics.md). Which mesh axis splits which factor is decided for each call by what its
 * operands are split by (ts_shard_solve). */
#ifndef TS_LIB_SHARD_H
#define TS_LIB_SHARD_H

#include "lib/mesh.h"
#include "lib/op.h"
#include "lib/shard/rules.h"

enum { TS_FACTORS = 40, TS_WHOLE = -1 };

typedef enum TsFactorKind {
  TS_FACTOR_along, /* results have it: parts give parts */
  TS_FACTOR_sum,   /* results of parts are added */
  TS_FACTOR_max,   /* or combined by maximum, */
  TS_FACTOR_min,
  TS_FACTOR_any, /* by or, */
  TS_FACTOR_all, /* by and */
  TS_FACTOR_one, /* of each element one part has it, the others -0: added, in any order */
} TsFactorKind;

typedef struct TsFactor {
  int64_t size;
  TsFactorKind kind;
  bool filled;                       /* no piece may be empty: so small a one is not split */
  uint8_t naxis, axis[TS_MESH_AXES]; /* of the mesh, that split it (ts_shard_solve) */
  int leaves;                        /* see TsLayout, */
  int64_t block;                     /* as well */
} TsFactor;

/* What a part of a call has of each factor. */
typedef struct TsShardPart {
  int64_t start[TS_FACTORS], count[TS_FACTORS];
  TsAttr attr[TS_MAX_ATTR];     /* the call's; a rule changes what is of the whole */
  int64_t room[4][TS_MAX_RANK]; /* for lists among them */
  bool summand; /* results that lack a factor are to be added to others: unrounded */
} TsShardPart;

typedef struct TsShard TsShard;
struct TsShard {
  TsOp op;
  int nin, nout;
  const TsMeta *const *in; /* NULL where an optional one is absent */
  const TsMeta *out;
  const TsAttr *attr;
  int nfactor;
  TsFactor factor[TS_FACTORS];
  int8_t (*in_axis)[TS_MAX_RANK];           /* factor of each axis, or TS_WHOLE; */
  int8_t out_axis[TS_MAX_OUT][TS_MAX_RANK]; /* all TS_WHOLE before the rule */
  const TsLayout *want; /* how result 0 is to lie, where the program says so; or NULL */
  bool settles;         /* of two ways that are equally good it is the first operand's */
  bool widens;          /* summands of 16-bit floats are made of operands in f32 */
  int spilled, spill; /* where input `spilled` is split along axes that are needed whole, factor spill - 1
                         is split instead: pieces are exchanged, not gathered; spill 0: none */
  uint8_t turns; /* bits of mesh axes along which the same devices take turns: none of that */
  /* Options of a part; NULL: those of the call. 0 or -1 with the error. */
  int (*local)(const TsShard *s, TsShardPart *part);
  const TsLayout
      *forced;         /* how the first operand and the result have to lie, whatever they did */
  const TsLayout *pin; /* all operands are where this one is: there it is done; or NULL */
  TsError *err;
};

/* A rule fills in factors and axes; a row that has to be done whole leaves them. */

/* ---- for rules */
/* A factor of so many elements; TS_WHOLE if there is no room for one more. */
int ts_shard_factor(TsShard *s, TsFactorKind kind, int64_t size);
/* Axis d of input i, of result o, belongs to f (nothing happens for TS_WHOLE). A size may be a
 * multiple of the factor's, which is then the outer one of what was merged; an axis of size 1
 * beside a larger factor belongs to none. Negative d count from the end. */
void ts_shard_in(TsShard *s, int i, int d, int f);
void ts_shard_out(TsShard *s, int o, int d, int f);
/* A factor along axis di of input i and do of result o, of equal size. */
int ts_shard_along(TsShard *s, int i, int di, int o, int d_o);
/* The attribute of that name, which the row has. */
const TsAttr *ts_shard_attr(const TsShard *s, const char *name);
TsAttr *ts_shard_own(const TsShard *s, TsShardPart *part, const char *name); /* to be changed */
int ts_shard_axis_of(const TsShard *s, const char *name, int ndim); /* an axis, not negative */

/* ---- for who runs a call
 * Which axes of the mesh split which factor, by what operands are split by: where they disagree
 * the operand moves that has fewer bytes. 0, or -1 with an error that says which two were
 * equally good. */
int ts_shard_solve(TsShard *s, const TsMesh *m);
/* How input i has to lie, how result o then does; NULL with the error. Summands of which axes of
 * the mesh result o is, and how they are combined. */
const TsLayout *ts_shard_needs(const TsShard *s, const TsMesh *m, int i);
const TsLayout *ts_shard_gives(const TsShard *s, const TsMesh *m, int o);
TsFactorKind ts_shard_combines(const TsShard *s, int o, uint8_t *axes);
/* The layouts of the results of a call whose operands have some. */
int ts_shard_infer(TsInfer *inf);
/* The mesh of operands with layouts, or NULL; two of them are an error: -1. */
int ts_shard_mesh(TsOp op, int nin, const TsMeta *const *in, const TsMesh **mesh, TsError *err);
/* The error of two tensors over two meshes: which, and what `who` and `what` they are of. */
int ts_shard_two_meshes(TsError *err, const char *who, const char *what, const TsMeta *x,
                        const TsMeta *y);
/* Into how many leaves the factor *f is cut that results are summed over, or otherwise combined;
 * 0 and *f -1: there is none. declared: by the program, for axes that the mesh does not split. -1
 * with the error: it declared fewer than there are pieces. */
int ts_shard_leaves(const TsShard *s, const TsMesh *m, int declared, int *f);
/* The operator that combines summands of this kind, two by two. */
TsOp ts_factor_operator(TsFactorKind kind);
/* The axis of result o that has the factor; -1: parts give summands of it. */
int ts_shard_axis(const TsShard *s, int o, int f);
/* Whether leaves give it in f32, as summands: a float of 16 bits. */
bool ts_shard_is_narrow(const TsMeta *m);
/* Leaf i of so many of factor f, of which this part has some: as ts_shard_part. */
int ts_shard_leaf(const TsShard *s, const TsShardPart *part, int f, int leaves, int i,
                  TsShardPart *leaf);
/* Start and size of each factor in part p; the call's attributes, for it. 0 or -1. */
int ts_shard_part(const TsShard *s, const TsMesh *m, int p, TsShardPart *part);

#endif
