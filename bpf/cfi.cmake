brink_bpf_object(cfi cfi.bpf.c)
