// The placement of memory on NUMA machines: several nodes (sockets), each with its own memory.
#pragma once

namespace krafla {

/// From now on, memory that this process touches first, including the page cache of files, is spread page by
/// page over the nodes that it may use. So the bandwidth of all nodes serves every thread. With only one
/// node, nothing changes. ML_E_UNSUPPORTED if the system has no such policy.
void interleave_memory();

}  // namespace krafla
