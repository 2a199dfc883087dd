/* What a product whose sum is sent in chunks of rows is made of, as far as rows stay rows.
 *
 * Of two products behind each other the second alone has something to hide its sum with, if
 * the first is made whole. So what the product reads is made chunk by chunk as well: other
 * products, what stands between them element by element or row by row, and products beside
 * those (gates), if nobody else reads it before. Who reads it later (a backward pass, the
 * gradient of a weight) gets the chunks put together. */
#ifndef TS_IR_MESH_CHAIN_H
#define TS_IR_MESH_CHAIN_H

#include "ir/mesh/chunked.h"

enum { TS_CHAIN_IN = 4, TS_CHAIN_MOST = 64 };

/* What a first plan has found out about a node. */
typedef struct TsChainNode {
  bool can; /* parts of its rows can be made by themselves */
  bool product;
  bool home[TS_CHAIN_IN]; /* it reads these operands as they were made */
  int8_t in[TS_CHAIN_IN][TS_MAX_RANK], out[TS_MAX_RANK]; /* factors of axes */
  TsPhase phase;
  int chunk;
  const TsLayout *layout;
  double usec, rows, columns, bytes; /* of one device; rows and columns of a product */
  int of, axis; /* of a chain: 1 + the id of the product behind it, and where it is cut */
  int nchunk;   /* of a product that is cut so: into how many */
  bool kept;    /* somebody else reads it, later */
} TsChainNode;

/* By node of the graph. */
typedef struct TsChains {
  TsChainNode *node;
  const unsigned char *live;
} TsChains;

/* Into how many pieces the mesh cuts what a factor counts. */
int ts_chain_pieces(const TsSlots *a, const TsFactor *f);
/* Rows of l's parts along axis d can be cut into n chunks that are alike. */
bool ts_chain_divides(const TsSlots *a, const TsLayout *l, const TsMeta *m, int d, int n);
/* Of a first plan: notes what the node is. */
void ts_chain_look(TsSlots *a, const TsNodeCall *k, const TsMeta *out);
/* The nodes that can be made with n chunks of the product k along axis, by rising id; 0 if
 * there is no product among them. Of a second plan: those that were taken. */
int ts_chain_find(const TsSlots *a, const TsNodeCall *k, int axis, int n, int *id);
/* These are made with k, in so many chunks, by the second plan. */
void ts_chain_take(TsSlots *a, const TsNodeCall *k, int nchunk, const int *id, int n);
/* It is made with a product behind it. */
bool ts_chain_holds(const TsSlots *a, const TsNode *n);

#endif
