/* Schedule IR: how a graph is cut into kernels.
 *
 *   schedule @block target avx512 threads 2 {
 *     vm     %h                                                          // matmul
 *     rows   %t, %n, %y  space [1536,128] row 1 in %h, %b, %w out %y     // 1.5 MiB, 3 MFLOP
 *     vm     %z
 *   }
 *
 * A schedule stands over a graph and never changes it. Every live node that is no view belongs
 * to one group; groups run in their order, and each needs only what groups before it made. A
 * group is one node that the VM runs as it is, or several that become one kernel. A node is named
 * by its first value. Behind `with` stands what was chosen: with rows 64 columns 128.
 *
 * The nodes of a kernel share a space: axes, walked in row-major order, of which the last
 * `nrow` make a row. A value of the group is full (an element for every point of the space),
 * a row value (one for every row) or a number. In a group of columns the last `nrow` axes
 * are the columns, those before are reduced, and a row value is one for every column. Shapes
 * may differ as long as they are products of the same axes: [6,4] and [2,3,4] share the
 * space [2,3,4]. The space of a product is its result's: the last two axes are rows and
 * columns; what makes its operands has their shapes instead (ir/sched/prologue.h). */
#ifndef TS_IR_SCHED_H
#define TS_IR_SCHED_H

#include "ir/graph/graph.h"
#include "ir/tile/tile.h"
#include "lib/profile.h"

typedef enum TsGroupKind {
  TS_GROUP_vm,        /* one node, by the VM's handler */
  TS_GROUP_map,       /* pointwise rows over the space */
  TS_GROUP_rows,      /* and reductions along rows, and what is done with their results */
  TS_GROUP_attention, /* one node of attention (ir/sched/attention.c) */
  TS_GROUP_matmul,    /* one matrix product, pointwise rows on its result and its operands */
  TS_GROUP_columns,   /* pointwise rows, and reductions along the axes before the columns */
  TS_GROUP_conv,      /* one convolution, pointwise rows on its images and on its result */
} TsGroupKind;

/* What of a group's kernel is free: no bit of a result depends on it (ir/sched/choice.def, which
 * says what each is). 0: as the passes do it. */
typedef struct TsSchedChoice {
#define CHOICE(name, ...) int name;
#include "ir/sched/choice.def"
#undef CHOICE
} TsSchedChoice;

/* Whose choice it is. */
typedef enum TsChoiceOrigin {
  TS_CHOICE_usual,   /* the passes', by the cost model */
  TS_CHOICE_now,     /* measured by this process */
  TS_CHOICE_kept,    /* measured earlier, on disk */
  TS_CHOICE_shipped, /* measured before, comes with the program */
  TS_CHOICE_forced,  /* a test's */
  TS_CHOICE_user,
} TsChoiceOrigin;

typedef struct TsGroup {
  uint8_t kind;
  int index; /* in the schedule */
  int nnode, capnode;
  const TsNode **node; /* in the order of the graph */
  int nin, nout;
  TsVal *in, *out; /* read from and written to memory */
  int naxis, nrow;
  int64_t axis[TS_TILE_RANK];
  bool transposed;     /* attention: the result lies as [.., S, H, D], as its reader wants it */
  double bytes, flops; /* moved and done at least; a function of lib/elem counts as its steps */
  double usec;         /* expected on the target */
  TsSchedChoice choice;
  TsSchedChoice want; /* what the program asked for, of which choice is the nearest there is */
  bool pinned;        /* the program asked: the tuner leaves it */
  uint8_t origin;     /* TsChoiceOrigin of choice */
  const char
      *remarks; /* a line for each thing that could not be had as it was wanted, or NULL */
} TsGroup;

typedef struct TsSched {
  TsArena arena;
  const TsGraph *g;
  const TsTarget *target;
  int threads;
  int ngroup, capgroup;
  TsGroup **group;
  int *of; /* by node: its group, or -1: a parameter, a view, a constant, dead */
  unsigned char
      *spread; /* by node: written with strides, as a part of a whole; NULL: none is */
  /* Bare numbers are given when a kernel runs: sizes of it, as the bits of an f64. So calls that
   * differ by a number share a kernel. */
  bool numbers_vary;
  /* Strict: sums of products are the CPU's chains, whatever the matrix units do. Fast: products of
   * bf16 by the CPU's instruction for pairs of steps, if it has one, of f32 by matrix units. */
  TsProfile profile;
  /* What runs the kernels, as TsDevice has it. */
  int processors;
  bool simulated;
  int64_t most_work;
  bool plain; /* kernels in block form alone, which are compiled soonest */
  bool marks; /* kernels that begin in explicit form get profile marks (ir/tile/marks.h) */
  /* The kernel of a map is for any outermost size, whoever asks for it. */
  bool sizes_vary;
  struct TsWhyBook *why; /* what the fuser decided by (ir/sched/why.h), or NULL */
} TsSched;

/* Strides of a value in elements where it is memory; NULL or false: row-major. A result of a map
 * or rows lies so as well. */
typedef bool TsLayoutFn(void *arg, TsVal v, int64_t *stride);
/* Whether kernels for the CPU have numbers of that type. */
bool ts_sched_handles(TsDtype d);
void ts_sched_strides(TsLayoutFn *layout, void *arg, TsVal v, int64_t *stride);
bool ts_sched_row_major(TsLayoutFn *layout, void *arg, TsVal v);

/* Cuts g (concrete sizes) into groups. NULL with the error when memory runs out. */
TsSched *ts_sched_new(const TsGraph *g, const TsTarget *target, int threads, TsError *err);
void ts_sched_free(TsSched *s);
int ts_sched_fuse(TsSched *s, TsError *err); /* the pass that makes the groups */
void ts_sched_cost(TsSched *s);              /* fills bytes, flops, usec of every group */
double ts_sched_steps(int op);               /* of one element: an addition is one */
/* How many steps take as long as moving so many bytes of a whole of that size. */
double ts_sched_steps_of_bytes(const TsSched *s, double whole, double nbytes);
int ts_sched_check(const TsSched *s, TsError *err);
void ts_sched_text(const TsSched *s, TsText *text);
/* With what the cost model says, and the program's lines, as comments. */
void ts_sched_text_notes(const TsSched *s, TsText *text);
/* A schedule of one group of s, as somebody edits it. */
void ts_sched_text_group(const TsSched *s, const TsGroup *g, TsText *text);
/* A schedule of g, whose values have the names of g's text: parse(print(s)) is s. Without costs. */
TsSched *ts_sched_parse(const TsGraph *g, const char *text, TsError *err);
/* If not, why (may be NULL) gets the first difference. */
bool ts_sched_equal(const TsSched *a, const TsSched *b, TsText *why);
const char *ts_group_kind_name(int kind); /* NULL: there is no such kind */
/* "add gelu sum", and the lines that they came from, "model.lua:3,4", or nothing. */
void ts_sched_what(const TsGroup *g, TsText *text);
void ts_sched_where(const TsGroup *g, TsText *text);

/* Seed and stream of random rows: the attributes of a node, from which the numbers come when the
 * kernel runs; symbolic size dim is the seed, dim + 1 the stream. */
enum { TS_SCHED_DRAWS = 3 };
typedef struct TsSchedDraw {
  TsAttr at[2];
  int dim;
} TsSchedDraw;

/* Parameter `param` holds places in rows of node's first operand, or what else its operand `input`
 * counts, which must be in range. */
enum { TS_SCHED_GUARDS = 4 };
typedef struct TsSchedGuard {
  int param;
  const TsNode *node;
  int input;
} TsSchedGuard;

/* The kernel of a group, in block form. value: for each parameter the value of the graph that it
 * is; one stands twice where nodes look at it in different ways. dim: the symbolic sizes for this
 * graph's shapes. */
enum { TS_SCHED_PARAMS = 40 };
typedef struct TsSchedKernel {
  TsTile *tile;
  TsVal value[TS_SCHED_PARAMS];
  int64_t dim[TS_TILE_DIMS];
  TsVal number[TS_TILE_DIMS]; /* by size: the number that it is; NULL: a size */
  unsigned char
      attr[TS_TILE_DIMS]; /* 0, or 1 + the attribute of the node that it is; only where
                                     * numbers vary */
  unsigned char
      elements; /* 0, or 1 + the size that is how many elements the result has; the same */
  /* By output: a bit for each input over whose bytes it may be written, because each element
   * is read where that of the output is written, and not after. */
  uint64_t over[TS_SCHED_PARAMS];
  int ndraw;
  TsSchedDraw draw[TS_SCHED_DRAWS];
  const char *function; /* the graph's name */
  int nguard;
  TsSchedGuard guard[TS_SCHED_GUARDS];
  /* What of the group's choice it has, in numbers, as far as its lowering says (told): -1: this
   * kernel has no such choice, 0: as it was given. */
  TsSchedChoice took;
  bool told;
} TsSchedKernel;

/* -1 with the error, which says why there is no kernel. A caller that runs kernels where it can
 * neither draw nor look at indices before refuses those that want it. */
int ts_sched_lower(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                   TsSchedKernel *out, TsError *err);

/* ---- what could be chosen (ir/sched/choice.c) */
enum { TS_SCHED_CHOICES = 32 };
int ts_sched_choices_gpu(const TsTarget *t, const TsGroup *g,
                         TsSchedChoice out[TS_SCHED_CHOICES]);
/* The nearest of the tiles that products with roles have. */
void ts_sched_gpu_tile(int *rows, int *columns);
/* The choices that are worth a look for a group on s's target: the first is that of the passes,
 * the others follow by the time that the cost model expects. */
int ts_sched_choices(const TsSched *s, const TsGroup *g, TsSchedChoice out[TS_SCHED_CHOICES]);
/* The same for a kernel in block form whose rounds are given (ir/sched/choice_product.c): what
 * its head can say. dim: its sizes. */
int ts_sched_choices_tile(const TsTile *k, const TsTarget *t, int threads, const int64_t *dim,
                          TsSchedChoice out[TS_SCHED_CHOICES]);
/* Says the choice in the head of a kernel. */
void ts_sched_choice_head(const TsSchedChoice *c, TsTile *k);
double ts_sched_choice_usec(const TsSched *s, const TsGroup *g, const TsSchedChoice *c);
/* ir/sched/pin.c: whether the program chose for a node; what it chose as g's want, if it did. Which
 * choice that is, ts_lower_settle says (ir/lower/lower.h). */
bool ts_sched_is_pinned(const TsNode *n);
void ts_sched_pin(TsSched *s, TsGroup *g);
/* ---- the table of choices (ir/sched/choice_range.c) */
enum TsChoiceField {
#define CHOICE(name, ...) TS_CHOICE_##name,
#include "ir/sched/choice.def"
#undef CHOICE
  TS_CHOICE_FIELDS
};
typedef struct TsChoiceRange {
  int64_t least, most;
  bool powers; /* powers of two alone */
} TsChoiceRange;
const char *ts_choice_name(int field);
const char *ts_choice_help(int field);
int ts_choice_find(const char *name); /* -1: there is none */
static inline int *ts_choice_at(TsSchedChoice *c, int field) { return (int *)c + field; }
int ts_choice_value(const TsSchedChoice *c, int field);
/* Families of groups whose kernel an operator makes or has its part in, 0: none; whether kernels of
 * one of them have a choice. */
unsigned ts_choice_of_op(int op);
bool ts_choice_has(int field, bool gpu, unsigned families);
/* The word for where it comes from: "chosen by the user". */
const char *ts_choice_origin(int origin);
/* Words for a group's family, "rows"; of a group that has no choices NULL. */
const char *ts_choice_family(const TsSched *s, const TsGroup *g);
/* Whether kernels of the group have the choice on s's target, and in which limits. */
bool ts_choice_range(const TsSched *s, const TsGroup *g, int field, TsChoiceRange *r);
int64_t ts_choice_nearest(const TsChoiceRange *r, int64_t value);
/* "powers of two from 32 to 1024", "1 to 4" */
void ts_choice_range_text(const TsChoiceRange *r, TsText *text);
/* The choices that kernels of the group have, "rows, columns", or nothing. */
void ts_choice_fields_text(const TsSched *s, const TsGroup *g, TsText *text);
bool ts_sched_choice_same(const TsSchedChoice *a, const TsSchedChoice *b);
/* "piece 4096 unroll 2", or nothing; and back, false if it is no such text. */
void ts_sched_choice_text(const TsSchedChoice *c, TsText *text);
bool ts_sched_choice_parse(const char *text, TsSchedChoice *c);

/* ---- for passes */
/* Without groups. */
TsSched *ts_sched_open(const TsGraph *g, const TsTarget *target, int threads, TsError *err);
/* By node: whether it must be in a group, as no view, nor computed before any run, nor dead. For
 * free(); NULL: out of memory. */
unsigned char *ts_sched_runs(const TsGraph *g);
/* A node without anything to do: it gives the elements of its input in another shape. */
bool ts_sched_is_view(const TsNode *n);
/* v, or what it shows through views that keep the row-major order of the elements. */
TsVal ts_sched_root(TsVal v);
/* How a node can be part of a kernel: map, rows, columns, matmul, or vm if it cannot (of a
 * convolution, which only CPUs have, the next one). */
TsGroupKind ts_sched_kind(const TsNode *n);
/* The same in s, for its target and profile: gradients of norms are columns where blocks hold their
 * rows, products by a unit for pairs of bf16 are kernels of any depth. */
TsGroupKind ts_sched_kind_in(const TsSched *s, const TsNode *n);

/* The shape that a node walks: its first input's where it reduces, else its result's. */
const TsMeta *ts_sched_at(const TsNode *n);

/* A random row that can be part of a kernel (ir/sched/random.c). */
bool ts_sched_draws(const TsNode *n);

/* n reads its rows at the places that v holds, which must lie in memory before. */
bool ts_sched_indexes(const TsNode *n, TsVal v);
/* The shape with which operand v of n walks the space. */
const TsMeta *ts_sched_operand_at(const TsNode *n, TsVal v);

/* A cast of a parameter that a device does with others of its kind (ir/sched/gather.c). */
bool ts_sched_gathered(const TsSched *s, const TsGroup *group);

typedef enum TsExtent {
  TS_EXTENT_full,
  TS_EXTENT_row,
  TS_EXTENT_number,
  TS_EXTENT_none
} TsExtent;
/* What a value of this shape is in the group's space: from its size alone. */
TsExtent ts_sched_extent(const TsGroup *group, const TsMeta *m);

#endif
