#include "monitor/sinks.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include <absl/strings/str_format.h>

#include "base/fd.h"
#include "base/strings.h"

namespace brink::cfi {
namespace {

constexpr int kPatienceMs = 1000;
using Format = std::function<std::string(const Alarm&, const TextOptions&)>;

class FileSink : public AlarmSink {
 public:
  FileSink(UniqueFd fd, Format format, TextOptions options) : fd_(std::move(fd)), format_(std::move(format)), options_(std::move(options)) {}
  Status Write(const Alarm& alarm) override {
    std::string text = format_(alarm, options_);
    if (!text.ends_with('\n')) text += '\n';
    return WriteAll(fd_.get(), text.data(), text.size());
  }

 private:
  UniqueFd fd_;
  Format format_;
  TextOptions options_;
};

// Waits for a descriptor without blocking for good.
Status Ready(int fd, short events) {
  pollfd wait = {fd, events, 0};
  const int n = poll(&wait, 1, kPatienceMs);
  return n > 0 ? OkStatus() : n == 0 ? Unavailable("no answer within a second") : ErrnoError(errno, "poll");
}

Status SendAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
    else if (errno == EAGAIN) RETURN_IF_ERROR(Ready(fd, POLLOUT));
    else if (errno != EINTR) return ErrnoError(errno, "send");
  }
  return OkStatus();
}

Status Connect(int fd, const sockaddr* address, socklen_t size) {
  if (connect(fd, address, size) == 0) return OkStatus();
  if (errno != EINPROGRESS && errno != EAGAIN) return ErrnoError(errno, "connect");
  RETURN_IF_ERROR(Ready(fd, POLLOUT));
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error ? ErrnoError(error, "connect") : OkStatus();
}

class UnixSink : public AlarmSink {
 public:
  UnixSink(std::string path, TextOptions options) : path_(std::move(path)), options_(std::move(options)) {}
  Status Write(const Alarm& alarm) override {
    const std::string text = AlarmJson(alarm, options_) + "\n";
    // The listener may have been restarted: once more with a new connection.
    if (fd_.valid() && SendAll(fd_.get(), text).ok()) return OkStatus();
    RETURN_IF_ERROR(Open());
    Status sent = SendAll(fd_.get(), text);
    if (!sent.ok()) fd_.Reset();
    return sent;
  }

 private:
  Status Open() {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path_.size() >= sizeof address.sun_path) return InvalidArgument("unix: the path is too long");
    std::memcpy(address.sun_path, path_.data(), path_.size());
    fd_.Reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd_.valid()) return ErrnoError(errno, "socket");
    return Connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  std::string path_;
  TextOptions options_;
  UniqueFd fd_;
};

class WebhookSink : public AlarmSink {
 public:
  WebhookSink(std::string host, std::string port, std::string path, TextOptions options) : host_(std::move(host)), port_(std::move(port)), path_(std::move(path)), options_(std::move(options)) {}
  Status Write(const Alarm& alarm) override {
    const std::string body = AlarmJson(alarm, options_);
    addrinfo hints = {}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (int error = getaddrinfo(host_.c_str(), port_.c_str(), &hints, &found)) return Unavailable("webhook: " + std::string(gai_strerror(error)));
    Status status = Unavailable("webhook: no address");
    for (addrinfo* at = found; at && !status.ok(); at = at->ai_next) {
      UniqueFd fd(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      status = fd.valid() ? Connect(fd.get(), at->ai_addr, at->ai_addrlen) : ErrnoError(errno, "socket");
      if (status.ok()) status = Post(fd.get(), body);
    }
    freeaddrinfo(found);
    return status;
  }

 private:
  Status Post(int fd, const std::string& body) {
    RETURN_IF_ERROR(SendAll(fd, absl::StrFormat("POST %s HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", path_, host_, port_, body.size()) + body));
    RETURN_IF_ERROR(Ready(fd, POLLIN));
    char answer[64] = {};
    const ssize_t n = recv(fd, answer, sizeof answer - 1, 0);
    const std::string_view text(answer, n > 0 ? static_cast<size_t>(n) : 0);
    return text.size() > 9 && text[9] == '2' ? OkStatus() : Unavailable("webhook: the server says '" + EscapeForTerminal(text.substr(0, text.find('\r'))) + "'");
  }
  std::string host_, port_, path_;
  TextOptions options_;
};

int Priority(Severity severity) {
  constexpr int kPriorities[] = {LOG_INFO, LOG_NOTICE, LOG_WARNING, LOG_CRIT};
  return kPriorities[static_cast<size_t>(severity)];
}

class SyslogSink : public AlarmSink {
 public:
  SyslogSink() { openlog("brink", LOG_PID | LOG_NDELAY, LOG_AUTHPRIV); }
  ~SyslogSink() override { closelog(); }
  Status Write(const Alarm& alarm) override {
    syslog(LOG_AUTHPRIV | Priority(alarm.severity), "%s", AlarmLine(alarm).c_str());
    return OkStatus();
  }
};

// The journal's own protocol: KEY=VALUE lines in a datagram.
class JournalSink : public AlarmSink {
 public:
  explicit JournalSink(TextOptions options) : options_(std::move(options)) {}
  Status Write(const Alarm& alarm) override {
    UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return ErrnoError(errno, "socket");
    std::string line = AlarmLine(alarm), ids;
    for (const Violation& v : alarm.violations) ids += (ids.empty() ? "" : ",") + std::string(PolicyName(v.policy));
    const std::string text = absl::StrFormat("PRIORITY=%d\nSYSLOG_IDENTIFIER=brink\nMESSAGE=%s\nBRINK_POLICY=%s\nBRINK_SEVERITY=%s\nBRINK_PID=%d\nBRINK_EXEC_ID=%s\nBRINK_ALARM=%s\n", Priority(alarm.severity), line, ids,
                                             std::string(SeverityName(alarm.severity)), alarm.pid, alarm.process.exec_id, AlarmJson(alarm, options_));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, "/run/systemd/journal/socket");
    if (sendto(fd.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) return ErrnoError(errno, "journald");
    return OkStatus();
  }

 private:
  TextOptions options_;
};

StatusOr<std::unique_ptr<AlarmSink>> MakeWebhook(std::string_view url, const TextOptions& options) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return InvalidArgument("--sink webhook: only http:// (put a proxy that speaks TLS on this host in front)");
  url.remove_prefix(kScheme.size());
  const size_t slash = std::min(url.find('/'), url.size());
  std::string host(url.substr(0, slash)), port = "80";
  if (size_t colon = host.rfind(':'); colon != host.npos) {
    port = host.substr(colon + 1);
    host.resize(colon);
  }
  if (host.empty() || url.find_first_of(" \r\n") != url.npos) return InvalidArgument("--sink webhook: '" + EscapeForTerminal(url) + "' is no address");
  return std::unique_ptr<AlarmSink>(new WebhookSink(host, port, slash < url.size() ? std::string(url.substr(slash)) : "/", options));
}

}  // namespace

StatusOr<std::unique_ptr<AlarmSink>> MakeSink(std::string_view word, const TextOptions& options) {
  const std::string_view kind = word.substr(0, word.find(':'));
  const std::string place(word.find(':') == word.npos ? "" : word.substr(word.find(':') + 1));
  Format format = kind == "json" ? AlarmJson : kind == "text" ? AlarmText : kind == "ocsf" ? AlarmOcsf : kind == "falco" ? AlarmFalco : Format();
  if (format) {
    if (place.empty() || place == "-") return std::unique_ptr<AlarmSink>(new FileSink(UniqueFd(dup(STDOUT_FILENO)), format, options));
    ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(place, O_WRONLY | O_CREAT | O_APPEND));
    return std::unique_ptr<AlarmSink>(new FileSink(std::move(fd), format, options));
  }
  if (kind == "unix" && !place.empty()) return std::unique_ptr<AlarmSink>(new UnixSink(place, options));
  if (kind == "webhook") return MakeWebhook(place, options);
  if (word == "syslog") return std::unique_ptr<AlarmSink>(new SyslogSink);
  if (word == "journald") return std::unique_ptr<AlarmSink>(new JournalSink(options));
  return InvalidArgument("--sink '" + EscapeForTerminal(word) + "': json, text, ocsf or falco with :FILE or :-, unix:PATH, webhook:http://..., syslog, journald");
}

}  // namespace brink::cfi
