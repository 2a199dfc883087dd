/* Graph IR: what a program computes, as operators over values.
 *
 *   graph @attend(%q: f32[8,64], %k: f32[8,64], %v: f32[8,64]) -> %p {
 *     %t = transpose %k                  : f32[64,8]
 *     %s = matmul %q, %t                 : f32[8,8]
 *     %a = softmax %s                    : f32[8,8]
 *     %p = matmul %a, %v                 : f32[8,64]
 *   }
 *
 * Nodes are immutable and interned: emitting the same operator on the same values gives the
 * node that is there. They stand in the order in which they were made, so every operand
 * precedes its uses. A pass builds a new graph from an old one (ir/graph/copy.h); nothing is
 * edited. A TsVal of the builder (ir/compose/build.h) is a TsValue here. All memory is the module's
 * arena; regions and called graphs live in the module of the graph that holds them. */
#ifndef TS_IR_GRAPH_H
#define TS_IR_GRAPH_H

#include "ir/compose/build.h"
#include "lib/arena.h"
#include "lib/text.h"

typedef enum TsNodeOp {
  TS_NODE_before_first = TS_OP_COUNT - 1,
#define NODE(name, attrs, help) TS_NODE_##name,
#include "ir/graph/graph.def"
#undef NODE
  TS_NODE_END
} TsNodeOp;

typedef struct TsNode TsNode;
typedef struct TsGraph TsGraph;

struct TsValue {
  TsNode *node;
  TsGraph *graph;   /* whose node it is */
  const char *name; /* for text, or NULL */
  int index;        /* which output */
  TsVal instead;    /* the same by recognised operators (ir/rules/recognise.h), or NULL */
  TsMeta meta;
};
typedef struct TsValue TsValue;

struct TsNode {
  uint16_t op; /* TsOp or TsNodeOp */
  uint16_t nregion;
  uint16_t as; /* the composed row that it is a part of, from 1: its errors are that one's */
  int nin, nout;
  int line;           /* index into the module's places, 0: unknown */
  uint32_t id;        /* position in the graph */
  const char *choice; /* what the program chose for its kernel, "rows 64 stages 3", or NULL */
  uint32_t hash;
  int32_t next;       /* in its hash chain, -1 at the end */
  const TsVal *in;    /* NULL where an optional input is absent */
  const TsAttr *attr; /* all attributes of the row; of other nodes, see nattr */
  int nattr;
  TsGraph **region; /* of a call: the graph called */
  double number;
  bool backward; /* the reverse pass made it: its line is that of the operator differentiated */
  bool reversed; /* as well, and not for forward mode: it is a gradient, or a part of one */
  bool
      bytes; /* a bitcast of what was changed in place through another type: has no derivative */
  bool runs; /* although nothing may read it: its error is the program's (ir/graph/failing.h) */
  struct TsCustom *ref; /* custom: whom to call; call: whom to ask for the derivative */
  TsValue out[];
};

/* A value that a captured function wrote into one of its parameters. */
typedef struct TsUpdate {
  int param;
  TsVal value;
} TsUpdate;

/* A composed call of the program and what it became: for other sizes it has to become the same. */
typedef struct TsCalled {
  TsOp op;
  int nin, nout;
  const TsVal *in, *out;
  const TsAttr *attr;
  const char *choice;
} TsCalled;

/* A value that is the derivative of another one when x moves along v (ir/jets/jets.h). */
typedef struct TsDerived {
  TsVal value, of;
  int nx;
  const TsVal *x, *v;
} TsDerived;

/* What the graphs of one function share. */
typedef struct TsModule {
  TsArena arena;
  const char **place; /* "file.lua:12" by line number of nodes; [0] is "" */
  int nplace, capplace;
  int64_t nrandom;        /* streams so far: each random call has one of its own */
  struct TsCustom **held; /* by the module's nodes, a reference each */
  int nheld, capheld;
  TsText recognised; /* a line for each rule that fired while it was captured */
  TsGraph *whole;    /* its graph before it was settled (ir/rules/recognise.h), or NULL */
  int refs;
  bool lacking; /* there was no memory for a line: whoever keeps the graph refuses it */
} TsModule;

struct TsGraph {
  TsBuild b; /* first: emits nodes into this graph */
  TsModule *module;
  uint64_t serial; /* of all graphs of the process, from 1 */
  TsGraph *parent; /* of a region */
  const char *name;
  TsNode **node;
  int nnode, capnode;
  int32_t *bucket; /* intern table */
  int nbucket;
  TsVal *param;
  void **bound; /* by parameter: the handle of a captured value, else NULL */
  int nparam, capparam;
  TsVal *result;
  int *bytes; /* by result, whose bytes the program gave it: see ts_graph_result_bytes; NULL */
  bool *spread; /* by result, whether several of its elements were one there; NULL: not known */
  int nresult;
  TsUpdate *update;
  int nupdate, capupdate;
  TsCalled *called;
  int ncalled, capcalled;
  TsDerived *derived; /* what forward mode made */
  int nderived, capderived;
  uint64_t since;  /* while it is captured: tensors made from then on are its own */
  int64_t streams; /* a region's: how many the function had before it */
  int line;        /* of the nodes to come */
  const char
      *choice;   /* of the nodes to come: what the program chose for their kernels, or NULL */
  bool forward;  /* while forward mode is built */
  bool backward; /* as well: a reverse pass runs */
  bool reverses; /* some node is `reversed` */
  bool replaced; /* some value has another one instead */
  bool apart;    /* nodes to come are new ones, although equal ones are there */
  int spare;     /* processors of a device that its kernels leave to what is sent beside them */
  bool runs_all; /* what depends on no parameter is computed at each run as well */
  bool numbers_fit; /* bare numbers beside integers fit their types: who calls looks */
  bool calling;     /* nodes to come are a call of the program: numbers are looked at now */
  bool expanding;   /* they are what a composed row becomes */
  uint16_t as;      /* which: see TsNode */
  TsVal *outer; /* of a region: by parameter, the value outside that it stands for, or NULL */
  /* While the adjoint of its body is built (ir/graph/recursion.h). */
  struct TsRecursion *recursion;
  TsError *err;
};

/* A module with one graph; a region or another graph of the same module. NULL: out of memory. */
TsGraph *ts_graph_new(const char *name, TsError *err);
TsGraph *ts_graph_in_module(TsModule *u, const char *name, TsError *err);
TsGraph *ts_graph_region(TsGraph *parent, const char *name);
void ts_graph_free(TsGraph *g); /* the whole module, when its last reference goes */

/* bound of a captured parameter that stands for no tensor yet: of a graph read from text. */
#define TS_GRAPH_UNBOUND ((void *)1)

TsVal ts_graph_param(TsGraph *g, const TsMeta *m, const char *name, void *bound);
TsVal ts_graph_number(TsGraph *g, double value);
/* An operator of the table; COMPOSE rows are expanded. As b.emit, with input checks. */
TsVal ts_graph_emit(TsGraph *g, TsOp op, int nin, const TsVal *in, const TsAttr *attr,
                    TsVal *out, int *nout);
/* Another node, with given result types. */
TsNode *ts_graph_node(TsGraph *g, TsNodeOp op, int nin, const TsVal *in, int nregion,
                      TsGraph *const *region, int nattr, const TsAttr *attr, int nout,
                      const TsMeta *out, struct TsCustom *ref);
/* A call node's own derivative. */
int ts_graph_set_ref(TsGraph *g, TsNode *n, struct TsCustom *ref);
/* n with other operands and regions, entered into g: its types stay. */
TsNode *ts_graph_again(TsGraph *g, const TsNode *n, const TsVal *in, TsGraph *const *region,
                       const TsAttr *attr); /* NULL: n's */
/* n with what the program chose for a kernel that it takes the place of. */
TsNode *ts_graph_chosen(TsGraph *g, const TsNode *n, const char *choice);
/* n once more in g with everything given: for passes that change types as well. */
TsNode *ts_graph_raw(TsGraph *g, const TsNode *n, const TsVal *in, TsGraph *const *region,
                     const TsAttr *attr, double number, const TsMeta *out);
int ts_graph_results(TsGraph *g, int n, const TsVal *v);
/* Which results shared bytes where the program ran operator by operator, as values alone do not
 * tell: equal calls are one value, and rules take copies away. Results with one number do; the
 * numbers below nparam are those of parameters. Copies of the graph keep it. Of a graph without
 * it, what shares is what its views say. */
int ts_graph_result_bytes(TsGraph *g, const int *bytes);
int ts_graph_result_spread(TsGraph *g, const bool *spread); /* for the same reason */
int ts_graph_update(TsGraph *g, int param, TsVal v);
/* Notes that value is a derivative; what d points to is copied. */
int ts_graph_note_derived(TsGraph *g, const TsDerived *d);

/* v as a value of g: itself, or the parameter of the region g that stands for it, entered
 * where it is new (and in the regions between). NULL with the error if v is from elsewhere. */
TsVal ts_graph_import(TsGraph *g, TsVal v);

/* The number of a place in the module, entered if new. */
int ts_graph_place(TsModule *u, const char *place);
const char *ts_graph_where(const TsNode *n);

/* What stands for v when the function is complete. */
static inline TsVal ts_graph_now(TsVal v) {
  while (v && v->instead) v = v->instead;
  return v;
}

static inline const TsMeta *ts_val_meta(TsVal v) { return &v->meta; }
const char *ts_node_name(const TsNode *n);
static inline bool ts_node_is_view(const TsNode *n) {
  return n->op < TS_OP_COUNT && ts_op_info((TsOp)n->op)->cls == TS_CLASS_VIEW;
}

/* The gradients of y by x, emitted into g: dx[i] is NULL where y does not depend on x[i].
 * dy[i] NULL: ones. -1 with the error, which names the operator and its line. */
int ts_graph_gradient(TsGraph *g, int ny, const TsVal *y, const TsVal *dy, int nx,
                      const TsVal *x, TsVal *dx);
/* The same with values that count as given: what they were computed from gets nothing
 * through them. */
int ts_graph_gradient_held(TsGraph *g, int ny, const TsVal *y, const TsVal *dy, int nx,
                           const TsVal *x, TsVal *dx, int nheld, const TsVal *held);
/* Forward mode: the derivative of y when x moves along v. Built as the transpose of the
 * reverse pass, which is linear in the gradients it starts from. */
int ts_graph_jvp(TsGraph *g, int nx, const TsVal *x, const TsVal *v, int ny, const TsVal *y,
                 TsVal *dy);
/* The same where each x moves along its v whatever it was computed from, and nothing is noted:
 * of single operators. */
int ts_graph_jvp_held(TsGraph *g, int nx, const TsVal *x, const TsVal *v, int ny,
                      const TsVal *y, TsVal *dy);

/* ---- text (ir/graph/text.c, ir/graph/parse.c): parse(print(g)) is g. Graphs that g calls
 * stand before it. Parameters behind ";" are captured; the text does not say by what, nor what
 * a custom node calls: see TS_GRAPH_UNBOUND. */
void ts_graph_text(const TsGraph *g, TsText *text);
void ts_graph_text_places(const TsGraph *g, TsText *text); /* "  // model.lua:12" ends lines */
void ts_node_text(const TsNode *n, TsText *text); /* its line alone, regions as "..." */
/* The last graph of the text. Operators of the table may leave their types out. */
TsGraph *ts_graph_parse(const char *text, TsError *err);
/* A text with symbolic sizes (ir/text/size.h), for the given values of B, T, N, M. */
TsGraph *ts_graph_parse_at(const char *text, const int64_t *symbol, TsError *err);
/* Types, counts, order, attributes of every node; messages quote the line. */
int ts_graph_check(const TsGraph *g, TsError *err);
/* The same nodes in the same order under the same names, as far as the text goes; places
 * aside. If not, why (may be NULL) gets the first difference. */
bool ts_graph_equal(const TsGraph *a, const TsGraph *b, TsText *why);

/* A word of the text: the TsOp or TsNodeOp, or TS_NODE_END. What its attributes are. */
int ts_node_find(const char *word, int len);
const TsAttrSpec *ts_node_attrs(int op, int *n);

#endif
