//! The available memory: the machine's, or less by the limits of the cgroup or of the process.

use std::path::Path;
use std::sync::OnceLock;

/// The available memory in bytes; 2 GiB if it is unknown.
pub(crate) fn available() -> u64 {
    static AVAILABLE: OnceLock<u64> = OnceLock::new();
    *AVAILABLE.get_or_init(measured)
}

fn measured() -> u64 {
    let machine =
        std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| machine_total(&text));
    let groups = std::fs::read_to_string("/proc/self/cgroup");
    let group = groups.ok().and_then(|text| groups_limit(&text, Path::new("/sys/fs/cgroup")));
    // Stacks, the program itself and mapped files count against these.
    let process =
        [ADDRESS_SPACE, DATA].into_iter().filter_map(limit_of_process).map(|most| most / 2);
    machine.into_iter().chain(group).chain(process).min().unwrap_or(2 << 30)
}

/// Limits of the process, as `/proc/self/limits` names them.
pub(crate) const ADDRESS_SPACE: &str = "Max address space";
pub(crate) const DATA: &str = "Max data size";
#[cfg(feature = "sql")]
pub(crate) const PROCESSES: &str = "Max processes";

/// A limit of the process that is in force; `None` if it is unlimited or unknown.
pub(crate) fn limit_of_process(name: &str) -> Option<u64> {
    soft_limit(&std::fs::read_to_string("/proc/self/limits").ok()?, name)
}

fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The memory limit of a process if nobody sets one, in bytes: 70 % of what is available, or less
/// where that would not leave 256 MiB to what no limit counts (the program itself, buffers of
/// operators, memory that the allocator returns late); a quarter at least.
pub fn default_limit() -> u64 {
    limit_of(available())
}

fn limit_of(available: u64) -> u64 {
    (available / 10 * 7).min(available.saturating_sub(256 << 20)).max(available / 4)
}

fn machine_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The least limit of the cgroups that the process is in, by its `/proc/self/cgroup`: the group of
/// all controllers (version 2), or that of the memory controller (version 1), and their ancestors.
fn groups_limit(groups: &str, mounted: &Path) -> Option<u64> {
    let limit = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        if controllers.is_empty() {
            return least(mounted, path, "memory.max");
        }
        let is_memory = controllers.split(',').any(|controller| controller == "memory");
        is_memory.then(|| least(&mounted.join("memory"), path, "memory.limit_in_bytes"))?
    };
    groups.lines().filter_map(limit).min()
}

/// The least number in files of this name, from the group up to the root.
fn least(root: &Path, path: &str, file: &str) -> Option<u64> {
    let group = root.join(path.trim_start_matches('/'));
    group
        .ancestors()
        .take_while(|at| at.starts_with(root))
        .filter_map(|at| std::fs::read_to_string(at.join(file)).ok()?.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(
            machine_total("MemTotal:       24627416 kB\nMemFree: 1 kB\n"),
            Some(24_627_416 << 10)
        );
        assert_eq!(machine_total("nothing"), None);
        assert!(available() > 1 << 20);
    }

    #[test]
    fn reads_limits_of_the_process() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max data size             unlimited            unlimited            bytes\n\
                      Max address space         614400000            unlimited            bytes\n";
        assert_eq!(soft_limit(limits, ADDRESS_SPACE), Some(614_400_000));
        assert_eq!(soft_limit(limits, DATA), None);
    }

    #[test]
    fn the_default_limit_leaves_memory_to_the_rest() {
        assert_eq!(limit_of(10 << 30), (10 << 30) / 10 * 7);
        assert_eq!(limit_of(400 << 20), 144 << 20);
        assert_eq!(limit_of(200 << 20), 50 << 20);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "need not be durable")]
    fn knows_both_versions_of_groups() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let limit = |groups: &str| groups_limit(groups, dir.path());
        write("a/b/memory.max", "max\n");
        assert_eq!(limit("0::/a/b\n"), None);
        write("a/memory.max", "1000\n");
        assert_eq!(limit("0::/a/b\n"), Some(1000));
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/x/memory.limit_in_bytes", "500\n");
        assert_eq!(limit("4:cpuset:/x\n3:memory:/x\n"), Some(500));
        // In a container, the path is the host's, and only its end is visible.
        assert_eq!(limit("12:memory,hugetlb:/docker/1234\n0::/a\n"), Some(1000));
        assert_eq!(limit("3:memory:/nowhere\n"), Some(9_223_372_036_854_771_712));
        assert_eq!(limit("nothing\n:\n"), None);
    }
}
