brink_bpf_object(snap_follow_impl snap_follow_impl.bpf.c)
