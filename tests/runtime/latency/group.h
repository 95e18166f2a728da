// A control group of the tests' own, on v1 or v2, removed at the end.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace brink::latency {

class Group {
 public:
  // Not ok() where the controller is nowhere.
  explicit Group(const std::string& controller) {
    const std::string name = "/brink-test-" + std::to_string(::getpid());
    std::string v1 = "/sys/fs/cgroup/" + controller, v2 = "/sys/fs/cgroup";
    if (::access((v1 + "/tasks").c_str(), W_OK) == 0) path_ = v1 + name;
    else if (::access((v2 + "/cgroup.controllers").c_str(), R_OK) == 0) path_ = v2 + name, is_v2_ = true;
    if (is_v2_) Put(v2 + "/cgroup.subtree_control", "+" + controller);
    if (path_.empty() || ::mkdir(path_.c_str(), 0755) != 0) path_.clear();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    for (int i = 0; i < 100 && !path_.empty() && ::rmdir(path_.c_str()) != 0; ++i) ::usleep(10'000);
  }
  bool ok() const { return !path_.empty(); }
  bool v2() const { return is_v2_; }
  const std::string& path() const { return path_; }
  bool Set(const std::string& file, const std::string& value) const { return Put(path_ + "/" + file, value); }
  void Join() const { Put(path_ + "/cgroup.procs", "0"); }

 private:
  static bool Put(const std::string& file, const std::string& value) {
    int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && ::write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
    ::close(fd);
    return done;
  }
  std::string path_;
  bool is_v2_ = false;
};

}  // namespace brink::latency
