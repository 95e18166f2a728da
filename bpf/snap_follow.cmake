brink_bpf_object(snap_follow snap_follow.bpf.c)
