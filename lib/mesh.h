/* Meshes and layouts: which devices hold which part of a tensor. Nothing here moves a byte.
 *
 * A mesh is a grid of devices whose axes have names. A layout says, for each axis of a tensor, by
 * which axes of a mesh it is split; where an axis of the mesh splits nothing, its devices have the
 * same elements, or summands of them (`partial`). Both are made once and live as long as the
 * process; a tensor's type has the number of its layout (TsMeta.layout). */
#ifndef TS_LIB_MESH_H
#define TS_LIB_MESH_H

#include "lib/shape.h"
#include "lib/text.h"

enum {
  TS_MESH_AXES = 6,
  TS_MESH_MOST = 4096,  /* devices; more than there are can be planned with */
  TS_DEVICE_MESH = 15,  /* TsMeta.device of every tensor that is spread over a mesh, */
  TS_DEVICE_AWAY = 16,  /* and of those whose elements another process has (vm/mesh/away.h) */
  TS_LAYOUTS = 1 << 15, /* of a process */
  TS_LEAVES_MOST =
      4096 /* into which sums are cut, on one device or on as many as a mesh may have */
};

typedef struct TsMesh {
  int id, naxis, n; /* n: the product of the sizes */
  char axis[TS_MESH_AXES][16];
  int size[TS_MESH_AXES];
  /* By part, row-major: an index in the list of devices, TS_DEVICE_AWAY: it is another process's, or
   * -1: only planned with. And which process's, or -1: each process has a mesh of its own; and the
   * index in the list there. */
  int *device, *rank, *index;
} TsMesh;

typedef struct TsLayout {
  uint16_t id;
  const TsMesh *mesh;
  uint8_t ndim;
  uint8_t naxis[TS_MAX_RANK]; /* of the mesh, that split this axis of the tensor, */
  uint8_t axis[TS_MAX_RANK][TS_MESH_AXES]; /* which: the first has the largest pieces */
  int64_t block[TS_MAX_RANK]; /* pieces are dealt out in turn in blocks of so many; 0: in one */
  uint8_t stored;  /* bit a: axis a of the mesh splits how it is kept, not how it is used: calls bring
                      these pieces together when they need them; behind the axes that split both */
  uint8_t partial; /* bit a: parts along axis a of the mesh are summands */
  uint16_t pin[TS_MESH_AXES]; /* 1 + k: only the devices at place k along this axis have it */
  int leaves;                 /* where pieces may end, see ts_layout_cut; 0: as many as pieces */
} TsLayout;

/* The mesh with these axes; the same one each time. rank: by part, NULL: each
 * process has its own. own: this one's. NULL with the error. */
const TsMesh *ts_mesh_make(int naxis, const char *const *axis, const int *size,
                           const int *index, const int *rank, int own, TsError *err);
/* The mesh with these axes of parts of another one. */
const TsMesh *ts_mesh_of(const TsMesh *of, int naxis, const char *const *axis, const int *size,
                         const int *part, TsError *err);
static inline bool ts_mesh_away(const TsMesh *m, int p) {
  return m->device[p] == TS_DEVICE_AWAY;
}
const TsMesh *ts_mesh_at(int id); /* NULL: there is none */
/* The coordinate of part p along axis a. */
int ts_mesh_coordinate(const TsMesh *m, int p, int a);
int ts_mesh_axis(const TsMesh *m, const char *name, int len); /* -1: has none of that name */

const TsLayout *ts_layout_at(int id); /* 0: NULL */
/* The layout that is like this one, whatever its id is; the same one each time. NULL with the error,
 * also where a piece would have no leaf. */
const TsLayout *ts_layout_make(const TsLayout *like, TsError *err);
/* Of the mesh axes that split axis d those that split how it is used: the first ones. */
int ts_layout_used(const TsLayout *l, int d);
/* All devices have all of a tensor of so many axes. */
const TsLayout *ts_layout_replicated(const TsMesh *m, int ndim, TsError *err);
static inline const TsLayout *ts_layout_of(const TsMeta *m) { return ts_layout_at(m->layout); }
/* Whether part p has anything of it: pins say that others have nothing. */
bool ts_layout_has(const TsLayout *l, int p);
bool ts_layout_pinned(const TsLayout *l);
/* The same without pins, or with those of another one of its mesh. NULL with the error. */
const TsLayout *ts_layout_pin(const TsLayout *l, const TsLayout *as, TsError *err);

/* In how many pieces axis d is split, and which of them part p has. */
int ts_layout_pieces(const TsLayout *l, int d);
int ts_layout_piece(const TsLayout *l, int p, int d);
/* Where piece i of an axis of n elements begins; of `pieces`, where it ends. Leaf i of G begins
 * at floor(i n / G), and pieces are of whole leaves: piece j of P begins with leaf
 * floor(j G / P). */
int64_t ts_layout_cut(int64_t n, int pieces, int leaves, int i);
/* The largest complete subtrees of leaves lo..hi of a tree of n leaves, in which neighbours are
 * added level by level and an unpaired last one goes up as it is: how many. A subtree has the
 * leaves from place * 2^level on, and ends with ts_leaves_end. */
enum { TS_LEAF_SUMS = 40 };
int ts_leaves_subtrees(int n, int lo, int hi, int *level, int *place);
int ts_leaves_end(int n, int level, int place);
/* Whether `what`, an axis or a sum, that is cut into these pieces has a leaf for each; leaves 0: as
 * many as pieces. 0 or -1. */
int ts_leaves_check(int leaves, int pieces, const char *what, TsError *err);
/* Elements of axis d, of size n, that part p has: */
int64_t ts_layout_count(const TsLayout *l, int d, int64_t n, int p);
/* and run number i of them, neighbours in the whole: false behind the last one. */
bool ts_layout_run(const TsLayout *l, int d, int64_t n, int p, int i, int64_t *start,
                   int64_t *count);
/* The type of part p of a tensor of type m: its own sizes, no layout, its device. */
TsMeta ts_layout_part(const TsLayout *l, const TsMeta *m, int p);
/* The first part with the same elements as p. */
int ts_layout_first(const TsLayout *l, int p);

/* A layout as one word, "dp,,tp*ep/64": for each axis of a tensor the axes of the mesh that split
 * it, and the block in which pieces are dealt out; ";12" behind it where there are so
 * many leaves, else there are `leaves`. NULL with an error that names op. */
enum { /* each axis of the mesh stands in it once, perhaps with a block */
  TS_SPEC_TEXT = TS_MESH_AXES * (16 + 21) + TS_MAX_RANK + 12
};
const TsLayout *ts_layout_parse(const TsMesh *m, int ndim, const char *spec, int leaves,
                                const char *op, TsError *err);
const char *ts_layout_spec(const TsLayout *l, char text[TS_SPEC_TEXT]);
/* "@dp", behind the size of axis d in a type; nothing where it is not split. */
void ts_layout_axis_text(const TsLayout *l, int d, TsText *t);
/* {"dp", nil, {"tp", "pp"}, block = 4}: what dist.ShardSpec is made of. */
void ts_layout_spec_text(const TsLayout *l, TsText *t);
/* " sum@tp pp=1", behind the type; nothing where parts are no summands, and all devices have it. */
void ts_layout_sum_text(const TsLayout *l, TsText *t);

#endif
