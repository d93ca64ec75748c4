//! What a machine is made of and how it is set: read once, before tracing begins.
//!
//! Each function returns the text of one file of the recording, empty where the machine does not
//! say; an empty one is not written.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";
/// Files under `/proc/sys/vm` that act when they are read or written and hold no setting.
const NOT_SETTINGS: &[&str] = &["compact_memory", "drop_caches", "stat_refresh"];

/// The files of the recording that describe the machine: name and text.
#[must_use]
pub fn files() -> Vec<(&'static str, String)> {
    vec![
        ("kernel", line(rustix::system::uname().release().to_string_lossy().into_owned())),
        (
            "cmdline",
            read("/proc/cmdline").map(|text| line(kernel_words(&text))).unwrap_or_default(),
        ),
        ("sysctl", sysctl()),
        ("thp", transparent_huge_pages()),
        ("caches", caches()),
        ("cpus", cpus()),
        ("nodes", nodes()),
        ("iomem", system_ram()),
    ]
}

fn line(text: String) -> String {
    format!("{text}\n")
}

/// Contents of a file without blanks at its ends, if it is readable text.
fn read(path: impl AsRef<Path>) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8(bytes).ok()?.trim().to_string())
}

/// The words of the boot line that set the kernel. The first program, and its arguments behind
/// `--`, are not what a recording is about.
fn kernel_words(boot_line: &str) -> String {
    let words = boot_line.split(' ').take_while(|word| *word != "--");
    let kernel = words.filter(|word| !word.starts_with("init=") && !word.starts_with("rdinit="));
    kernel.collect::<Vec<_>>().join(" ")
}

/// Entries of a folder, sorted by name.
fn list(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Folders named `prefix` and a number, by number.
fn numbered(folder: &str, prefix: &str) -> Vec<(u32, PathBuf)> {
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok();
    let mut found: Vec<(u32, PathBuf)> =
        list(folder.as_ref()).into_iter().filter_map(|path| Some((number(&path)?, path))).collect();
    found.sort();
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// `vm.NAME = VALUE` of every setting under `/proc/sys/vm`, and NUMA balancing.
fn sysctl() -> String {
    let mut text = String::new();
    for path in list("/proc/sys/vm".as_ref()) {
        let name = name(&path);
        if NOT_SETTINGS.contains(&name.as_str()) {
            continue;
        }
        if let Some(value) = read(&path) {
            let _ = writeln!(text, "vm.{name} = {value}");
        }
    }
    if let Some(value) = read("/proc/sys/kernel/numa_balancing") {
        let _ = writeln!(text, "kernel.numa_balancing = {value}");
    }
    text
}

/// `NAME = VALUE` of every setting of transparent huge pages, those of each size too. Counters
/// (`stats`) are left out.
fn transparent_huge_pages() -> String {
    let mut text = String::new();
    settings("/sys/kernel/mm/transparent_hugepage".as_ref(), "", &mut text);
    text
}

fn settings(folder: &Path, prefix: &str, text: &mut String) {
    for path in list(folder) {
        let name = format!("{prefix}{}", name(&path));
        if path.is_dir() {
            if !name.ends_with("stats") {
                settings(&path, &format!("{name}/"), text);
            }
        } else if let Some(value) = read(&path) {
            let _ = writeln!(text, "{name} = {value}");
        }
    }
}

/// `cpuN LEVEL TYPE SIZE shared CPUS` of each cache: the limit of a per-CPU list depends on it.
fn caches() -> String {
    let mut text = String::new();
    for (cpu, folder) in numbered(CPUS, "cpu") {
        let cache = folder.join("cache").to_string_lossy().into_owned();
        for (_, index) in numbered(&cache, "index") {
            let value = |file: &str| read(index.join(file));
            let (Some(level), Some(kind)) = (value("level"), value("type")) else {
                continue;
            };
            let size = value("size").unwrap_or_else(|| "?".to_string());
            let shared = value("shared_cpu_list").unwrap_or_else(|| cpu.to_string());
            let _ = writeln!(text, "cpu{cpu} L{level} {kind} {size} shared {shared}");
        }
    }
    text
}

/// Online, present and possible CPUs, and the name of the first one's model.
fn cpus() -> String {
    let mut text = String::new();
    for set in ["online", "present", "possible"] {
        if let Some(cpus) = read(format!("{CPUS}/{set}")) {
            let _ = writeln!(text, "{set} {cpus}");
        }
    }
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    if let Some((_, model)) = model {
        let _ = writeln!(text, "model {}", model.trim());
    }
    text
}

/// `nodeN cpus LIST distance D0 D1 …` of each node.
fn nodes() -> String {
    let mut text = String::new();
    for (node, folder) in numbered(NODES, "node") {
        let cpus = read(folder.join("cpulist")).unwrap_or_default();
        let distance = read(folder.join("distance")).unwrap_or_default();
        let cpus = if cpus.is_empty() { "-" } else { &cpus };
        let _ = writeln!(text, "node{node} cpus {cpus} distance {distance}");
    }
    text
}

/// The ranges of physical memory: `BEGIN-END : System RAM`, bytes in hexadecimal, END included.
fn system_ram() -> String {
    let text = read("/proc/iomem").unwrap_or_default();
    text.lines()
        .filter(|line| !line.starts_with(' ') && line.ends_with(": System RAM"))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_line_is_kept_without_the_first_program() {
        let line = "console=ttyS0 init=/bin/x transparent_hugepage=never -- --secret 5";
        assert_eq!(kernel_words(line), "console=ttyS0 transparent_hugepage=never");
        assert_eq!(kernel_words("quiet"), "quiet");
    }

    #[test]
    fn this_machine_has_a_kernel_and_settings_in_key_value_form() {
        let files = files();
        let text = |name: &str| &files.iter().find(|(file, _)| *file == name).unwrap().1;
        assert!(text("kernel").split('.').count() >= 2, "{:?}", text("kernel"));
        assert!(text("sysctl").contains("vm.swappiness = "));
        assert!(!text("sysctl").contains("stat_refresh"));
        for line in text("sysctl").lines().chain(text("thp").lines()) {
            assert!(line.contains(" = "), "{line:?}");
        }
    }
}
