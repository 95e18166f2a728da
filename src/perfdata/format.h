// The perf.data format as numbers: headers, record types, feature bits, attribute layout.
//
// Sources of every value: include/uapi/linux/perf_event.h (attribute, kernel records, sample fields, branch flags),
// tools/lib/perf/include/perf/event.h (records from 64 up) and tools/perf/util/header.h with
// tools/perf/Documentation/perf.data-file-format.txt (file header, feature sections), Linux 6.1 to 6.12.
// docs/perfdata.md is the page in prose. Nothing here depends on the host's byte order: structs describe native files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace brink::perfdata {

// ---- file header ----

// First eight bytes of file and stream, as a number read in the file's own byte order.
inline constexpr uint64_t kMagic2 = 0x32454c4946524550;  // "PERFILE2"
inline constexpr uint64_t kMagic1 = 0x454c494646524550;  // "PERFFILE": before Linux 3.3, data only
inline constexpr uint64_t kPipeHeaderSize = 16;
inline constexpr uint64_t kFileHeaderSize = 104;

struct FileSection {
  uint64_t offset;
  uint64_t size;
};

struct FileHeader {
  uint64_t magic;
  uint64_t size;       // of this header: 104; 16 in pipe mode, where nothing else follows
  uint64_t attr_size;  // of one entry of `attrs`: attribute plus a FileSection of ids
  FileSection attrs;
  FileSection data;
  FileSection event_types;  // not used since 3.x
  uint64_t features[4];     // bit set; the sections' places follow the data, in the order of the bits
};
static_assert(sizeof(FileHeader) == kFileHeaderSize && offsetof(FileHeader, data) == 40 &&
              offsetof(FileHeader, features) == 72);

struct RecordHeader {
  uint32_t type;
  uint16_t misc;
  uint16_t size;  // with this header
};
static_assert(sizeof(RecordHeader) == 8);

// Longest record, as a multiple of eight.
inline constexpr size_t kMaxRecordSize = 65528;

// ---- event attribute ----

// struct perf_event_attr up to version 8. `size` says how much of it a file holds; what is missing is zero.
struct EventAttr {
  uint32_t type = 0;
  uint32_t size = 0;
  uint64_t config = 0;
  uint64_t sample_period = 0;  // Hz when kAttrFreq is set
  uint64_t sample_type = 0;
  uint64_t read_format = 0;
  uint64_t flags = 0;  // kAttr* bits
  uint32_t wakeup_events = 0;
  uint32_t bp_type = 0;
  uint64_t config1 = 0;             // end of version 0 (64 bytes)
  uint64_t config2 = 0;             // version 1 (72)
  uint64_t branch_sample_type = 0;  // version 2 (80)
  uint64_t sample_regs_user = 0;
  uint32_t sample_stack_user = 0;
  int32_t clockid = 0;           // version 3 (96)
  uint64_t sample_regs_intr = 0; // version 4 (104)
  uint32_t aux_watermark = 0;
  uint16_t sample_max_stack = 0;
  uint16_t reserved2 = 0;  // version 5 (112)
  uint32_t aux_sample_size = 0;
  uint32_t reserved3 = 0;  // version 6 (120)
  uint64_t sig_data = 0;   // version 7 (128); brink keeps its stack notes here (notes.h)
  uint64_t config3 = 0;    // version 8 (136)
};
static_assert(sizeof(EventAttr) == 136 && offsetof(EventAttr, flags) == 40 && offsetof(EventAttr, config2) == 64 &&
              offsetof(EventAttr, branch_sample_type) == 72 && offsetof(EventAttr, clockid) == 92 &&
              offsetof(EventAttr, sample_regs_intr) == 96 && offsetof(EventAttr, sig_data) == 120);

inline constexpr uint32_t kAttrSizeVer0 = 64;
// What brink writes: perf 6.1 refuses a longer one in a file.
inline constexpr uint32_t kAttrSizeWritten = 128;

enum PerfType : uint32_t { kTypeHardware = 0, kTypeSoftware = 1, kTypeTracepoint = 2, kTypeHwCache = 3, kTypeRaw = 4, kTypeBreakpoint = 5 };
enum SoftwareConfig : uint64_t { kSwCpuClock = 0, kSwTaskClock = 1, kSwDummy = 9, kSwBpfOutput = 10 };

// Bits of EventAttr::flags (little-endian positions; a big-endian file counts them from the other end).
inline constexpr uint64_t kAttrDisabled = 1ull << 0;
inline constexpr uint64_t kAttrInherit = 1ull << 1;
inline constexpr uint64_t kAttrPinned = 1ull << 2;
inline constexpr uint64_t kAttrExcludeUser = 1ull << 4;
inline constexpr uint64_t kAttrExcludeKernel = 1ull << 5;
inline constexpr uint64_t kAttrExcludeHv = 1ull << 6;
inline constexpr uint64_t kAttrExcludeIdle = 1ull << 7;
inline constexpr uint64_t kAttrMmap = 1ull << 8;
inline constexpr uint64_t kAttrComm = 1ull << 9;
inline constexpr uint64_t kAttrFreq = 1ull << 10;
inline constexpr uint64_t kAttrEnableOnExec = 1ull << 12;
inline constexpr uint64_t kAttrTask = 1ull << 13;
inline constexpr uint64_t kAttrWatermark = 1ull << 14;
inline constexpr uint64_t kAttrPrecise1 = 1ull << 15;
inline constexpr uint64_t kAttrPrecise2 = 1ull << 16;
inline constexpr uint64_t kAttrMmapData = 1ull << 17;
inline constexpr uint64_t kAttrSampleIdAll = 1ull << 18;
inline constexpr uint64_t kAttrExcludeHost = 1ull << 19;
inline constexpr uint64_t kAttrExcludeGuest = 1ull << 20;
inline constexpr uint64_t kAttrMmap2 = 1ull << 23;
inline constexpr uint64_t kAttrCommExec = 1ull << 24;
inline constexpr uint64_t kAttrUseClockid = 1ull << 25;
inline constexpr uint64_t kAttrContextSwitch = 1ull << 26;
inline constexpr uint64_t kAttrNamespaces = 1ull << 28;
inline constexpr uint64_t kAttrKsymbol = 1ull << 29;
inline constexpr uint64_t kAttrBpfEvent = 1ull << 30;
inline constexpr uint64_t kAttrCgroup = 1ull << 32;
inline constexpr uint64_t kAttrTextPoke = 1ull << 33;
inline constexpr uint64_t kAttrBuildId = 1ull << 34;
inline constexpr uint64_t kAttrInheritThread = 1ull << 35;
inline constexpr uint64_t kAttrSigtrap = 1ull << 37;

// EventAttr::sample_type, in bit order. The order of the fields in a record is another: see sample.h.
enum SampleType : uint64_t {
  kSampleIp = 1ull << 0, kSampleTid = 1ull << 1, kSampleTime = 1ull << 2, kSampleAddr = 1ull << 3,
  kSampleRead = 1ull << 4, kSampleCallchain = 1ull << 5, kSampleId = 1ull << 6, kSampleCpu = 1ull << 7,
  kSamplePeriod = 1ull << 8, kSampleStreamId = 1ull << 9, kSampleRaw = 1ull << 10, kSampleBranchStack = 1ull << 11,
  kSampleRegsUser = 1ull << 12, kSampleStackUser = 1ull << 13, kSampleWeight = 1ull << 14, kSampleDataSrc = 1ull << 15,
  kSampleIdentifier = 1ull << 16, kSampleTransaction = 1ull << 17, kSampleRegsIntr = 1ull << 18,
  kSamplePhysAddr = 1ull << 19, kSampleAux = 1ull << 20, kSampleCgroup = 1ull << 21, kSampleDataPageSize = 1ull << 22,
  kSampleCodePageSize = 1ull << 23, kSampleWeightStruct = 1ull << 24,
};
inline constexpr uint64_t kSampleKnown = (1ull << 25) - 1;

// EventAttr::read_format.
enum ReadFormat : uint64_t {
  kReadTotalTimeEnabled = 1 << 0, kReadTotalTimeRunning = 1 << 1, kReadId = 1 << 2, kReadGroup = 1 << 3, kReadLost = 1 << 4,
};

// EventAttr::branch_sample_type.
enum BranchSampleType : uint64_t {
  kBranchUser = 1 << 0, kBranchKernel = 1 << 1, kBranchHv = 1 << 2, kBranchAny = 1 << 3, kBranchAnyCall = 1 << 4,
  kBranchAnyReturn = 1 << 5, kBranchIndCall = 1 << 6, kBranchAbortTx = 1 << 7, kBranchInTx = 1 << 8,
  kBranchNoTx = 1 << 9, kBranchCond = 1 << 10, kBranchCallStack = 1 << 11, kBranchIndJump = 1 << 12,
  kBranchCall = 1 << 13, kBranchNoFlags = 1 << 14, kBranchNoCycles = 1 << 15, kBranchTypeSave = 1 << 16,
  kBranchHwIndex = 1 << 17, kBranchPrivSave = 1 << 18, kBranchCounters = 1 << 19,
};

// Markers inside a call chain.
enum CallchainContext : uint64_t {
  kContextHv = static_cast<uint64_t>(-32), kContextKernel = static_cast<uint64_t>(-128),
  kContextUser = static_cast<uint64_t>(-512), kContextMax = static_cast<uint64_t>(-4095),
};

// ---- records ----

enum RecordType : uint32_t {
  // from the kernel
  kRecordMmap = 1, kRecordLost = 2, kRecordComm = 3, kRecordExit = 4, kRecordThrottle = 5, kRecordUnthrottle = 6,
  kRecordFork = 7, kRecordRead = 8, kRecordSample = 9, kRecordMmap2 = 10, kRecordAux = 11, kRecordItraceStart = 12,
  kRecordLostSamples = 13, kRecordSwitch = 14, kRecordSwitchCpuWide = 15, kRecordNamespaces = 16, kRecordKsymbol = 17,
  kRecordBpfEvent = 18, kRecordCgroup = 19, kRecordTextPoke = 20, kRecordAuxOutputHwId = 21,
  // from the tool
  kRecordUserFirst = 64, kRecordHeaderAttr = 64, kRecordHeaderEventType = 65, kRecordHeaderTracingData = 66,
  kRecordHeaderBuildId = 67, kRecordFinishedRound = 68, kRecordIdIndex = 69, kRecordAuxtraceInfo = 70,
  kRecordAuxtrace = 71, kRecordAuxtraceError = 72, kRecordThreadMap = 73, kRecordCpuMap = 74, kRecordStatConfig = 75,
  kRecordStat = 76, kRecordStatRound = 77, kRecordEventUpdate = 78, kRecordTimeConv = 79, kRecordHeaderFeature = 80,
  kRecordCompressed = 81, kRecordFinishedInit = 82, kRecordCompressed2 = 83, kRecordBpfMetadata = 84,
  kRecordTypeLimit = 128,
};

// RecordHeader::misc.
inline constexpr uint16_t kMiscCpumodeMask = 7;
inline constexpr uint16_t kMiscKernel = 1;
inline constexpr uint16_t kMiscUser = 2;
inline constexpr uint16_t kMiscHypervisor = 3;
inline constexpr uint16_t kMiscGuestKernel = 4;
inline constexpr uint16_t kMiscGuestUser = 5;
inline constexpr uint16_t kMiscMmapData = 1 << 13;
inline constexpr uint16_t kMiscCommExec = 1 << 13;
inline constexpr uint16_t kMiscSwitchOut = 1 << 13;
inline constexpr uint16_t kMiscExactIp = 1 << 14;
inline constexpr uint16_t kMiscMmapBuildId = 1 << 14;
// In build-id entries: the byte after the 20 of the id holds its length.
inline constexpr uint16_t kMiscBuildIdSize = 1 << 15;

// EVENT_UPDATE kinds.
enum EventUpdateType : uint64_t { kUpdateUnit = 0, kUpdateScale = 1, kUpdateName = 2, kUpdateCpus = 3 };

// ---- feature sections ----

enum Feature : uint32_t {
  kFeatureTracingData = 1, kFeatureBuildId = 2, kFeatureHostname = 3, kFeatureOsRelease = 4, kFeatureVersion = 5,
  kFeatureArch = 6, kFeatureNrCpus = 7, kFeatureCpuDesc = 8, kFeatureCpuid = 9, kFeatureTotalMem = 10,
  kFeatureCmdline = 11, kFeatureEventDesc = 12, kFeatureCpuTopology = 13, kFeatureNumaTopology = 14,
  kFeatureBranchStack = 15, kFeaturePmuMappings = 16, kFeatureGroupDesc = 17, kFeatureAuxtrace = 18, kFeatureStat = 19,
  kFeatureCache = 20, kFeatureSampleTime = 21, kFeatureMemTopology = 22, kFeatureClockid = 23, kFeatureDirFormat = 24,
  kFeatureBpfProgInfo = 25, kFeatureBpfBtf = 26, kFeatureCompressed = 27, kFeatureCpuPmuCaps = 28,
  kFeatureClockData = 29, kFeatureHybridTopology = 30, kFeaturePmuCaps = 31, kFeatureLimit = 256,
};

// Strings of feature sections: u32 length, then bytes, NUL padded to this.
inline constexpr size_t kNameAlign = 64;
inline constexpr size_t kBuildIdMax = 20;

}  // namespace brink::perfdata
