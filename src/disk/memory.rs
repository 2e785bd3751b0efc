//! How much memory there is to use: the machine's, or what the cgroup allows where that is less.

use std::path::Path;

/// Bytes. 2 GiB where nothing can be found out.
pub fn available() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| machine_total(&text));
    let group = std::fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
        group_limit(Path::new("/sys/fs/cgroup"), path)
    });
    machine.into_iter().chain(group).min().unwrap_or(2 << 30)
}

fn machine_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The least `memory.max` from the group up to the root.
fn group_limit(root: &Path, path: &str) -> Option<u64> {
    let group = root.join(path.trim_start_matches('/'));
    group
        .ancestors()
        .take_while(|at| at.starts_with(root))
        .filter_map(|at| std::fs::read_to_string(at.join("memory.max")).ok()?.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(machine_total("MemTotal:       24627416 kB\nMemFree: 1 kB\n"), Some(24_627_416 << 10));
        assert_eq!(machine_total("nothing"), None);
        assert!(available() > 1 << 20);
    }
}
