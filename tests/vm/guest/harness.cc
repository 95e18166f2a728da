#include "harness.h"

#include <Zydis/Zydis.h>
#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "tests/vm/module/feed.h"

namespace brink::guest {
namespace {

constexpr size_t kRingPages = 256;
constexpr char kDevice[] = "/dev/brink_lbr";

std::string DeviceValue(const std::string& name) {
  std::ifstream file(kDevice);
  for (std::string key, value; file >> key >> value;)
    if (key == name) return value;
  return "";
}

template <typename T>
T Take(const char*& at) {
  T value;
  memcpy(&value, at, sizeof(value));
  at += sizeof(value);
  return value;
}

}  // namespace

bool HasBranchHardware(const std::string& source) { return DeviceValue("source") == source; }

uint64_t DeviceCounter(const std::string& name) { return std::stoull("0" + DeviceValue(name)); }

std::string DeviceText() {
  std::stringstream text;
  text << std::ifstream(kDevice).rdbuf();
  return text.str();
}

void Feed(const std::vector<Stack>& stacks, uint64_t hw_idx) {
  UniqueFd device(open(kDevice, O_WRONLY | O_TRUNC | O_CLOEXEC));
  BRINK_CHECK(device.valid());
  for (const Stack& stack : stacks) {
    lbr_feed_stack fed = {};
    fed.nr = stack.size();
    fed.hw_idx = hw_idx;
    static_assert(sizeof(fed.entries[0]) == sizeof(guest_branch));
    memcpy(fed.entries, stack.data(), stack.size() * sizeof(guest_branch));
    BRINK_CHECK(write(device.get(), &fed, sizeof(fed)) == sizeof(fed));
  }
}

int OpenEvent(const EventOptions& options) {
  perf_event_attr attr = {};
  attr.size = sizeof(attr);
  attr.type = options.type;
  attr.config = options.config;
  attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_BRANCH_STACK;
  attr.branch_sample_type = options.branch_type;
  attr.disabled = options.period != 0;
  attr.exclude_kernel = options.exclude_kernel;
  attr.freq = options.frequency;
  attr.sample_period = options.period;
  attr.wakeup_events = 1 << 30;
  int fd = syscall(SYS_perf_event_open, &attr, options.pid, options.cpu, -1, PERF_FLAG_FD_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

Sampler::Sampler(const EventOptions& options) : branch_type_(options.branch_type) {
  int fd = OpenEvent(options);
  BRINK_CHECK(fd >= 0);
  fd_.Reset(fd);
  void* base = mmap(nullptr, (1 + kRingPages) * getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  BRINK_CHECK(base != MAP_FAILED);
  base_ = static_cast<char*>(base);
}

Sampler::~Sampler() { munmap(base_, (1 + kRingPages) * getpagesize()); }

void Sampler::Start() { BRINK_CHECK(ioctl(fd_.get(), PERF_EVENT_IOC_ENABLE, 0) == 0); }
void Sampler::Stop() { BRINK_CHECK(ioctl(fd_.get(), PERF_EVENT_IOC_DISABLE, 0) == 0); }

std::vector<Sample> Sampler::Read() {
  auto* page = reinterpret_cast<perf_event_mmap_page*>(base_);
  const char* data = base_ + getpagesize();
  const size_t size = kRingPages * getpagesize();
  uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), tail = page->data_tail;
  std::vector<Sample> samples;
  while (tail < head) {
    std::string record;
    perf_event_header header;
    for (size_t i = 0; i < sizeof(header); i++) record.push_back(data[(tail + i) % size]);
    memcpy(&header, record.data(), sizeof(header));
    for (size_t i = sizeof(header); i < header.size; i++) record.push_back(data[(tail + i) % size]);
    tail += header.size;
    if (header.type != PERF_RECORD_SAMPLE) continue;
    const char* at = record.data() + sizeof(header);
    Sample sample;
    sample.ip = Take<uint64_t>(at);
    sample.tgid = Take<uint64_t>(at) & 0xffffffff;
    uint64_t entries = Take<uint64_t>(at);
    if (branch_type_ & PERF_SAMPLE_BRANCH_HW_INDEX) sample.hw_idx = Take<uint64_t>(at);
    for (uint64_t i = 0; i < entries; i++) sample.stack.push_back(Take<guest_branch>(at));
    samples.push_back(std::move(sample));
  }
  __atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
  return samples;
}

KernelSymbols::KernelSymbols() {
  std::ifstream file("/proc/kallsyms");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string address, type, name, module;
    words >> address >> type >> name >> module;
    if (type == "t" || type == "T" || type == "w" || type == "W")
      symbols_[std::stoull(address, nullptr, 16)] = module.empty() ? name : name + " " + module;
  }
}

std::string KernelSymbols::Name(uint64_t address) const {
  auto after = symbols_.upper_bound(address);
  return after == symbols_.begin() ? "?" : std::prev(after)->second;
}

CodeReader::CodeReader() : kcore_(open("/proc/kcore", O_RDONLY | O_CLOEXEC)), memory_(open("/proc/self/mem", O_RDONLY | O_CLOEXEC)) {
  Elf64_Ehdr header;
  if (pread(kcore_.get(), &header, sizeof(header), 0) != sizeof(header)) return;
  for (int i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    if (pread(kcore_.get(), &segment, sizeof(segment), header.e_phoff + i * sizeof(segment)) != sizeof(segment)) return;
    if (segment.p_type == PT_LOAD) segments_.push_back({segment.p_vaddr, segment.p_memsz, segment.p_offset});
  }
}

std::vector<uint8_t> CodeReader::Read(uint64_t address) const {
  std::vector<uint8_t> bytes(15);
  ssize_t got = 0;
  if (InKernel(address)) {
    for (const Segment& s : segments_)
      if (address >= s.start && address - s.start < s.size)
        got = pread(kcore_.get(), bytes.data(), bytes.size(), s.offset + (address - s.start));
  } else {
    got = pread(memory_.get(), bytes.data(), bytes.size(), address);
  }
  bytes.resize(got > 0 ? got : 0);
  return bytes;
}

std::optional<Instruction> Decode(std::span<const uint8_t> bytes) {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder made;
    ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return made;
  }();
  ZydisDecodedInstruction decoded;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, bytes.data(), bytes.size(), &decoded))) return std::nullopt;
  Instruction result;
  result.length = decoded.length;
  result.repeats = decoded.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
  switch (decoded.meta.category) {
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
      result.falls_through = false;
      break;
    default:
      break;
  }
  return result;
}

std::optional<Instruction> CodeReader::At(uint64_t address) {
  auto [entry, fresh] = decoded_.try_emplace(address);
  if (fresh) entry->second = Decode(Read(address));
  return entry->second;
}

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  BRINK_CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

int OnlineCpus() { return sysconf(_SC_NPROCESSORS_ONLN); }

}  // namespace brink::guest
