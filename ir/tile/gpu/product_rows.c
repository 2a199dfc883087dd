/* What follows a product: rows on pieces of its sums, and how these go to memory. See
 * ir/tile/gpu/product.c. */
#include "ir/tile/gpu/product_state.h"

typedef TsTileVal V;
typedef TsGpuProductState Product;

static V number(Product *p, int64_t i) { return ts_tile_index(&p->b, i); }
static V op2(Product *p, int op, V x, V y) { return ts_tile_op2(&p->b, op, x, y); }
static V by(Product *p, int op, V x, int64_t y) { return ts_gpu_by(&p->b, op, x, y); }

V ts_gpu_rows_part(Product *p, V x, int64_t col, int64_t cols) {
  TsTileType t = x->type;
  t.dim[1] = cols;
  TsTileStmt *s = ts_gpu_say(&p->b, TS_TILE_part, TS_GPU_IN(x),
                             TS_GPU_SET({"start", ts_gpu_list(2, (int64_t[]){0, col})}), &t);
  return s ? s->out[0] : NULL;
}

static V widened(Product *p, V x, const TsTileType *t) {
  return ts_tile_cast(&p->b, x, (TsDtype)t->dtype);
}

/* ---- columns that all rows of a tile read: on their way while products are made, then near */
V ts_gpu_rows_line(Product *p, int64_t col) {
  V slot = by(p, TS_OP_mul, by(p, TS_OP_bitwise_and, p->lines, 1), p->x.cols);
  return by(p, TS_OP_add, slot, col);
}

static V line_source(Product *p, int i) { return i ? p->param[i] : p->bias; }

void ts_gpu_rows_fetch(Product *p) {
  int64_t shape[1] = {p->x.cols};
  bool any = false;
  for (int i = 0; i < TS_GPU_EPILOGUE_PARAMS; i++) {
    if (!p->line[i]) continue;
    any = true;
    ts_gpu_say(&p->b, TS_TILE_copy_async,
               TS_GPU_IN(p->line[i], line_source(p, i), ts_gpu_rows_line(p, 0), p->n0),
               TS_GPU_SET({"shape", ts_gpu_list(1, shape)}), NULL);
  }
  if (any)
    ts_gpu_say(&p->b, TS_TILE_commit, 0, NULL, TS_GPU_SET({"of", ts_gpu_choice(0)}), NULL);
}

void ts_gpu_rows_wait(Product *p) {
  bool any = false;
  for (int i = 0; i < TS_GPU_EPILOGUE_PARAMS; i++) any = any || p->line[i];
  if (!any) return;
  ts_gpu_say(&p->b, TS_TILE_wait, 0, NULL,
             TS_GPU_SET({"pending", ts_gpu_whole(0)}, {"of", ts_gpu_choice(0)}), NULL);
  ts_gpu_plain(&p->b, TS_TILE_sync);
}

/* Pointwise rows on some columns of the sums, which begin at column n of the result. */
V ts_gpu_rows_plain(Product *p, V x, V n, int64_t col) {
  TsTileType t = x->type, line = ts_tile_vector(p->x.out, t.dim[1]);
  TsTileAccess edge = {.edge = true};
  line.space = TS_SPACE_fragment;
  if (p->bias) {
    V near = p->line[0] ? ts_gpu_rows_line(p, col) : NULL;
    V v = near ? ts_tile_load(&p->b, p->line[0], &near, &line, NULL)
               : ts_tile_load(&p->b, p->bias, &n, &line, &edge);
    v = widened(p, v, &t);
    x = op2(p, TS_OP_add, x, ts_tile_broadcast(&p->b, v, &t, (int64_t[]){1}));
  }
  if (p->x.activation) x = ts_tile_op1(&p->b, p->x.activation, x);
  if (p->residual) {
    V r = ts_tile_load(&p->b, p->residual, (V[]){p->m0, n}, &t, &edge);
    x = op2(p, TS_OP_add, x, widened(p, r, &t));
  }
  return ts_tile_cast(&p->b, x, p->x.out);
}

/* Buffers take turns across tiles: with an odd number of pieces a tile begins with the buffer
 * that the one before did not begin with. */
static V buffer_of(Product *p, int64_t piece) {
  int n = p->x.buffers;
  int64_t all = p->x.cols / p->width * (p->x.epilogue ? p->x.epilogue->nout : 1);
  if (n == 1 || all % 2 == 0) return number(p, piece % n);
  return by(p, TS_OP_bitwise_and, by(p, TS_OP_add, p->nth, piece), 1);
}

/* A piece goes to a buffer and from there by the copy engine, which takes what lies inside of
 * C. A buffer is free when as many stores as there are buffers, less one, have yet to read
 * theirs. */
void ts_gpu_rows_put(Product *p, V y, V buffer, int64_t col) {
  V at[3] = {buffer, number(p, 0), number(p, col)};
  ts_tile_store(&p->b, p->sc, at, y, NULL);
}

void ts_gpu_rows_send(Product *p, V to, V m, V n, V buffer) {
  V zero = number(p, 0);
  int64_t shape[2] = {p->rows, p->width};
  ts_gpu_say(&p->b, TS_TILE_fence, 0, NULL, TS_GPU_SET({"scope", ts_gpu_choice(2)}), NULL);
  ts_gpu_plain(&p->b, TS_TILE_sync);
  V in[9] = {to, p->sc};
  int nin = 2;
  if (to && to->type.rank == 4) in[nin++] = p->at[0], in[nin++] = p->at[1] ? p->at[1] : zero;
  in[nin++] = m, in[nin++] = n, in[nin++] = buffer, in[nin++] = zero, in[nin++] = zero;
  ts_gpu_plain(&p->b, TS_TILE_await_launch);
  ts_gpu_say(&p->b, TS_TILE_store_bulk, nin, in, TS_GPU_SET({"shape", ts_gpu_list(2, shape)}),
             NULL);
  ts_gpu_commit(&p->b, TS_GPU_STORES);
}

static void send_piece(Product *p, V to, V n, V buffer) {
  ts_gpu_rows_send(p, to, p->m0, n, buffer);
}

static void store_piece(Product *p, V to, V y, V n, V buffer) {
  ts_gpu_wait(&p->b, TS_GPU_STORES, p->x.buffers - 1);
  ts_gpu_plain(&p->b, TS_TILE_sync);
  ts_gpu_rows_put(p, y, buffer, 0);
  send_piece(p, to, n, buffer);
}

/* ---- rows of a block form */
void ts_gpu_rows_begin(Product *p, V x, V n, int64_t piece) {
  TsGpuEpiloguePiece *c = &p->rows_of;
  ts_gpu_epilogue_begin(c, p->m0, n, ts_gpu_rows_line(p, piece * p->width));
  c->made[p->x.epilogue->mma->out[0]->id] = x;
}

V ts_gpu_rows_result(Product *p, int i) {
  return ts_gpu_epilogue(&p->rows_of, p->x.epilogue->out[i]);
}

V ts_gpu_rows_param(Product *p, int i) { return p->param[p->x.epilogue->to[i]->index]; }

/* Pieces of the tile before are no longer read. */
void ts_gpu_rows_room(Product *p) {
  int pieces = ts_gpu_product_pieces(p);
  ts_gpu_wait(&p->b, TS_GPU_STORES, 0);
  ts_gpu_plain(&p->b, TS_TILE_sync);
  for (int i = 0; i < pieces; i++)
    ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(p->room, number(p, i)), 0, NULL, NULL);
}

/* In the place of what was added. */
static void epilogue_in_place(Product *p, V x, V n, int64_t piece) {
  V at = number(p, piece), zero = number(p, 0);
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->came, at, by(p, TS_OP_bitwise_and, p->nth, 1)),
             0, NULL, NULL);
  ts_gpu_rows_begin(p, x, n, piece);
  p->rows_of.prefetched = p->prefetched;
  p->rows_of.came =
      ts_gpu_sums_fragment(p, p->x.out, p->rows, p->width, p->sc, (V[]){at, zero, zero}, NULL);
  V y = ts_gpu_rows_result(p, 0);
  ts_gpu_rows_put(p, y, at, 0);
  send_piece(p, ts_gpu_rows_param(p, 0), n, at);
}

/* By the threads that multiply: every result of a piece, one after the other. */
static void epilogue_here(Product *p, V x, V n, int64_t piece) {
  const TsGpuEpilogue *f = p->x.epilogue;
  if (p->prefetched) {
    epilogue_in_place(p, x, n, piece);
    return;
  }
  ts_gpu_rows_begin(p, x, n, piece);
  for (int i = 0; i < f->nout; i++)
    store_piece(p, ts_gpu_rows_param(p, i), ts_gpu_rows_result(p, i), n,
                buffer_of(p, piece * f->nout + i));
}

/* Some columns of a tile from the registers. */
static void store_direct(Product *p, V y, V n) {
  TsTileAccess edge = {.edge = true};
  V high = p->at[1] ? p->at[1] : number(p, 0);
  if (p->x.ragged == TS_GPU_RAGGED_rows)
    ts_gpu_store_below(&p->b, p->c, p->m0, n, p->end, y);
  else
    ts_tile_store(&p->b, p->c,
                  p->c->type.rank == 4 ? (V[]){p->at[0], high, p->m0, n} : (V[]){p->m0, n}, y,
                  &edge);
}

/* A tile that its group does not fill: what is behind belongs to the next one. */
static void part_of_tile(Product *p, V acc) {
  ts_gpu_wait(&p->b, TS_GPU_STORES, 0); /* buffers' turns go on with the next tile */
  ts_gpu_plain(&p->b, TS_TILE_await_launch);
  for (int64_t at = 0; acc && at < p->x.cols; at += p->width) {
    V n = at ? by(p, TS_OP_add, p->n0, at) : p->n0;
    store_direct(p, ts_gpu_rows_plain(p, ts_gpu_rows_part(p, acc, at, p->width), n, at), n);
  }
}

static void whole_tile(Product *p, V acc) {
  int64_t width = p->unit ? p->width : p->x.cols;
  if (!p->unit) ts_gpu_plain(&p->b, TS_TILE_await_launch);
  for (int64_t at = 0; acc && at < p->x.cols; at += width) {
    V n = at ? by(p, TS_OP_add, p->n0, at) : p->n0;
    V x = width < p->x.cols ? ts_gpu_rows_part(p, acc, at, width) : acc;
    if (p->x.epilogue)
      epilogue_here(p, x, n, at / width);
    else if (p->unit)
      store_piece(p, p->c, ts_gpu_rows_plain(p, x, n, at), n, buffer_of(p, at / width));
    else
      store_direct(p, ts_gpu_rows_plain(p, x, n, at), n);
  }
}

void ts_gpu_rows_all(Product *p, V acc) {
  TsTileRegion *before = p->b.at;
  if (p->x.ragged != TS_GPU_RAGGED_rows || !p->unit) {
    whole_tile(p, acc);
    return;
  }
  V filled = op2(p, TS_OP_le, by(p, TS_OP_add, p->m0, p->rows), p->end);
  TsTileStmt *s = filled ? ts_tile_emit(&p->b, TS_TILE_if, 1, &filled, NULL, 0, NULL) : NULL;
  if (!s) return;
  p->b.at = s->region[0];
  whole_tile(p, acc);
  p->b.at = s->region[1];
  part_of_tile(p, acc);
  p->b.at = before;
}
