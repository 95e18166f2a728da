brink_bpf_object(walk_test walk_test.bpf.c)
