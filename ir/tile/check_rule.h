/* What the rules of rows share (ir/tile/check_row.c, ir/tile/check_gpu.c): their names and words.
 * Each gives -1 with the error. */
#ifndef TS_IR_TILE_CHECK_RULE_H
#define TS_IR_TILE_CHECK_RULE_H

#include "ir/tile/check.h"

typedef TsTileCheck Check;
typedef TsTileStmt Stmt;
typedef TsTileType Type;

#define WRONG(...) ts_tile_wrong(c, s, __VA_ARGS__)
#define ATTR(name) ts_tile_attr(s, name)

/* The rule of each row of ir/tile/tile.def. */
#define TILE(name, operands, regions, attrs, help)                                             \
  int ts_tile_rule_of_##name(Check *c, const Stmt *s);
#include "ir/tile/tile.def"
#undef TILE

static inline const TsDtypeInfo *info(const Type *t) { return &ts_dtypes[t->dtype]; }
Type ts_tile_rule_with_dtype(Type t, TsDtype d);
Type ts_tile_rule_without_axis(Type t, int axis);
bool ts_tile_rule_is_static(const Type *t); /* its sizes are numbers */

/* ---- operands and results */
int ts_tile_rule_type(Check *c, const Stmt *s, const char *what, int i, const Type *is,
                      const Type *wanted);
int ts_tile_rule_operand(Check *c, const Stmt *s, int i, const Type *wanted);
int ts_tile_rule_index(Check *c, const Stmt *s, int i); /* operand i is i64[] */
int ts_tile_rule_kind(Check *c, const Stmt *s, int i, int kinds, const char *wanted);
int ts_tile_rule_results(Check *c, const Stmt *s, int n);
int ts_tile_rule_gives(Check *c, const Stmt *s, const Type *wanted);
int ts_tile_rule_gives_nothing(Check *c, const Stmt *s);
int ts_tile_rule_gives_tile(Check *c, const Stmt *s); /* one result; which tile, the row says */

/* ---- attributes */
int ts_tile_rule_axis(Check *c, const Stmt *s, int rank, const Type *of);
/* n different axes of a tile or memory. */
int ts_tile_rule_axes(Check *c, const Stmt *s, const char *name, int n, bool ascending,
                      const Type *of);
int ts_tile_rule_block_only(Check *c, const Stmt *s);

/* ---- memory */
/* Memory stands where rows take it, and nowhere else. */
int ts_tile_rule_memory(Check *c, const Stmt *s);
/* Operands first .. first + n - 1 are positions in operand `memory`; the usual ones. */
int ts_tile_rule_positions_in(Check *c, const Stmt *s, int memory, int first, int n);
int ts_tile_rule_positions(Check *c, const Stmt *s);
int ts_tile_rule_written(Check *c, const Stmt *s); /* operand 0 may be */
int ts_tile_rule_extent(Check *c, const Stmt *s, const Type *memory, const Type *t, bool edge,
                        const TsAttr *axes);

#endif
