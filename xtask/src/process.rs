//! Running other programs: which cargo, whether a tool exists, and what a failure looked like.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// The cargo that runs us, at the root of the tree.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// The compiler that this cargo uses.
pub fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// Whether `program` stands in PATH (or, when it holds a slash, exists).
pub fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Runs `command` and returns what it printed; a failure is an error that quotes its stderr.
pub fn output(command: &mut Command) -> Result<Output> {
    let shown = show(command);
    let output = command.output().with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` ended with {}:\n{}", output.status, stderr.trim_end());
    }
    Ok(output)
}

/// As [`output`], but only its standard output, as text.
pub fn stdout(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&output(command)?.stdout).into_owned())
}

/// The command as one would type it.
pub fn show(command: &Command) -> String {
    let mut words = vec![quote(command.get_program())];
    words.extend(command.get_args().map(quote));
    words.join(" ")
}

fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_blanks_are_shown_quoted() {
        let mut command = Command::new("a");
        command.args(["b c", "d-e=f", "it's"]);
        assert_eq!(show(&command), r"a 'b c' d-e=f 'it'\''s'");
    }

    #[test]
    fn a_failure_quotes_what_the_program_said() {
        let error = output(Command::new("sh").args(["-c", "echo no room >&2; exit 3"]));
        assert!(format!("{:#}", error.unwrap_err()).contains("no room"));
    }
}
