brink_bpf_object(cfi_lsm cfi_lsm.bpf.c)
