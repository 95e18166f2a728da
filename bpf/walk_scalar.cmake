brink_bpf_object(walk_scalar walk_scalar.bpf.c)
