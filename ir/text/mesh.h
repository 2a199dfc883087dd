/* The mesh in IR text: a line in front of the graphs, which types name the axes of.
 *
 *   mesh {dp=2 tp=4} leaves 8 on [0,1,2,3,4,5,6,7]
 *
 * In a job of several processes a device is one of a rank, "0@2". leaves stand there where sums are cut (lib/mesh.h), numbers of devices unless all are only
 * planned with. */
#ifndef TS_IR_TEXT_MESH_H
#define TS_IR_TEXT_MESH_H

#include "ir/text/lex.h"
#include "lib/mesh.h"
#include "lib/text.h"

void ts_text_mesh(TsText *t, const TsMesh *m, int leaves);
/* Takes the line, if it is there. */
int ts_read_mesh(TsReader *r);
/* The "@dp*tp/4" behind the size of axis d, " sum@tp" behind the type, if they are there; and the
 * layout of the type, if it has any. */
int ts_read_split(TsReader *r, TsLayout *l, int d);
int ts_read_summands(TsReader *r, TsLayout *l);

#endif
