// Where memory lies on machines of several nodes (sockets), each with its own.
#pragma once

namespace krafla {

/// Memory that this process touches first from now on, the page cache of files included, is spread page by
/// page over the nodes that it may use: every node's bandwidth serves every thread. Nothing changes where
/// there is but one. ML_E_UNSUPPORTED where the system has no such policies.
void interleave_memory();

}  // namespace krafla
