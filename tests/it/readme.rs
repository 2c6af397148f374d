//! The README says what is: its tree is the disk's, its tables are the code's.
//!
//! A table stands between `<!-- begin NAME -->` and `<!-- end NAME -->`; `FOXLAUNCH_BLESS=1 cargo test -p
//! foxlaunch-tests readme` writes them anew.

use crate::source::{entries, root, text};
use clap::CommandFactory;
use foxlaunch::supervisor::record;
use foxlaunch_shared::{env, exit};
use std::fmt::Write;
use std::sync::Mutex;

const BLESS: &str = "FOXLAUNCH_BLESS";
/// Tests run side by side; each that blesses reads and writes the whole file.
static WRITING: Mutex<()> = Mutex::new(());

/// Compares the README's section `name` with `expected`, or writes it if asked to.
pub(crate) fn section(name: &str, expected: &str) {
    let _alone = WRITING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let readme = text("README.md");
    let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
    let bounds = readme.find(&begin).map(|at| at + begin.len()).zip(readme.find(&end));
    let Some((from, to)) = bounds.filter(|(from, to)| from <= to) else {
        panic!("README.md lacks the lines {begin}and {end}, between which this belongs:\n{expected}")
    };
    if readme[from..to] == *expected {
        return;
    }
    if std::env::var_os(BLESS).is_some() {
        let blessed = format!("{}{expected}{}", &readme[..from], &readme[to..]);
        std::fs::write(root().join("README.md"), blessed).expect("README.md can be written");
    } else {
        panic!("README.md, {name}: run {BLESS}=1 cargo test -p foxlaunch-tests readme\nshould be:\n{expected}");
    }
}

#[test]
fn exit_codes_are_the_codes() {
    let mut table = "| code | meaning |\n|---|---|\n".to_owned();
    for (code, meaning) in exit::TABLE {
        let _ = writeln!(table, "| {code} | {} |", cell(meaning));
    }
    table += "| 128 + N | The worker that failed first was killed by signal N. |\n";
    section("exit codes", &table);
}

#[test]
fn variables_are_the_codes() {
    let mut table = "| variable | meaning |\n|---|---|\n".to_owned();
    for (name, meaning) in env::TABLE {
        let _ = writeln!(table, "| `{name}` | {} |", cell(meaning));
    }
    section("variables", &table);
}

#[test]
fn events_are_the_codes() {
    let mut table = "| event | fields | meaning |\n|---|---|---|\n".to_owned();
    for (name, fields, meaning) in record::TABLE {
        let fields = fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" ");
        let _ = writeln!(table, "| `{}` | {fields} | {} |", record::written(name), cell(meaning));
    }
    section("events", &table);
}

#[test]
fn options_are_the_command_lines() {
    let cli = foxlaunch::cli::Cli::command();
    let mut text = String::new();
    options("Before the verb, for every verb:", &cli, &mut text);
    for verb in ["train", "run", "report", "evaluate", "predict", "data", "devices", "doctor", "ls", "stop"] {
        let command = cli.find_subcommand(verb).unwrap_or_else(|| panic!("there is no verb {verb}"));
        options(&format!("`foxlaunch {verb}`:"), command, &mut text);
    }
    section("options", &text);
}

/// A table of what `command` takes.
fn options(title: &str, command: &clap::Command, text: &mut String) {
    let _ = write!(text, "{title}\n\n| option | meaning |\n|---|---|\n");
    for arg in command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str())) {
        let takes = arg.get_action().takes_values();
        let value = arg.get_value_names().filter(|_| takes).and_then(|names| names.first());
        let value = value.map(ToString::to_string).unwrap_or_default();
        let name = match (arg.get_long(), arg.get_short()) {
            (Some(long), None) => format!("--{long} {value}"),
            (Some(long), Some(short)) => format!("-{short}, --{long} {value}"),
            _ => value,
        };
        let also = arg.get_visible_aliases().unwrap_or_default();
        let also = also.iter().map(|alias| format!("; also `--{alias}`")).collect::<String>();
        let default = arg.get_default_values().first().filter(|_| takes).map(|value| format!(" [{}]", value.display()));
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "| `{}` | {}{}{also} |", name.trim(), cell(&help), default.unwrap_or_default());
    }
    text.push('\n');
}

fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|").replace('<', "&lt;")
}

#[test]
fn the_tree_is_the_disks() {
    let readme = {
        let _not_while_blessed = WRITING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        text("README.md")
    };
    let listed = tree(&readme).expect("README.md has a tree");
    assert!(listed.len() > 30, "only {} entries", listed.len());
    let absent = listed.iter().filter(|path| {
        let place = root().join(path);
        if path.ends_with('/') { !place.is_dir() } else { !place.is_file() }
    });
    let mut faults: Vec<String> = absent.map(|path| format!("{path} is in the tree, but not on the disk")).collect();
    let on_disk = expected();
    let unlisted = on_disk.iter().filter(|path| !listed.contains(path));
    faults.extend(unlisted.map(|path| format!("{path} is on the disk, but not in the tree")));
    assert!(faults.is_empty(), "README.md, The tree:\n{}", faults.join("\n"));
}

#[test]
fn a_tree_is_read_as_a_person_reads_it() {
    let page = "# x\n## The tree\n\nwords\n```text\nCargo.toml   one\n\na/src/   two words\n  lib.rs main.rs   maps\n  b/   three\n    c.rs\nd/  four\n```\n";
    let want = ["Cargo.toml", "a/src/", "a/src/lib.rs", "a/src/main.rs", "a/src/b/", "a/src/b/c.rs", "d/"];
    assert_eq!(tree(page).as_deref(), Some(&want.map(str::to_owned)[..]));
    assert_eq!(tree("# x\n## Another\n```\na\n```\n"), None);
}

/// The paths in the fenced block after the heading "The tree". A line is indented by two spaces under its
/// folder and holds one or more names, then two spaces or more and what they are.
fn tree(readme: &str) -> Option<Vec<String>> {
    let (_, after) = readme.split_once("\n## The tree\n")?;
    let block = after.split("```").nth(1)?;
    let (mut paths, mut folders): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for line in block.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let names = line.trim_start();
        let level = (line.len() - names.len()) / 2;
        folders.truncate(level);
        let parent = folders.last().cloned().unwrap_or_default();
        for name in names.split("  ").next().unwrap_or(names).split(' ') {
            let path = format!("{parent}{name}");
            if name.ends_with('/') {
                folders.truncate(level);
                folders.push(path.clone());
            }
            paths.push(path);
        }
    }
    Some(paths)
}

/// What the tree must show: the top level without dot-files and files that every repository has, and each folder
/// and file of Rust directly in a package's source.
fn expected() -> Vec<String> {
    let named = |prefix: &str, (name, is_folder): (String, bool)| match is_folder {
        true => format!("{prefix}{name}/"),
        false => format!("{prefix}{name}"),
    };
    let usual = |name: &str| {
        name.starts_with('.')
            || name.starts_with("LICENSE")
            || ["Cargo.lock", "CHANGELOG.md", "rustfmt.toml"].contains(&name)
    };
    let sourced = ["shared", "launcher", "worker"];
    let mut paths: Vec<String> = entries(&root())
        .into_iter()
        .filter(|(name, _)| !usual(name) && !sourced.contains(&name.as_str()))
        .map(|entry| named("", entry))
        .collect();
    for package in sourced {
        let prefix = format!("{package}/src/");
        let inside = entries(&root().join(&prefix)).into_iter();
        paths.push(prefix.clone());
        paths.extend(
            inside.filter(|(name, folder)| *folder || name.ends_with(".rs")).map(|entry| named(&prefix, entry)),
        );
    }
    paths
}
