/* What comes from disk as a code object of AMD's, before a loader sees it. See jit/code/link.h. */
#include <elf.h>
#include <stdint.h>
#include <string.h>

#include "jit/code/link.h"

enum { EM_AMD = 224, PAGE = 4096, SEGMENTS = 16, DESCRIPTOR = 64, ENTRY = 16, NOTE = 12 };

typedef struct Linked {
  const char *at;
  size_t size;
  const Elf64_Ehdr *head;
  const Elf64_Phdr *segment;
  const Elf64_Sym *sym;
  uint64_t nsym, nnames;
  const char *names;
} Linked;

static bool inside(const Linked *l, uint64_t at, uint64_t n) {
  return at <= l->size && n <= l->size - at;
}

/* The bytes at an address that is loaded; NULL: they are not all of one segment. */
static const char *loaded(const Linked *l, uint64_t address, uint64_t n, uint32_t flags) {
  for (int i = 0; i < l->head->e_phnum; i++) {
    const Elf64_Phdr *p = &l->segment[i];
    uint64_t by = address - p->p_vaddr;
    if (p->p_type == PT_LOAD && (p->p_flags & flags) == flags && address >= p->p_vaddr &&
        by <= p->p_filesz && n <= p->p_filesz - by)
      return l->at + p->p_offset + by;
  }
  return NULL;
}

static bool head(Linked *l) {
  const Elf64_Ehdr *h = l->head = (const void *)l->at;
  if (l->size < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) ||
      h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
      h->e_ident[EI_VERSION] != EV_CURRENT || h->e_machine != EM_AMD || h->e_type != ET_DYN)
    return false;
  bool sound =
      h->e_ehsize == sizeof *h && h->e_phentsize == sizeof(Elf64_Phdr) &&
      h->e_shentsize == sizeof(Elf64_Shdr) && h->e_phnum <= SEGMENTS && h->e_phoff % 8 == 0 &&
      h->e_shoff % 8 == 0 && inside(l, h->e_phoff, h->e_phnum * sizeof(Elf64_Phdr)) &&
      inside(l, h->e_shoff, h->e_shnum * sizeof(Elf64_Shdr)) && h->e_shstrndx < h->e_shnum;
  if (sound) l->segment = (const void *)(l->at + h->e_phoff);
  return sound;
}

/* Each of the file's own bytes, one behind another, in pages of its own. */
static bool segments(const Linked *l) {
  uint64_t end = 0;
  for (int i = 0; i < l->head->e_phnum; i++) {
    const Elf64_Phdr *p = &l->segment[i];
    if (!inside(l, p->p_offset, p->p_filesz) || p->p_memsz != p->p_filesz) return false;
    if (p->p_type != PT_LOAD) continue;
    if (p->p_vaddr % PAGE != p->p_offset % PAGE || p->p_vaddr / PAGE * PAGE < end ||
        p->p_vaddr > p->p_offset + SEGMENTS * PAGE)
      return false;
    end = p->p_vaddr + p->p_filesz;
  }
  return end > 0;
}

static bool sections(const Linked *l) {
  const Elf64_Shdr *s = (const void *)(l->at + l->head->e_shoff);
  const Elf64_Shdr *words = &s[l->head->e_shstrndx];
  if (words->sh_type != SHT_STRTAB || !words->sh_size ||
      !inside(l, words->sh_offset, words->sh_size) ||
      l->at[words->sh_offset + words->sh_size - 1])
    return false;
  for (int i = 1; i < l->head->e_shnum; i++)
    if (!inside(l, s[i].sh_offset, s[i].sh_size) || s[i].sh_name >= words->sh_size ||
        s[i].sh_link >= l->head->e_shnum || s[i].sh_type == SHT_NOBITS)
      return false;
  return true;
}

/* Lengths of names and of what they name: there is one, which tells what kernels take. */
static bool notes(const Linked *l) {
  int n = 0;
  for (int i = 0; i < l->head->e_phnum; i++) {
    const Elf64_Phdr *p = &l->segment[i];
    if (p->p_type != PT_NOTE) continue;
    if (p->p_offset % 4) return false;
    for (uint64_t at = 0; at < p->p_filesz; n++) {
      Elf64_Nhdr note;
      if (p->p_filesz - at < NOTE) return false;
      memcpy(&note, l->at + p->p_offset + at, NOTE);
      uint64_t name = ((uint64_t)note.n_namesz + 3) & ~(uint64_t)3;
      uint64_t text = ((uint64_t)note.n_descsz + 3) & ~(uint64_t)3;
      if (name + text > p->p_filesz - at - NOTE) return false;
      at += NOTE + name + text;
    }
  }
  return n == 1;
}

static uint64_t entry(const Linked *l, const Elf64_Phdr *dynamic, int64_t tag) {
  const Elf64_Dyn *d = (const void *)(l->at + dynamic->p_offset);
  for (uint64_t i = 0; i < dynamic->p_filesz / sizeof *d; i++)
    if (d[i].d_tag == tag) return d[i].d_un.d_val;
  return 0;
}

/* Buckets, then for each symbol the next one of its bucket: an earlier one, so that chains end. */
static bool table_of_names(Linked *l, uint64_t address) {
  const uint32_t *hash = (const void *)loaded(l, address, 8, PF_R);
  if (!hash || address % 4 || !hash[0] || hash[1] > l->size / sizeof(Elf64_Sym)) return false;
  uint64_t nbucket = hash[0];
  l->nsym = hash[1];
  if (!loaded(l, address, 4 * (2 + nbucket + l->nsym), PF_R)) return false;
  for (uint64_t i = 0; i < nbucket; i++)
    if (hash[2 + i] >= l->nsym) return false;
  for (uint64_t i = 1; i < l->nsym; i++)
    if (hash[2 + nbucket + i] >= i) return false;
  return l->nsym > 0;
}

static bool symbols(Linked *l) {
  const Elf64_Phdr *dynamic = NULL;
  for (int i = 0; i < l->head->e_phnum; i++)
    if (l->segment[i].p_type == PT_DYNAMIC) dynamic = &l->segment[i];
  if (!dynamic || dynamic->p_offset % 8 || dynamic->p_filesz % sizeof(Elf64_Dyn) ||
      dynamic->p_filesz < sizeof(Elf64_Dyn))
    return false;
  const Elf64_Dyn *last = (const void *)(l->at + dynamic->p_offset + dynamic->p_filesz);
  if (last[-1].d_tag != DT_NULL || entry(l, dynamic, DT_SYMENT) != sizeof *l->sym ||
      !table_of_names(l, entry(l, dynamic, DT_HASH)))
    return false;
  uint64_t at = entry(l, dynamic, DT_SYMTAB);
  l->sym = (const void *)loaded(l, at, l->nsym * sizeof *l->sym, PF_R);
  l->nnames = entry(l, dynamic, DT_STRSZ);
  l->names = l->nnames ? loaded(l, entry(l, dynamic, DT_STRTAB), l->nnames, PF_R) : NULL;
  if (!l->sym || ((const char *)l->sym - l->at) % 8 || !l->names || l->names[l->nnames - 1])
    return false;
  for (uint64_t i = 1; i < l->nsym; i++) {
    const Elf64_Sym *s = &l->sym[i];
    bool code = ELF64_ST_TYPE(s->st_info) == STT_FUNC;
    if (s->st_name >= l->nnames || s->st_shndx == SHN_UNDEF ||
        s->st_shndx >= l->head->e_shnum ||
        !loaded(l, s->st_value, s->st_size, code ? PF_X : PF_R))
      return false;
  }
  return true;
}

static const Elf64_Sym *find(const Linked *l, const char *name, const char *more, int type) {
  size_t n = strlen(name);
  for (uint64_t i = 1; i < l->nsym; i++) {
    const char *is = l->names + l->sym[i].st_name;
    if (ELF64_ST_TYPE(l->sym[i].st_info) == type && !strncmp(is, name, n) &&
        !strcmp(is + n, more))
      return &l->sym[i];
  }
  return NULL;
}

/* A kernel is its code, and a descriptor that says how far it is from there. */
static bool is_kernel(const Linked *l, const char *name) {
  const Elf64_Sym *code = find(l, name, "", STT_FUNC), *d = find(l, name, ".kd", STT_OBJECT);
  const char *at =
      d && d->st_size == DESCRIPTOR ? loaded(l, d->st_value, DESCRIPTOR, PF_R) : NULL;
  int64_t by;
  if (!at || !code || !code->st_size) return false;
  memcpy(&by, at + ENTRY, sizeof by);
  return d->st_value + (uint64_t)by == code->st_value;
}

bool ts_link_sound(const void *linked, size_t size, int nkernel, const char *const *kernel) {
  Linked l = {.at = linked, .size = size};
  if ((uintptr_t)linked % 8 || !head(&l) || !segments(&l) || !sections(&l) || !notes(&l) ||
      !symbols(&l))
    return false;
  for (int i = 0; i < nkernel; i++)
    if (!is_kernel(&l, kernel[i])) return false;
  return true;
}
