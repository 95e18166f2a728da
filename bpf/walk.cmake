brink_bpf_object(walk walk.bpf.c)
