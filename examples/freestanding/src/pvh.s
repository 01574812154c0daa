# From the state in which a loader of PVH images starts the image to Rust. The rules are in pvh.rs.

# The loader finds the entry point here: XEN_ELFNOTE_PHYS32_ENTRY, 18.
    .section .note.pvh, "a", @note
    .balign 4
    .long 4                         # length of the name
    .long 8                         # length of the address
    .long 18
    .asciz "Xen"
    .quad pvh_entry

    .section .text.pvh, "ax", @progbits
    .code32
pvh_entry:
    cli
    cld
    # One GiB in pages of 2 MiB: the tables are zero before, so that all else is absent.
    movl $(page_directories + 3), page_map              # present, writable
    movl $(page_directory + 3), page_directories
    xorl %ecx, %ecx
2:
    movl %ecx, %eax
    shll $21, %eax
    orl $0x83, %eax                                     # present, writable, 2 MiB
    movl %eax, page_directory(,%ecx,8)
    incl %ecx
    cmpl $512, %ecx
    jne 2b
    movl $page_map, %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orl $((1 << 5) | (1 << 9) | (1 << 10)), %eax        # PAE, OSFXSR, OSXMMEXCPT
    movl %eax, %cr4
    movl $0xc0000080, %ecx                              # EFER
    rdmsr
    orl $(1 << 8), %eax                                 # LME: paging switches long mode on
    wrmsr
    movl %cr0, %eax
    andl $0x9ffffff3, %eax                              # no CD, NW (caches on), no TS, EM (SSE on)
    orl $((1 << 31) | (1 << 1)), %eax                   # PG, MP
    movl %eax, %cr0
    lgdt descriptors_at
    ljmpl $8, $long_mode

    .code64
long_mode:
    movl $16, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs
    movl $stack_top, %esp
    xorl %ebp, %ebp                                     # the outermost frame
    call {main}
    ud2

    .section .rodata.pvh, "a", @progbits
    .balign 8
descriptors:
    .quad 0
    .quad 0x00af9a000000ffff                            # 8: code, 64 bits
    .quad 0x00cf92000000ffff                            # 16: data
descriptors_at:
    .word descriptors_at - descriptors - 1
    .long descriptors

    .section .bss.pvh, "aw", @nobits
    .balign 4096
page_map:
    .skip 4096
page_directories:
    .skip 4096
page_directory:
    .skip 4096
    .skip 1024 * 1024
stack_top:

    .text
