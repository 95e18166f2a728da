// Seizes threads, waits for their stops and hands them to the engine; attaches, follows children and exec, leaves.
// Lives in the helper process, single-threaded: ptrace belongs to the thread that seized.
#pragma once

#include <map>
#include <memory>

#include "ptrace/protocol.h"
#include "ptrace/ring.h"
#include "ptrace/thread.h"

namespace brink::ptrace {

class Tracer {
 public:
  // `control`: the helper's end of the message socket, non-blocking and set to send SIGIO; owned by the caller.
  Tracer(const FollowConfig& config, SharedRing* ring, int control);
  ~Tracer();

  // Serves until everything is left: on a kLeave message or when the collector is gone. SIGCHLD and SIGIO are blocked
  // in the calling thread.
  void Run();

 private:
  Thread* Find(pid_t tid);
  Thread& Add(pid_t tid, pid_t tgid);
  void Send(MessageType type, pid_t pid = 0, int error = 0, uint32_t value = 0);

  // Control.
  void PollControl();
  void Handle(const Message& message);
  int Attach(pid_t tid, bool with_tick);                 // 0 or errno
  int AttachProcess(pid_t pid, uint32_t* attached);      // 0 or errno
  int Arm(Thread& thread);                               // 0 or errno
  bool WaitForRoom();

  // Stops.
  bool Reap();                                           // false: nothing was there
  void Dispatch(pid_t tid, int status);
  void OnStop(Thread& thread, int signal, int event);
  void OnPtraceEvent(Thread& thread, int signal, int event);
  void OnSigtrap(Thread& thread);
  void OnExec(pid_t pid);
  void OnGone(pid_t tid);

  // Leaving.
  void BeginLeave();
  void LeaveStopped(Thread& thread, int signal, int event);
  void Detach(Thread& thread, int signal);
  bool StillDirty(Thread& thread);
  void NudgeDirty(uint64_t waited_ms);

  FollowConfig config_;
  SharedRing* ring_;
  int control_;
  Recorder recorder_;
  std::unique_ptr<Engine> engine_;
  std::map<pid_t, std::unique_ptr<Thread>> threads_;
  bool leaving_ = false;
  bool orphaned_ = false;      // the collector is gone
  bool data_announced_ = false;
};

}  // namespace brink::ptrace
