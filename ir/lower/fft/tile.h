/* Fourier transforms as kernels in block form: the dataflow of vm/kernels/fft/fft.h, spread over
 * the threads of a GPU.
 *
 * The passes of all leaves, in order, see the input index as digits, the first the most
 * significant, and each turns its digit of time into one of frequency; frequencies are
 * numbered with the first digit the least significant. So between passes an element has a
 * number K below D, of the digits that are done, and a number t below M of those that are
 * not. A step does some passes that follow one another on E elements in registers: its tiles
 * are [R, D, M, C], R transforms of the batch and C of those that lie side by side, and
 * there are E of them. Between steps everything goes through shared memory [R, D, M, C],
 * with room behind M so that neighbouring threads meet different banks. Roots come from
 * plans (ir/lower/fft/plans.h): where they differ from element to element of a tile, they
 * are tables [E, D, M].
 *
 * A transform for which a block has no room is cut as its plan cuts it first, into columns and
 * rows of a matrix (ir/lower/fft/long.c), and takes several kernels where more than that is
 * done to it: its parts. */
#ifndef TS_IR_LOWER_FFT_TILE_H
#define TS_IR_LOWER_FFT_TILE_H

#include "ir/tile/sequence.h"
#include "lib/fft.h"

/* both: all but the split; there, back: the two transforms of Bluestein's convolution, between
 * which elements of the longer transform lie in memory; split: the half spectrum out of the
 * packed one. */
enum { TS_FFT_whole, TS_FFT_both, TS_FFT_there, TS_FFT_back, TS_FFT_split };

typedef struct TsFftForm {
  int kind, type;         /* TS_FFT_c2c, r2c, c2r; TS_FFT_f32, f64 */
  bool inverse, real;     /* real: the input of c2c is real */
  int64_t n, in_n, inner; /* transform; elements along the axis; elements side by side */
  int64_t batch;          /* about how many: chooses rows of a block only */
  int64_t shared;         /* bytes of memory that a block has; 0: as many as are of use */
  int part;               /* which kernel of them (ts_fft_parts) */
  double scale;
} TsFftForm;

enum { TS_FFT_TABLES = TS_TILE_STEP_PARAMS - 2 };

/* Parameters: x, the tables, y. Sizes: transforms, elements of x, and of y, each of them by the
 * number of those of one transform: of inner `in` and `to`. */
typedef struct TsFftTile {
  TsTile *tile;
  int64_t in, to;
  char *table; /* of all tables, freed by the caller */
  size_t nbytes;
  int ntable;
  size_t offset[TS_FFT_TABLES];
} TsFftTile;

/* -1 with the error: no kernel for this form. */
int ts_fft_tile(const TsFftForm *f, TsFftTile *t, TsError *err);
/* The parts that a form takes, how many; length: of the complex transform inside. -1 with the
 * error: no kernels for it. */
int ts_fft_parts(const TsFftForm *f, int part[3], int64_t *length, TsError *err);

/* ---- of this folder */
enum { TS_FFT_LOCAL = 64, TS_FFT_PASSES = 40 };

typedef struct TsFftCx {
  TsTileVal re, im;
} TsFftCx;

/* rest: of the leaf behind this pass; twist: behind the last pass of a leaf, the node whose
 * left side ends here, and the product of all digits before that side. */
typedef struct TsFftPass {
  int r;
  const TsFftChain *chain;
  int index;
  int64_t rest, before;
  const TsFftNode *twist;
} TsFftPass;

typedef struct TsFftStep {
  int first, count;
  int64_t e, d, m;
} TsFftStep;

/* A table [rows, d, t] (or [rows, d] with t 1) of complex constants, a parameter. */
typedef struct TsFftTable {
  TsTileVal memory;
  int64_t rows, d, t;
  char *at; /* elements, until the next table is made */
} TsFftTable;

typedef struct TsFftMake {
  const TsFftForm *f;
  TsFftTile *out;
  TsTile *k;
  TsTileBuild b;
  TsDtype real;
  bool wide; /* f64 */
  int size;
  int64_t length; /* of the transform inside */
  int64_t rows, cols;
  bool transposed; /* the last tiles are [1, D, 1, R] */
  int npass, nstep;
  TsFftPass pass[TS_FFT_PASSES];
  TsFftStep step[TS_FFT_PASSES];
  TsFftTable roots[TS_FFT_PASSES]; /* behind each pass, where they differ in a tile */
  TsTileVal shared[2];             /* flat */
  int64_t room;
  int64_t dim[4]; /* of the tiles now */
  TsTileVal at_row, at_col;
  bool edge_row, edge_col;
  bool crowded; /* more tables than a kernel has parameters */
} TsFftMake;

/* ---- long.c, split.c. root: of the tree; line: w(n, k), k <= n/2. */
bool ts_fft_long_fits(const TsFftMake *m, const TsFftNode *root);
void ts_fft_long(TsFftMake *m, const TsFftPlan *p, const void *line);
void ts_fft_split_kernel(TsFftMake *m, const void *line);

/* ---- real.c. Of terms k and h - k, k < h - k, with w(n, k): both terms of the packed spectrum, re
 * and im exchanged, of the half one (merge), and the other way (split). */
typedef struct TsFftPair {
  TsFftCx lower, upper;
} TsFftPair;
TsFftPair ts_fft_merge_pair(TsFftMake *m, TsFftCx a, TsFftCx b, TsFftCx w);
TsFftPair ts_fft_split_pair(TsFftMake *m, TsFftCx a, TsFftCx b, TsFftCx w);
/* Of 2 k = h, and of k = 0, beside which lies term h. */
TsFftCx ts_fft_merge_middle(TsFftMake *m, TsFftCx x);
TsFftCx ts_fft_merge_ends(TsFftMake *m, TsFftCx first, TsFftCx last);
TsFftCx ts_fft_conj(TsFftMake *m, TsFftCx x);
/* Elements of complex (real) memory of rank 1 at positions; zeros, and nothing, outside. */
TsFftCx ts_fft_gather(TsFftMake *m, TsTileVal memory, TsTileVal at, bool edge);
void ts_fft_scatter(TsFftMake *m, TsTileVal memory, TsTileVal at, TsFftCx x);
TsTileVal ts_fft_gather_real(TsFftMake *m, TsTileVal memory, TsTileVal at);
void ts_fft_scatter_real(TsFftMake *m, TsTileVal memory, TsTileVal at, TsTileVal x);

/* ---- real.c. roots: w(n, k), k <= n/2. The packed spectrum of a half one, with re and im
 * exchanged, as the inverse transform takes it; and the half spectrum out of the packed one,
 * which lies in shared memory meanwhile. table: of the last step's roots. */
void ts_fft_load_half(TsFftMake *m, TsTileVal x, const void *roots, TsFftCx *v);
void ts_fft_store_split(TsFftMake *m, TsTileVal y, const TsFftTable *table, TsFftCx *v);

/* ---- tile.c */
enum { TS_FFT_SEGMENT = 64 }; /* bytes side by side that a block takes */
/* Of m->length, whose passes are listed: steps, then rows and columns of a block of which there
 * are about batch and inner, then threads. */
void ts_fft_cut_steps(TsFftMake *m);
void ts_fft_choose(TsFftMake *m, int64_t inner, int64_t batch, int64_t segment);
void ts_fft_set_threads(TsFftMake *m);
void ts_fft_take_shared(TsFftMake *m, int64_t least); /* elements */
int64_t ts_fft_room(const TsFftMake *m);              /* bytes of a block, some stand between */
bool ts_fft_fits(const TsFftMake *m, int64_t length);
/* base and up along an axis of the tile; whether x < n. */
TsTileVal ts_fft_own_index(TsFftMake *m, int axis, int64_t base);
TsTileVal ts_fft_below(TsFftMake *m, TsTileVal x, int64_t n);
/* index < n ? a : b, of the count indices from base on. */
TsFftCx ts_fft_pick_below(TsFftMake *m, int axis, int64_t base, int64_t count, int64_t n,
                          TsFftCx a, TsFftCx b);
TsFftCx ts_fft_scaled(TsFftMake *m, TsFftCx x);
/* Whether an access that ends at `end` of n may leave the memory. */
bool ts_fft_edge(const TsFftMake *m, int64_t end, int64_t n);

/* ---- core.c */
void ts_fft_passes(TsFftMake *m, const TsFftNode *root);
/* E tiles of the first step to those of the last. */
void ts_fft_core(TsFftMake *m, TsFftCx *v);
void ts_fft_set_dim(TsFftMake *m, int64_t r, int64_t d, int64_t t, int64_t c);
void ts_fft_first_dim(TsFftMake *m);
int64_t ts_fft_exchange_room(const TsFftMake *m);

TsTileType ts_fft_tile_type(const TsFftMake *m, TsDtype d);
TsTileVal ts_fft_all(TsFftMake *m, double v);   /* of the real type */
TsTileVal ts_fft_ints(TsFftMake *m, int64_t v); /* i64 */
TsTileVal ts_fft_iota(TsFftMake *m, int axis);
TsFftCx ts_fft_cmul(TsFftMake *m, TsFftCx a, TsTileVal wr, TsTileVal wi);
TsFftCx ts_fft_where(TsFftMake *m, TsTileVal c, TsFftCx a, TsFftCx b);
/* A position all over a tile. */
TsTileVal ts_fft_splat(TsFftMake *m, TsTileVal scalar);
static inline TsTileVal ts_fft_op(TsFftMake *m, int op, TsTileVal x, TsTileVal y) {
  return ts_tile_op2(&m->b, op, x, y);
}

TsFftTable ts_fft_table(TsFftMake *m, int64_t rows, int64_t d, int64_t t);
/* Of a line of constants, at index j; zeros from n on. mirror: j > mirror/2 has that of mirror
 * - j. */
TsFftTable ts_fft_line_table(TsFftMake *m, const void *line, int64_t rows, int64_t d, int64_t t,
                             int64_t n, int64_t mirror);
void ts_fft_table_set(TsFftMake *m, const TsFftTable *t, int64_t index, const void *re,
                      const void *im);
/* Row of a table over the axes 1 and 2 of the tile. */
TsFftCx ts_fft_table_row(TsFftMake *m, const TsFftTable *t, int64_t row);

/* Complex memory: elements of 8 bytes, or pairs of f64 along one more axis. */
TsTileType ts_fft_memory(const TsFftMake *m, int rank, const int64_t *dim);
TsFftCx ts_fft_load(TsFftMake *m, TsTileVal memory, const TsTileVal *at, const TsTileType *tile,
                    const int64_t *axes, bool edge);
void ts_fft_store(TsFftMake *m, TsTileVal memory, const TsTileVal *at, TsFftCx x,
                  const int64_t *axes, bool edge);
TsFftCx ts_fft_unpack(TsFftMake *m, TsTileVal x);
TsTileVal ts_fft_pack(TsFftMake *m, TsFftCx x);
/* Views of the shared memory, one for each part of an element that is moved by itself. */
void ts_fft_views(TsFftMake *m, int rank, const int64_t *dim, TsTileVal view[2]);
void ts_fft_put(TsFftMake *m, const TsTileVal view[2], const TsTileVal *at, TsFftCx x,
                bool edge);
TsFftCx ts_fft_get(TsFftMake *m, const TsTileVal view[2], const TsTileVal *at,
                   const TsTileType *tile, const int64_t *axes);

#endif
