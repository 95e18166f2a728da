#include "gdb_remote.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace brink::walk_test {
namespace {

int Digit(char c) { return c >= 'a' ? c - 'a' + 10 : c >= 'A' ? c - 'A' + 10 : c - '0'; }

// Bytes of a text of hexadecimal digits.
bool FromHex(const std::string& text, size_t at, void* to, size_t size) {
  if (at + 2 * size > text.size()) return false;
  for (size_t i = 0; i < size; ++i) static_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(Digit(text[at + 2 * i]) << 4 | Digit(text[at + 2 * i + 1]));
  return true;
}

std::string Number(const char* format, uint64_t a, uint64_t b = 0) {
  char text[64];
  std::snprintf(text, sizeof text, format, static_cast<unsigned long>(a), static_cast<unsigned long>(b));
  return text;
}

const char* Emulator() {
  for (const char* path : {"/usr/bin/qemu-aarch64-static", "/usr/bin/qemu-aarch64"}) {
    if (::access(path, X_OK) == 0) return path;
  }
  return nullptr;
}

std::string Framed(const std::string& packet) {
  unsigned sum = 0;
  for (char c : packet) sum += static_cast<unsigned char>(c);
  return "$" + packet + Number("#%02lx", sum & 0xff);
}

int Connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  // The emulator makes the socket when it is ready.
  for (int i = 0; i < 3000; ++i) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
    ::close(fd);
    ::usleep(10'000);
  }
  return -1;
}

}  // namespace

std::unique_ptr<GdbRemote> GdbRemote::Start(const std::vector<std::string>& command, const std::string& sysroot) {
  const char* emulator = Emulator();
  char folder[] = "/tmp/a64_gdb_XXXXXX";
  if (!emulator || !::mkdtemp(folder)) return nullptr;
  const std::string path = std::string(folder) + "/s";
  std::vector<std::string> words = {emulator, "-cpu", "max,sve=off,sme=off", "-g", path};
  if (!sysroot.empty()) words.insert(words.end(), {"-L", sysroot});
  words.insert(words.end(), command.begin(), command.end());
  const pid_t child = ::fork();
  if (child < 0) return nullptr;
  if (child == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  std::unique_ptr<GdbRemote> remote(new GdbRemote(child, Connect(path)));
  ::unlink(path.c_str());
  ::rmdir(folder);
  std::string answer;
  if (remote->fd_ < 0 || !remote->Ask("qSupported:xmlRegisters=i386", &answer) || !remote->Ask("?", &answer)) return nullptr;
  remote->FindThreadBase();
  return remote;
}

GdbRemote::~GdbRemote() {
  if (fd_ >= 0) ::close(fd_);
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

bool GdbRemote::Write(const std::string& text) {
  return ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

bool GdbRemote::Receive(std::string* packet) {
  for (;;) {
    const size_t start = buffer_.find('$'), end = start == std::string::npos ? start : buffer_.find('#', start);
    if (end != std::string::npos && end + 2 < buffer_.size()) {
      *packet = buffer_.substr(start + 1, end - start - 1);
      buffer_.erase(0, end + 3);
      return ::send(fd_, "+", 1, MSG_NOSIGNAL) == 1;
    }
    char bytes[65536];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(n));
  }
}

bool GdbRemote::Ask(const std::string& packet, std::string* answer) { return Write(Framed(packet)) && Receive(answer); }

// The description of the target has the numbers of its system registers.
void GdbRemote::FindThreadBase() {
  std::string all, part;
  // The stub has a number for each only after the list of descriptions was asked for.
  if (!Ask("qXfer:features:read:target.xml:0,ffb", &part)) return;
  do {
    if (!Ask(Number("qXfer:features:read:system-registers.xml:%lx,7fb", all.size()), &part) || part.size() < 2) break;
    all += part.substr(1);
  } while (part[0] == 'm');
  const size_t at = all.find("name=\"TPIDR_EL0\"");
  if (at == std::string::npos) return;
  const size_t begin = all.rfind('<', at), number = all.find("regnum=\"", begin), end = all.find('>', begin);
  if (number != std::string::npos && number < end) thread_base_ = std::atoi(all.c_str() + number + 8);
}

bool GdbRemote::ReadRegisters(walk::A64Registers* out, bool vectors) {
  std::string answer;
  *out = {};
  if (!Ask("g", &answer)) return false;
  uint32_t pstate = 0;
  if (!FromHex(answer, 0, out->x, sizeof out->x) || !FromHex(answer, 31 * 16, &out->sp, 8) || !FromHex(answer, 32 * 16, &out->ip, 8) ||
      !FromHex(answer, 33 * 16, &pstate, 4)) {
    return false;
  }
  out->pstate = pstate;
  if (vectors) {
    out->vector.emplace();
    for (uint64_t i = 0; i < 32; ++i) {
      if (!Ask(Number("p%lx", 34 + i), &answer) || !FromHex(answer, 0, (*out->vector)[i].data(), 16)) return false;
    }
  }
  uint64_t base = 0;
  if (thread_base_ >= 0 && Ask(Number("p%lx", static_cast<uint64_t>(thread_base_)), &answer) && FromHex(answer, 0, &base, 8)) out->tpidr = base;
  return true;
}

bool GdbRemote::ReadMemory(uint64_t address, void* to, size_t size) {
  constexpr size_t kMost = 1024;
  std::string answer;
  for (size_t done = 0; done < size;) {
    const size_t now = std::min(kMost, size - done);
    if (!Ask(Number("m%lx,%lx", address + done, now), &answer) || answer.size() < 2 * now) return false;
    if (!FromHex(answer, 0, static_cast<uint8_t*>(to) + done, now)) return false;
    done += now;
  }
  return true;
}

bool GdbRemote::Step(uint64_t* address) {
  std::string answer;
  // Both questions in one piece: the stub answers in order, but forgets what comes while it waits for a '+'.
  if (!Write(address ? Framed("p20") + Framed("s") : Framed("s"))) return false;
  if (address && (!Receive(&answer) || !FromHex(answer, 0, address, 8))) return false;
  return Receive(&answer) && !answer.empty() && answer[0] == 'T';
}

bool GdbRemote::RunTo(uint64_t address) {
  std::string answer;
  if (!Ask(Number("Z0,%lx,4", address), &answer) || answer != "OK") return false;
  const bool stopped = Ask("c", &answer) && !answer.empty() && answer[0] == 'T';
  return stopped && Ask(Number("z0,%lx,4", address), &answer) && answer == "OK";
}

uint64_t GdbRemote::pc() {
  std::string answer;
  uint64_t pc = 0;
  return Ask("p20", &answer) && FromHex(answer, 0, &pc, 8) ? pc : 0;
}

}  // namespace brink::walk_test
