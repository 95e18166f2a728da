/* The pieces that attacks are made of, on A64: in assembler, each in the middle of a function with unwind tables. */
#include "attack.h"

#define FUNCTION(name) ".globl " #name "\n.type " #name ", %function\n" #name ":\n.cfi_startproc\n"
#define END(name) ".cfi_endproc\n.size " #name ", . - " #name "\n"
#define LABEL(name) ".globl " #name "\n" #name ":\n"
#define ENTER "stp x29, x30, [sp, #-16]!\n.cfi_adjust_cfa_offset 16\nmov x29, sp\n"
#define LEAVE "ldp x29, x30, [sp], #16\nret\n"
#define VARIABLE(name, reg) "adrp " reg ", " #name "\nldr " reg ", [" reg ", #:lo12:" #name "]\n"
#define EXIT "mov w0, #42\nmov w8, #94\nsvc #0\nbrk #1\n"

__asm__(
	".text\n.balign 4\n"
	FUNCTION(lib_one) "nop\nmov x3, x0\n" LABEL(g_pop_rdi) "ldp x0, x30, [sp], #16\nret\n" END(lib_one)
	FUNCTION(lib_two) "nop\nmov x3, x1\n" LABEL(g_pop_rsi) "ldp x1, x30, [sp], #16\nret\n" END(lib_two)
	FUNCTION(lib_three) "nop\nmov x3, x2\n" LABEL(g_pop_rdx) "ldp x2, x30, [sp], #16\nret\n" END(lib_three)
	FUNCTION(lib_four) "nop\nmov x3, x8\n" LABEL(g_pop_rax) "ldp x8, x30, [sp], #16\nret\n" END(lib_four)
	FUNCTION(lib_five) "nop\nmov x3, x2\n" LABEL(g_syscall) "svc #0\n" LEAVE END(lib_five)
	FUNCTION(lib_six) "mov x3, #0\n" LABEL(g_nops) ".rept 25\nnop\n.endr\n" LEAVE END(lib_six)
	FUNCTION(lib_seven) ENTER LABEL(g_leave) "mov sp, x29\n" LEAVE END(lib_seven)
	FUNCTION(lib_eight) "nop\nmov x3, x16\n" LABEL(g_tail) "ldp x16, x30, [sp], #16\nbr x16\n" END(lib_eight)

	/* the same behind calls */
	FUNCTION(lib_dummy) "ret\n" END(lib_dummy)
	FUNCTION(lib_cp_one) ENTER "bl lib_dummy\n" LABEL(cp_pop_rdi) "ldp x0, x30, [sp], #16\nret\n" END(lib_cp_one)
	FUNCTION(lib_cp_two) ENTER "bl lib_dummy\n" LABEL(cp_pop_rsi) "ldp x1, x30, [sp], #16\nret\n" END(lib_cp_two)
	FUNCTION(lib_cp_three) ENTER "bl lib_dummy\n" LABEL(cp_pop_rdx) "ldp x2, x30, [sp], #16\nret\n" END(lib_cp_three)
	FUNCTION(lib_cp_four) ENTER "bl lib_dummy\n" LABEL(cp_pop_rax) "ldp x8, x30, [sp], #16\nret\n" END(lib_cp_four)
	FUNCTION(lib_cp_five) ENTER "bl lib_dummy\n" LABEL(cp_syscall) "svc #0\n" LEAVE END(lib_cp_five)
	FUNCTION(lib_cp_six) ENTER "bl lib_dummy\n" LABEL(cp_exit) EXIT END(lib_cp_six)

	/* x19 walks over a table of pieces that each come back to the dispatcher */
	FUNCTION(lib_jop) "nop\n" LABEL(jop_dispatch) "ldr x16, [x19, #8]!\nbr x16\n" END(lib_jop)
	FUNCTION(lib_jop_one) "nop\n" LABEL(jop_rdi) VARIABLE(page, "x0") "b jop_dispatch\n" END(lib_jop_one)
	FUNCTION(lib_jop_two) "nop\n" LABEL(jop_rsi) VARIABLE(page_size, "x1") "b jop_dispatch\n" END(lib_jop_two)
	FUNCTION(lib_jop_three) "nop\n" LABEL(jop_rdx) "mov x2, #5\nb jop_dispatch\n" END(lib_jop_three)
	FUNCTION(lib_jop_four) "nop\n" LABEL(jop_rax) "mov x8, #226\nb jop_dispatch\n" END(lib_jop_four)
	FUNCTION(lib_jop_five) "nop\n" LABEL(jop_syscall) "svc #0\nb jop_dispatch\n" END(lib_jop_five)
	FUNCTION(lib_jop_six) "nop\n" LABEL(jop_exit) EXIT END(lib_jop_six)
	FUNCTION(jop_start) "mov x19, x0\nldr x16, [x19]\nbr x16\n" END(jop_start)

	FUNCTION(exit42) EXIT END(exit42)
	FUNCTION(win_other) ENTER LABEL(win_middle)
	VARIABLE(page, "x0") VARIABLE(page_size, "x1") "mov x2, #5\nmov x8, #226\nsvc #0\n" LEAVE END(win_other)

	/* A frame whose place is known: serve() writes over it, and corrupt() over its own. */
	FUNCTION(serve_frame) ENTER "bl serve\n" LEAVE END(serve_frame)
	FUNCTION(corrupt) ENTER "add x3, sp, #8\ncbz x1, 2f\n1: ldr x4, [x0], #8\nstr x4, [x3], #8\nsubs x1, x1, #1\nb.ne 1b\n2: " LEAVE END(corrupt)
	FUNCTION(guess_guard) ENTER "bl _setjmp\n" LABEL(guess_site) LEAVE END(guess_guard)
	/* A21 */
	FUNCTION(patch_me) "nop\n" LABEL(patch_jump) "b 1f\nnop\n1: ret\n" END(patch_me)
	".section .note.GNU-stack,\"\",%progbits\n.text\n");
