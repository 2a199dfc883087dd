/* The linker of AMD's objects (jit/code/link.h): what it makes is a shared object whose sections
 * have the bytes of the object; damaged objects give an error or a code object, never more. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/pass/nearly.h"
#include "jit/code/link.h"
#include "jit/compile/llvm.h"
#include "jit/gpu/code.h"
#include "tests/jit/gpu/families.h"

static int failures;

static void check(bool good, const char *what) {
  if (!good) failures++, printf("%s\n", what);
}

static bool object_of(const char *text, TsText *out) {
  TsError err = {0};
  TsGpuPlan plan;
  TsGpuCode code;
  int64_t shared[TS_GPU_PHASES];
  TsTile *k = ts_tile_parse(text, &err), *e = k ? ts_tile_expand(k, &err) : NULL;
  TsGpuJob job = {.plan = &plan, .form = TS_GPU_aligned, .shared = shared};
  bool made =
      e && !ts_gpu_code_outline(e, ts_target("gfx942"), true, &code, &plan, &err) &&
      !ts_llvm_emit(e, ts_target("gfx942"), NULL, TS_LLVM_object, ts_gpu_emit, &job, out, &err);
  if (!made) printf("%s\n", err.message);
  ts_tile_free(k), ts_tile_free(e);
  return made;
}

static const Elf64_Shdr *section(const char *elf, const char *name) {
  const Elf64_Ehdr *h = (const void *)elf;
  const Elf64_Shdr *s = (const void *)(elf + h->e_shoff);
  for (int i = 1; i < h->e_shnum; i++)
    if (!strcmp(elf + s[h->e_shstrndx].sh_offset + s[i].sh_name, name)) return &s[i];
  return NULL;
}

/* Code has no relocations of its own in these kernels, so its bytes stay; so do notes. */
static void kept(const char *object, const char *linked) {
  static const char *const name[] = {".text", ".note"};
  for (int i = 0; i < 2; i++) {
    const Elf64_Shdr *x = section(object, name[i]), *y = section(linked, name[i]);
    check(x && y && x->sh_size == y->sh_size &&
              !memcmp(object + x->sh_offset, linked + y->sh_offset, x->sh_size),
          "a section has other bytes");
    check(y && y->sh_addr % (x->sh_addralign ? x->sh_addralign : 1) == 0, "a crooked address");
  }
}

/* A descriptor says how far the code is from it. */
static void descriptor(const char *linked) {
  const Elf64_Shdr *sym = section(linked, ".dynsym"), *names = section(linked, ".dynstr"),
                   *rodata = section(linked, ".rodata");
  uint64_t code = 0, at = 0;
  int64_t by;
  check(sym && names && rodata, "a table is missing");
  if (!sym || !names || !rodata) return;
  const Elf64_Sym *s = (const void *)(linked + sym->sh_offset);
  for (uint64_t i = 0; i < sym->sh_size / sizeof *s; i++) {
    const char *name = linked + names->sh_offset + s[i].st_name;
    if (!strcmp(name, "phase0")) code = s[i].st_value;
    if (!strcmp(name, "phase0.kd")) at = s[i].st_value;
  }
  memcpy(&by, linked + rodata->sh_offset + (at - rodata->sh_addr) + 16, sizeof by);
  check(code && at && at + (uint64_t)by == code, "the descriptor leads elsewhere");
}

static void damage(const TsText *object) {
  char *copy = malloc(object->len);
  srand(3);
  for (int i = 0; i < 20000; i++) {
    char *out;
    size_t size, n = i % 3 ? object->len : (size_t)rand() % object->len;
    TsError err = {0};
    memcpy(copy, object->at, object->len);
    for (int k = rand() % 4; k >= 0; k--) {
      size_t at = (size_t)rand() % object->len;
      if (rand() % 2) at = at % 64 ? at % 64 : object->len - 1 - at % 640 % object->len;
      copy[at] = (char)rand();
    }
    if (ts_link_amd(copy, n, &out, &size, &err))
      check(*err.message != 0, "an error without words");
    else
      free(out);
  }
  free(copy);
}

/* As it comes from a disk where anybody may write. */
static const char *const phases[] = {"phase0", "phase1", "phase2", "phase3"};

static int phases_of(const char *linked, size_t size) {
  int n = 0;
  while (n < 4 && ts_link_sound(linked, size, n + 1, phases)) n++;
  return n;
}

/* Each of these is a place that a loader goes to without looking. */
static void forge(const char *linked, size_t size) {
  char *copy = malloc(size);
  Elf64_Ehdr *h = (void *)copy;
  const char *at = section(linked, ".dynsym") ? linked : NULL;
  const Elf64_Shdr *sym = section(linked, ".dynsym"), *hash = section(linked, ".hash"),
                   *dynamic = section(linked, ".dynamic"), *note = section(linked, ".note"),
                   *rodata = section(linked, ".rodata");
  check(at && hash && dynamic && note && rodata, "a table is missing");
  for (int i = 0; i < 14; i++) {
    memcpy(copy, linked, size);
    Elf64_Phdr *p = (void *)(copy + h->e_phoff);
    Elf64_Sym *s = (void *)(copy + sym->sh_offset);
    Elf64_Dyn *d = (void *)(copy + dynamic->sh_offset);
    uint32_t *table = (void *)(copy + hash->sh_offset), *n = (void *)(copy + note->sh_offset);
    switch (i) {
    case 0: h->e_phoff = size; break;
    case 1: h->e_shoff = size - 8; break;
    case 2: p[1].p_filesz = p[1].p_memsz = size + 1; break;
    case 3: p[1].p_memsz += (uint64_t)1 << 40; break;
    case 4: p[2].p_vaddr = p[1].p_vaddr; break;
    case 5: s[1].st_value = (uint64_t)1 << 40; break;
    case 6: s[1].st_name = 1 << 30; break;
    case 7: s[1].st_size = size; break;
    case 8: d[0].d_un.d_val = (uint64_t)-8; break;
    case 9: table[1] = 1 << 28; break;
    case 10: table[2 + table[0] + 1] = 1; break; /* a chain without an end */
    case 11: n[1] = 1 << 30; break;
    case 12: h->e_phentsize = 8; break;
    case 13: copy[rodata->sh_offset + 17] ^= 1; break; /* the way to the code */
    }
    check(!ts_link_sound(copy, size, 1, phases), "a forged object is sound");
    if (ts_link_sound(copy, size, 1, phases)) printf("case %d\n", i);
  }
  free(copy);
}

static void from_disk(const char *linked, size_t size) {
  int n = phases_of(linked, size);
  check(n > 0, "what was linked is not sound");
  check(!ts_link_sound(linked, size, 4, phases), "kernels that are not in it");
  forge(linked, size);
  for (size_t i = 0; i < size; i += i < 4096 ? 1 : 61)
    check(!ts_link_sound(linked, i, n, phases), "a part of an object is sound");
  char *copy = malloc(size);
  for (int i = 0; i < 20000; i++) { /* whatever it says, nothing beyond is read */
    memcpy(copy, linked, size);
    for (int k = rand() % 4; k >= 0; k--) {
      size_t at = rand() % 2 ? (size_t)rand() % size : (size_t)rand() % 1024;
      copy[at] = (char)rand();
    }
    ts_link_sound(copy, size, n, phases);
  }
  free(copy);
}

int main(void) {
  TsError err = {0};
  if (!ts_llvm_present()) return printf("skipped: no LLVM\n"), 0;
  for (int i = 0; i < 4; i++) {
    TsText object = {0};
    char *linked = NULL;
    size_t size = 0;
    if (!object_of(families[i], &object)) return 1;
    check(!ts_link_amd(object.at, object.len, &linked, &size, &err), err.message);
    if (linked) {
      const Elf64_Ehdr *h = (const void *)linked;
      check(h->e_type == ET_DYN && h->e_machine == 224 && h->e_ident[EI_OSABI] == 64,
            "no code object");
      if (i != 0) kept(object.at, linked);
      descriptor(linked);
      from_disk(linked, size);
    }
    if (i == 0) damage(&object);
    free(linked), ts_text_free(&object);
  }
  check(ts_link_amd("no object", 9, &(char *){NULL}, &(size_t){0}, &err) != 0,
        "a text is linked");
  return failures > 0;
}
